//! The Certificate of a node's sidecar API.

use api::SeiNode;
use api::cert_manager::{Certificate, CertificateSpec, IssuerRef};
use api::names::object;

use super::{RenderError, meta};
use crate::node;

/// The validity of a certificate.
const DURATION: &str = "2160h";

/// How long before its expiry a certificate is renewed.
const RENEW_BEFORE: &str = "360h";

/// The API group of cert-manager's issuers.
const ISSUER_GROUP: &str = "cert-manager.io";

/// Renders the Certificate of a node's sidecar API. Fails for a node without an issuer.
pub fn certificate(node: &SeiNode) -> Result<Certificate, RenderError> {
    let tls = node::desired_tls(node);
    let (Some(issuer), Some(secret_name)) = (tls.issuer, tls.secret_name) else {
        return Err(RenderError("spec.sidecar.tls has no issuerName".into()));
    };
    let (name, namespace) = (meta::name(node), meta::namespace(node));
    let service = object::service_host(name, namespace);
    Ok(Certificate {
        metadata: meta::object_meta(node, object::sidecar_tls(name), meta::labels(node)),
        spec: CertificateSpec {
            secret_name,
            duration: Some(DURATION.into()),
            renew_before: Some(RENEW_BEFORE.into()),
            common_name: common_name(&service),
            dns_names: vec![service, object::pod_host(name, namespace)],
            issuer_ref: IssuerRef {
                name: issuer.name,
                kind: Some(issuer.kind),
                group: Some(ISSUER_GROUP.into()),
            },
        },
        status: None,
    })
}

/// Returns the common name, or none if it is longer than the allowed 64 bytes. Clients only check the DNS names.
fn common_name(host: &str) -> Option<String> {
    (host.len() <= 64).then(|| host.to_owned())
}
