//! Validates the certificate of the sidecar API.

use api::SeiNode;
use api::cert_manager::Certificate;
use api::condition::SidecarTLSSecretReady as Reason;
use api::names::{data_key, object};
use api::sei_node::Scheme;
use k8s_openapi::api::core::v1::Secret;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::node::observed::{Observed, SecretObservation};
use crate::node::tls::{DesiredTls, Issuer};

/// The type of a Secret that holds a certificate.
const SECRET_TYPE: &str = "kubernetes.io/tls";

/// The state of the certificate, as a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

/// Returns the host names that a node's certificate must have.
pub(crate) fn required_names(node: &SeiNode) -> [String; 2] {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let namespace = node.metadata.namespace.as_deref().unwrap_or_default();
    [object::service_host(name, namespace), object::pod_host(name, namespace)]
}

/// Validates the certificate that the desired TLS configuration needs.
pub(crate) fn check(node: &SeiNode, desired: &DesiredTls, observed: &Observed) -> Finding {
    if desired.scheme == Scheme::Http {
        return finding(Reason::TLSNotRequested, "spec.sidecar.tls is not set");
    }
    let name = desired.secret_name.as_deref().unwrap_or_default();
    if let Some(issuer) = &desired.issuer
        && let Some(finding) = check_issued(name, issuer, observed.certificate.as_deref())
    {
        return finding;
    }
    match observed.secrets.get(name) {
        Some(SecretObservation::Found(secret)) => check_secret(node, name, secret),
        Some(SecretObservation::Unreadable(why)) => {
            finding(Reason::TLSSecretUnavailable, format!("Secret {name} cannot be read: {why}"))
        }
        Some(SecretObservation::Missing) | None => {
            let advice =
                if desired.issuer.is_some() { "cert-manager has not created it yet" } else { "create it" };
            finding(Reason::TLSSecretNotFound, format!("Secret {name} not found: {advice}"))
        }
    }
}

/// Returns why a certificate is not issued yet, from the conditions of the Certificate.
fn check_issued(name: &str, issuer: &Issuer, certificate: Option<&Certificate>) -> Option<Finding> {
    let Some(certificate) = certificate else {
        return Some(finding(Reason::CertificateNotReady, format!("Certificate {name} does not exist yet")));
    };
    let find = |type_: &str| {
        let conditions =
            certificate.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        // A condition of an older generation is about the previous issuer.
        let is_current = |observed: i64| Some(observed) == certificate.metadata.generation;
        let mut current =
            conditions.iter().filter(|condition| condition.observed_generation.is_none_or(is_current));
        current.find(|condition| condition.type_ == type_)
    };
    let ready = find("Ready");
    let reference = &certificate.spec.issuer_ref;
    let is_issuer = reference.name == issuer.name && reference.kind.is_none_or(|kind| kind == issuer.kind);
    if is_issuer && ready.is_some_and(|ready| ready.status == "True") {
        return None;
    }
    let (issuing, failed) =
        (find("Issuing"), find("Issuing").filter(|issuing| issuing.reason.as_deref() == Some("Failed")));
    let failed = failed.or_else(|| ready.filter(|ready| ready.reason.as_deref() == Some("Failed")));
    if let Some(failed) = failed {
        let message = failed.message.as_deref().unwrap_or_default();
        return Some(finding(Reason::CertificateFailed, format!("Certificate {name} failed: {message}")));
    }
    let message = issuing.and_then(|issuing| issuing.message.as_deref());
    let message =
        message.or_else(|| ready.and_then(|ready| ready.message.as_deref())).unwrap_or("no status yet");
    let message = format!("Certificate {name} is waiting for issuer {}: {message}", issuer.name);
    Some(finding(Reason::CertificateNotReady, message))
}

fn check_secret(node: &SeiNode, name: &str, secret: &Secret) -> Finding {
    let malformed = |why: &str| finding(Reason::TLSSecretMalformed, format!("Secret {name} {why}"));
    if secret.type_.as_deref() != Some(SECRET_TYPE) {
        return malformed("is not of type kubernetes.io/tls");
    }
    let value = |key: &str| {
        let value = secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
        value.filter(|bytes| !bytes.is_empty())
    };
    let Some(certificate) = value(data_key::TLS_CERTIFICATE) else {
        return malformed("has no tls.crt");
    };
    if value(data_key::TLS_KEY).is_none() {
        return malformed("has no tls.key");
    }
    let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(certificate) else {
        return malformed("has a tls.crt that is not PEM");
    };
    let Ok((_, certificate)) = X509Certificate::from_der(&pem.contents) else {
        return malformed("has a tls.crt that is not a valid X.509 certificate");
    };
    let names = certificate.subject_alternative_name().ok().flatten();
    let names: Vec<&str> = names
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        })
        .collect();
    let required = required_names(node);
    let missing: Vec<&str> =
        required.iter().map(String::as_str).filter(|name| !names.contains(name)).collect();
    if missing.is_empty() {
        return finding(Reason::TLSSecretReady, format!("Secret {name} has a certificate for the node"));
    }
    let message = format!(
        "the certificate in Secret {name} is not valid for {}: issue it for these host names",
        missing.join(" and ")
    );
    finding(Reason::TLSSecretSANsMismatch, message)
}

/// Returns the hexadecimal SHA-256 of the certificate in a Secret.
pub(crate) fn fingerprint(observed: Option<&SecretObservation>) -> Option<String> {
    use sha2::{Digest, Sha256};
    let Some(SecretObservation::Found(secret)) = observed else { return None };
    let bytes = secret.data.as_ref()?.get(data_key::TLS_CERTIFICATE)?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&bytes.0).ok()?;
    Some(Sha256::digest(&pem.contents).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn finding(reason: Reason, message: impl Into<String>) -> Finding {
    Finding { reason, message: message.into() }
}

#[cfg(test)]
mod tests {
    use api::sei_node::IssuerKind;
    use serde_json::json;

    use super::*;

    /// Checks a Certificate of generation 2 with one condition of another generation.
    fn reason(condition: serde_json::Value, observed: Option<i64>) -> Option<Reason> {
        let mut condition = condition;
        condition["observedGeneration"] = json!(observed);
        let certificate = json!({
            "metadata": { "name": "a-sidecar-tls", "generation": 2 },
            "spec": { "secretName": "a-sidecar-tls", "issuerRef": { "name": "ca", "kind": "Issuer" } },
            "status": { "conditions": [condition] },
        });
        let certificate: Certificate = serde_json::from_value(certificate).unwrap();
        let issuer = Issuer { name: "ca".into(), kind: IssuerKind::Issuer };
        check_issued("a-sidecar-tls", &issuer, Some(&certificate)).map(|finding| finding.reason)
    }

    /// The failure of the previous issuer must not fail the plan that replaces it.
    #[test]
    fn conditions_of_an_older_generation_do_not_count() {
        let failed = || json!({ "type": "Issuing", "status": "False", "reason": "Failed", "message": "no such issuer" });
        assert_eq!(reason(failed(), Some(2)), Some(Reason::CertificateFailed));
        assert_eq!(reason(failed(), None), Some(Reason::CertificateFailed));
        assert_eq!(reason(failed(), Some(1)), Some(Reason::CertificateNotReady));
        let ready = || json!({ "type": "Ready", "status": "True", "reason": "Ready" });
        assert_eq!(reason(ready(), Some(2)), None);
        assert_eq!(reason(ready(), Some(1)), Some(Reason::CertificateNotReady));
    }

    #[test]
    fn certificate_of_another_issuer_kind_does_not_count() {
        let certificate = json!({
            "metadata": { "name": "a-sidecar-tls" },
            "spec": { "secretName": "a-sidecar-tls", "issuerRef": { "name": "ca", "kind": "ClusterIssuer" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let certificate: Certificate = serde_json::from_value(certificate).unwrap();
        let issuer = Issuer { name: "ca".into(), kind: IssuerKind::Issuer };
        let found = check_issued("a-sidecar-tls", &issuer, Some(&certificate)).map(|finding| finding.reason);
        assert_eq!(found, Some(Reason::CertificateNotReady));
    }
}
