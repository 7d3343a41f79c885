//! Authenticates client certificates.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::identity::{CREDENTIAL_ID, UserInfo};

/// The user id attribute of a subject: 0.9.2342.19200300.100.1.1.
const UID: &[u64] = &[0, 9, 2342, 19_200_300, 100, 1, 1];

/// Why a client certificate is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CertificateError {
    /// Not issued by the CA, expired, or not for client authentication.
    #[error("invalid client certificate: {0}")]
    Untrusted(String),
    /// The subject has no user name, or several user ids.
    #[error("invalid client certificate subject: {0}")]
    InvalidSubject(&'static str),
}

/// Returns the user of the first certificate, if the CA certificates verify it; the others are intermediates.
pub(crate) fn user_info(
    chain: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: Duration,
) -> Result<UserInfo, CertificateError> {
    let untrusted = |error: &dyn std::fmt::Display| CertificateError::Untrusted(error.to_string());
    let (leaf, intermediates) = chain.split_first().ok_or_else(|| untrusted(&"no certificate"))?;
    EndEntityCert::try_from(leaf)
        .and_then(|certificate| {
            certificate
                .verify_for_usage(
                    webpki::ALL_VERIFICATION_ALGS,
                    &roots.roots,
                    intermediates,
                    UnixTime::since_unix_epoch(now),
                    KeyUsage::client_auth(),
                    None,
                    None,
                )
                .map(|_| ())
        })
        .map_err(|error| untrusted(&error))?;
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| untrusted(&error))?;
    let subject = parsed.subject();
    let text =
        |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().unwrap_or_default().to_owned();
    let name = subject.iter_common_name().last().map(text).unwrap_or_default();
    if name.is_empty() {
        return Err(CertificateError::InvalidSubject("missing common name (the user name)"));
    }
    let mut uids = subject
        .iter_attributes()
        .filter(|attribute| attribute.attr_type().iter().is_some_and(|parts| parts.eq(UID.iter().copied())));
    let uid = uids.next().map(text).unwrap_or_default();
    if uids.next().is_some() {
        return Err(CertificateError::InvalidSubject("several user ids"));
    }
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, leaf);
    let hex = digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    Ok(UserInfo {
        name,
        uid,
        groups: subject.iter_organization().map(text).collect(),
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hex}")])]),
    })
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;
    use testbed::cluster::pki::{CertificateAuthority, Identity, ServerNames};

    use super::*;

    fn authenticate(
        identity: &Identity,
        ca: &CertificateAuthority,
        years: u64,
    ) -> Result<UserInfo, CertificateError> {
        let chain = [CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
        let roots = crate::tls::pem::root_store(ca.pem().as_bytes()).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        user_info(&chain, &roots, now + Duration::from_secs(years * 365 * 24 * 3_600))
    }

    #[test]
    fn subject_maps_to_user_and_groups() {
        let ca = CertificateAuthority::new("clients").unwrap();
        let user = authenticate(&ca.issue_client("alice", Some("team")).unwrap(), &ca, 0).unwrap();
        assert_eq!((user.name.as_str(), user.groups.as_slice()), ("alice", &["team".to_owned()][..]));
        let id = &user.extra[CREDENTIAL_ID][0];
        assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
    }

    #[test]
    fn untrusted_or_nameless_certificate_is_rejected() {
        let (ca, other_ca) =
            (CertificateAuthority::new("clients").unwrap(), CertificateAuthority::new("others").unwrap());
        let client = ca.issue_client("alice", None).unwrap();
        assert!(
            matches!(authenticate(&client, &other_ca, 0), Err(CertificateError::Untrusted(_))),
            "issued by another CA"
        );
        assert!(matches!(authenticate(&client, &ca, 5_000), Err(CertificateError::Untrusted(_))), "expired");
        let server = ca.issue_server("alice", &ServerNames::default()).unwrap();
        assert!(
            matches!(authenticate(&server, &ca, 0), Err(CertificateError::Untrusted(_))),
            "server certificate"
        );
        let without_name = ca.issue_client("", None).unwrap();
        assert!(
            matches!(authenticate(&without_name, &ca, 0), Err(CertificateError::InvalidSubject(_))),
            "without common name"
        );
        assert!(
            user_info(&[], &crate::tls::pem::root_store(ca.pem().as_bytes()).unwrap(), Duration::ZERO)
                .is_err()
        );
    }
}
