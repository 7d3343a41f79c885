//! The certificate of a sidecar: whether it is there, and names the node.

use api::SeiNode;
use api::cert_manager::Certificate;
use api::condition::SidecarTLSSecretReady as Reason;
use api::names::{data_key, object};
use api::sei_node::{ObservedTls, Scheme};
use k8s_openapi::api::core::v1::Secret;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::node::world::{SecretSight, World};

/// The type of a Secret that holds a certificate.
const TYPE: &str = "kubernetes.io/tls";

/// What TLS of a sidecar has, and lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// In one word.
    pub(crate) reason: Reason,
    /// In words for people.
    pub(crate) message: String,
}

/// The host names that a node's certificate must have.
pub(crate) fn required_names(node: &SeiNode) -> [String; 2] {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let namespace = node.metadata.namespace.as_deref().unwrap_or_default();
    [object::service_host(name, namespace), object::pod_host(name, namespace)]
}

/// Looks at everything that TLS as wanted needs.
pub(crate) fn check(node: &SeiNode, wanted: &ObservedTls, world: &World) -> Finding {
    if wanted.scheme == Scheme::Http {
        return finding(Reason::TLSNotRequested, "spec.sidecar.tls is not set");
    }
    let name = wanted.secret_name.as_deref().unwrap_or_default();
    if wanted.issuer_name.is_some()
        && let Some(finding) = not_issued(name, wanted, world.certificate.as_deref())
    {
        return finding;
    }
    match world.secrets.get(name) {
        Some(SecretSight::Found(secret)) => check_secret(node, name, secret),
        Some(SecretSight::Unreadable(why)) => {
            finding(Reason::TLSSecretUnavailable, format!("Secret {name} cannot be read: {why}"))
        }
        Some(SecretSight::Missing) | None => {
            finding(Reason::TLSSecretNotFound, format!("Secret {name} is not there"))
        }
    }
}

/// What keeps an issuer from issuing. The certificate says it best itself.
fn not_issued(name: &str, wanted: &ObservedTls, certificate: Option<&Certificate>) -> Option<Finding> {
    let issuer = wanted.issuer_name.as_deref().unwrap_or_default();
    let Some(certificate) = certificate else {
        return Some(finding(Reason::CertificateNotReady, format!("Certificate {name} is not there yet")));
    };
    let of = |type_: &str| {
        let conditions =
            certificate.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        conditions.iter().find(|condition| condition.type_ == type_)
    };
    let ready = of("Ready");
    // A condition of an older generation speaks of the issuer before.
    let current = ready.is_some_and(|ready| {
        ready.observed_generation.is_none_or(|seen| Some(seen) == certificate.metadata.generation)
    });
    if current
        && ready.is_some_and(|ready| ready.status == "True")
        && certificate.spec.issuer_ref.name == issuer
    {
        return None;
    }
    let (issuing, failed) =
        (of("Issuing"), of("Issuing").filter(|issuing| issuing.reason.as_deref() == Some("Failed")));
    let failed = failed.or_else(|| ready.filter(|ready| ready.reason.as_deref() == Some("Failed")));
    if let Some(failed) = failed {
        let message = failed.message.as_deref().unwrap_or_default();
        return Some(finding(Reason::CertificateFailed, format!("Certificate {name}: {message}")));
    }
    let says = issuing.and_then(|issuing| issuing.message.as_deref());
    let says = says.or_else(|| ready.and_then(|ready| ready.message.as_deref())).unwrap_or("nothing yet");
    let message = format!("Certificate {name} waits for issuer {issuer}; it says: {says}");
    Some(finding(Reason::CertificateNotReady, message))
}

fn check_secret(node: &SeiNode, name: &str, secret: &Secret) -> Finding {
    let malformed = |why: &str| finding(Reason::TLSSecretMalformed, format!("Secret {name} {why}"));
    if secret.type_.as_deref() != Some(TYPE) {
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
        return malformed("has a tls.crt that is no certificate");
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
    let message = format!("the certificate in Secret {name} does not name {}", missing.join(" and "));
    finding(Reason::TLSSecretSANsMismatch, message)
}

/// The SHA-256 of the certificate in a Secret, in hexadecimal.
pub(crate) fn fingerprint(sight: Option<&SecretSight>) -> Option<String> {
    use sha2::{Digest, Sha256};
    let Some(SecretSight::Found(secret)) = sight else { return None };
    let bytes = secret.data.as_ref()?.get(data_key::TLS_CERTIFICATE)?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&bytes.0).ok()?;
    Some(Sha256::digest(&pem.contents).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn finding(reason: Reason, message: impl Into<String>) -> Finding {
    Finding { reason, message: message.into() }
}
