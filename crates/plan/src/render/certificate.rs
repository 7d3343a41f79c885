//! The certificate of a node's sidecar.

use api::SeiNode;
use api::cert_manager::{Certificate, CertificateSpec, IssuerRef};
use api::names::object;

use super::{Refusal, meta};
use crate::node;

/// How long a certificate is valid.
const DURATION: &str = "2160h";

/// How long before its end the next one is asked for.
const RENEW_BEFORE: &str = "360h";

/// The group of cert-manager's own issuers.
const ISSUER_GROUP: &str = "cert-manager.io";

/// The certificate of a node's sidecar. Refused for a node that wants none of an issuer.
pub fn certificate(node: &SeiNode) -> Result<Certificate, Refusal> {
    let tls = node::tls(node);
    let (Some(issuer), Some(secret)) = (tls.issuer_name, tls.secret_name) else {
        return Err(Refusal("the spec names no issuer in sidecar.tls".into()));
    };
    let (name, namespace) = (meta::name(node), meta::namespace(node));
    let service = object::service_host(name, namespace);
    Ok(Certificate {
        metadata: meta::of(node, object::sidecar_tls(name), meta::labels(node)),
        spec: CertificateSpec {
            secret_name: secret,
            duration: Some(DURATION.into()),
            renew_before: Some(RENEW_BEFORE.into()),
            common_name: common_name(&service),
            dns_names: vec![service, object::pod_host(name, namespace)],
            issuer_ref: IssuerRef { name: issuer, kind: tls.issuer_kind, group: Some(ISSUER_GROUP.into()) },
        },
        status: None,
    })
}

/// The subject, which nobody checks any more: names count. A longer one than 64 bytes would be refused.
fn common_name(host: &str) -> Option<String> {
    (host.len() <= 64).then(|| host.to_owned())
}
