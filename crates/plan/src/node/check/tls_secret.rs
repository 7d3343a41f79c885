//! Validates the certificate of the sidecar API.

use api::SeiNode;
use api::cert_manager::Certificate;
use api::condition::SidecarTLSSecretReady as Reason;
use api::names::{data_key, object};
use api::sei_node::Scheme;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::node::context::kind_of;
use crate::node::observed::{KeyPair, Observed, ObservedSecret, SecretObservation};
use crate::node::tls::{DesiredTls, Issuer};

/// The type of a Secret that holds a certificate.
const SECRET_TYPE: &str = "kubernetes.io/tls";

/// A certificate expires soon if less than this is left of its validity, or less than [`SOON_FRACTION`] of it if that is shorter.
/// cert-manager renews earlier: 15 days before the expiry if it can, and otherwise after two thirds of the lifetime.
const SOON_SECONDS: i64 = 7 * 24 * 60 * 60;
const SOON_FRACTION: i64 = 6;

/// How far the start of the validity may be in the future. Issuers use their own clock, and a renewed certificate must not count as
/// unfit for a few seconds.
const CLOCK_SKEW_SECONDS: i64 = 60;

/// The state of the certificate, as a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    /// When the reason or the message changes by the passage of time alone.
    pub(crate) changes_at: Option<Timestamp>,
}

/// Returns the host names that a node's certificate must have.
pub(crate) fn required_names(node: &SeiNode) -> [String; 2] {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let namespace = node.metadata.namespace.as_deref().unwrap_or_default();
    [object::service_host(name, namespace), object::pod_host(name, namespace)]
}

/// Validates the certificate that the desired TLS configuration needs.
pub(crate) fn check(node: &SeiNode, desired: &DesiredTls, observed: &Observed, now: &Time) -> Finding {
    if desired.scheme == Scheme::Http {
        return finding(Reason::TLSNotRequested, "spec.sidecar.tls is not set");
    }
    let name = desired.secret_name.as_deref().unwrap_or_default();
    let issuer = desired.issuer.as_ref();
    let secret = match observed.secrets.get(name) {
        Some(SecretObservation::Found(found)) => check_secret(node, name, issuer, found, now),
        Some(SecretObservation::Unreadable(why)) => {
            finding(Reason::TLSSecretUnavailable, format!("Secret {name} cannot be read: {why}"))
        }
        Some(SecretObservation::Missing) | None => {
            let advice = if issuer.is_some() { "cert-manager has not created it yet" } else { "create it" };
            finding(Reason::TLSSecretNotFound, format!("Secret {name} not found: {advice}"))
        }
    };
    match issuer.and_then(|issuer| check_issued(name, issuer, observed)) {
        // cert-manager retries with backoff, and its conditions change with every attempt. That the certificate has expired does not.
        Some(issued) if secret.reason != Reason::TLSSecretExpired => issued,
        _ => secret,
    }
}

/// Returns the error of an issuer that failed to issue the certificate.
pub(crate) fn issuance_failure(desired: &DesiredTls, observed: &Observed) -> Option<String> {
    let name = desired.secret_name.as_deref()?;
    let issued = check_issued(name, desired.issuer.as_ref()?, observed)?;
    (issued.reason == Reason::CertificateFailed).then_some(issued.message)
}

/// Returns why a certificate is not issued yet, from the conditions of the Certificate.
fn check_issued(name: &str, issuer: &Issuer, observed: &Observed) -> Option<Finding> {
    let Some(certificate) = observed.certificate.as_deref() else {
        let message = match observed.write_failures.get(kind_of::<Certificate>()) {
            Some(failure) => format!("Certificate {name} cannot be created: {}", failure.message()),
            None => format!("Certificate {name} does not exist yet"),
        };
        return Some(finding(Reason::CertificateNotReady, message));
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

fn check_secret(
    node: &SeiNode,
    name: &str,
    issuer: Option<&Issuer>,
    found: &ObservedSecret,
    now: &Time,
) -> Finding {
    let malformed = |why: &str| {
        let advice = match issuer {
            Some(issuer) => issuer_advice(name, issuer),
            None => format!(
                "replace it with one of type {SECRET_TYPE} that has a certificate in tls.crt and its key in tls.key"
            ),
        };
        finding(Reason::TLSSecretMalformed, format!("Secret {name} {why}: {advice}"))
    };
    if found.secret.type_.as_deref() != Some(SECRET_TYPE) {
        return malformed("is not of type kubernetes.io/tls");
    }
    let Some(certificate) = value(&found.secret, data_key::TLS_CERTIFICATE) else {
        return malformed("has no tls.crt");
    };
    if value(&found.secret, data_key::TLS_KEY).is_none() {
        return malformed("has no tls.key");
    }
    let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(certificate) else {
        return malformed("has a tls.crt that is not PEM");
    };
    let Ok((_, certificate)) = X509Certificate::from_der(&pem.contents) else {
        return malformed("has a tls.crt that is not a valid X.509 certificate");
    };
    match found.key_pair {
        KeyPair::MalformedKey => {
            return malformed("has a tls.key that is not a supported private key in PEM");
        }
        KeyPair::Mismatched => return malformed("has a tls.key that does not belong to its tls.crt"),
        KeyPair::NotChecked | KeyPair::Matching => {}
    }
    let missing = missing_names(node, &certificate);
    if !missing.is_empty() {
        let message = format!(
            "the certificate in Secret {name} is not valid for {}: issue it for these host names",
            missing.join(" and ")
        );
        return finding(Reason::TLSSecretSANsMismatch, message);
    }
    check_validity(name, issuer, &certificate, now)
}

fn missing_names(node: &SeiNode, certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names: Vec<&str> = names
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        })
        .collect();
    required_names(node).into_iter().filter(|name| !names.contains(&name.as_str())).collect()
}

/// Checks that a certificate is valid now. Messages have the time of the expiry and not the time left: each change is a status write.
fn check_validity(
    name: &str,
    issuer: Option<&Issuer>,
    certificate: &X509Certificate<'_>,
    now: &Time,
) -> Finding {
    let validity = certificate.validity();
    let (start, end) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let soon = end - SOON_SECONDS.min((end - start).max(0) / SOON_FRACTION);
    let now = now.0.as_second();
    let advice = issuer.map_or_else(|| "replace it".into(), |issuer| issuer_advice(name, issuer));
    let usable = start.saturating_sub(CLOCK_SKEW_SECONDS);
    let (reason, message, next) = if now < usable {
        let message = format!(
            "the certificate in Secret {name} is not valid before {}: wait until then, or {advice}",
            display(start)
        );
        (Reason::TLSSecretNotYetValid, message, Some(usable))
    } else if now > end {
        let message = format!("the certificate in Secret {name} expired at {}: {advice}", display(end));
        (Reason::TLSSecretExpired, message, None)
    } else if now >= soon {
        let message = format!(
            "Secret {name} has a certificate for the node, which expires at {}: {advice}",
            display(end)
        );
        (Reason::TLSSecretReady, message, Some(end.saturating_add(1)))
    } else {
        let message = format!("Secret {name} has a certificate for the node");
        (Reason::TLSSecretReady, message, Some(soon))
    };
    let changes_at = next.and_then(|next| Timestamp::from_second(next).ok());
    Finding { reason, message, changes_at }
}

fn issuer_advice(name: &str, issuer: &Issuer) -> String {
    format!("check Certificate {name} and its issuer {}", issuer.name)
}

fn display(seconds: i64) -> String {
    Timestamp::from_second(seconds)
        .map_or_else(|_| format!("{seconds} s since 1970"), |time| time.to_string())
}

/// Returns a value that is not empty.
fn value<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let value = secret.data.as_ref()?.get(key).map(|bytes| bytes.0.as_slice());
    value.filter(|bytes| !bytes.is_empty())
}

/// Returns the first certificate in a Secret.
fn first_certificate(secret: &Secret) -> Option<Pem> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(value(secret, data_key::TLS_CERTIFICATE)?).ok()?;
    Some(pem)
}

/// Returns when the certificate in a Secret expires, in seconds since 1970.
#[must_use]
pub fn certificate_expiry(secret: &Secret) -> Option<i64> {
    let pem = first_certificate(secret)?;
    let certificate = pem.parse_x509().ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// Returns the hexadecimal SHA-256 of the certificate in a Secret.
pub(crate) fn fingerprint(observed: Option<&SecretObservation>) -> Option<String> {
    use sha2::{Digest, Sha256};
    let Some(SecretObservation::Found(found)) = observed else { return None };
    let pem = first_certificate(&found.secret)?;
    Some(Sha256::digest(&pem.contents).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn finding(reason: Reason, message: impl Into<String>) -> Finding {
    Finding { reason, message: message.into(), changes_at: None }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::sei_node::IssuerKind;
    use serde_json::json;

    use super::*;

    /// Checks a Certificate of the Issuer ca.
    fn checked(certificate: Certificate) -> Option<Reason> {
        let observed = Observed { certificate: Some(Arc::new(certificate)), ..Observed::default() };
        let issuer = Issuer { name: "ca".into(), kind: IssuerKind::Issuer };
        check_issued("a-sidecar-tls", &issuer, &observed).map(|finding| finding.reason)
    }

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
        checked(certificate)
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
        assert_eq!(checked(certificate), Some(Reason::CertificateNotReady));
    }
}
