//! How a node's sidecar API is to be served. What is actually served is `ObservedTls` in the status.

use api::SeiNode;
use api::names::object;
use api::sei_node::{IssuerKind, ObservedTls, Scheme};

/// How a node's sidecar API is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredTls {
    /// HTTP or HTTPS.
    pub scheme: Scheme,
    /// The issuer of the certificate, if the operator requests it.
    pub issuer: Option<Issuer>,
    /// The Secret that holds the certificate.
    pub secret_name: Option<String>,
}

/// A cert-manager issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The name of the issuer.
    pub name: String,
    /// Whether it is namespaced.
    pub kind: IssuerKind,
}

/// Returns how a node's sidecar API is to be served.
#[must_use]
pub fn desired_tls(node: &SeiNode) -> DesiredTls {
    let Some(tls) = node.spec.sidecar.as_ref().and_then(|sidecar| sidecar.tls.as_ref()) else {
        return DesiredTls { scheme: Scheme::Http, issuer: None, secret_name: None };
    };
    let issuer = tls.issuer_name.as_ref().map(|name| Issuer {
        name: name.clone(),
        kind: tls.issuer_kind.unwrap_or(IssuerKind::ClusterIssuer),
    });
    let secret_name = match &issuer {
        Some(_) => Some(object::sidecar_tls(node.metadata.name.as_deref().unwrap_or_default())),
        None => tls.secret_name.clone(),
    };
    DesiredTls { scheme: Scheme::Https, issuer, secret_name }
}

impl DesiredTls {
    /// Returns the observation of a sidecar that serves as desired.
    #[must_use]
    pub fn as_observed(&self) -> ObservedTls {
        ObservedTls {
            scheme: self.scheme,
            issuer_name: self.issuer.as_ref().map(|issuer| issuer.name.clone()),
            issuer_kind: self.issuer.as_ref().map(|issuer| issuer.kind),
            secret_name: self.secret_name.clone(),
        }
    }
}

/// Returns the observation of a sidecar that serves without TLS.
pub(super) fn observed_without_tls() -> ObservedTls {
    ObservedTls { scheme: Scheme::Http, issuer_name: None, issuer_kind: None, secret_name: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(sidecar: serde_json::Value) -> SeiNode {
        let spec = json!({ "chainId": "c", "image": "i", "fullNode": {}, "sidecar": sidecar });
        serde_json::from_value(json!({ "metadata": { "name": "a" }, "spec": spec })).unwrap()
    }

    #[test]
    fn desired_tls_observed_keeps_stored_form() {
        for (sidecar, stored) in [
            (json!({}), json!({ "scheme": "http" })),
            (json!({ "tls": { "secretName": "s" } }), json!({ "scheme": "https", "secretName": "s" })),
            (
                json!({ "tls": { "issuerName": "ca" } }),
                json!({
                    "scheme": "https", "issuerName": "ca", "issuerKind": "ClusterIssuer", "secretName": "a-sidecar-tls",
                }),
            ),
            (
                json!({ "tls": { "issuerName": "ca", "issuerKind": "Issuer" } }),
                json!({
                    "scheme": "https", "issuerName": "ca", "issuerKind": "Issuer", "secretName": "a-sidecar-tls",
                }),
            ),
        ] {
            assert_eq!(json!(desired_tls(&node(sidecar)).as_observed()), stored);
        }
        assert_eq!(desired_tls(&node(json!({}))).as_observed(), observed_without_tls());
    }
}
