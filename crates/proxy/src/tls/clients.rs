//! Who a client certificate names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::identity::UserInfo;

/// The extra field that tells which credential was used.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The attribute of a subject that holds a user id: 0.9.2342.19200300.100.1.1.
const UID: &[u64] = &[0, 9, 2342, 19_200_300, 100, 1, 1];

/// A certificate that names nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nobody {
    /// No authority vouches for it, or not for this use or time.
    #[error("the client certificate is not good: {0}")]
    NotGood(String),
    /// Its subject names no user, or two ids.
    #[error("the subject of the client certificate {0}")]
    Subject(&'static str),
}

/// Who the first of these certificates names, if the authorities vouch for it now; the others are taken for intermediates.
pub(crate) fn named(
    chain: &[CertificateDer<'_>],
    authorities: &RootCertStore,
    now: Duration,
) -> Result<UserInfo, Nobody> {
    let not_good = |why: &dyn std::fmt::Display| Nobody::NotGood(why.to_string());
    let (leaf, intermediates) = chain.split_first().ok_or_else(|| not_good(&"there is none"))?;
    EndEntityCert::try_from(leaf)
        .and_then(|certificate| {
            certificate
                .verify_for_usage(
                    webpki::ALL_VERIFICATION_ALGS,
                    &authorities.roots,
                    intermediates,
                    UnixTime::since_unix_epoch(now),
                    KeyUsage::client_auth(),
                    None,
                    None,
                )
                .map(|_| ())
        })
        .map_err(|error| not_good(&error))?;
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| not_good(&error))?;
    let subject = parsed.subject();
    let text =
        |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().unwrap_or_default().to_owned();
    let name = subject.iter_common_name().last().map(text).unwrap_or_default();
    if name.is_empty() {
        return Err(Nobody::Subject("has no common name, which would be the user"));
    }
    let mut uids = subject
        .iter_attributes()
        .filter(|attribute| attribute.attr_type().iter().is_some_and(|parts| parts.eq(UID.iter().copied())));
    let uid = uids.next().map(text).unwrap_or_default();
    if uids.next().is_some() {
        return Err(Nobody::Subject("has two user ids"));
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
    use testbed::cluster::pki::{Authority, Identity, ServerNames};

    use super::*;

    fn asked(identity: &Identity, authority: &Authority, years: u64) -> Result<UserInfo, Nobody> {
        let chain = [CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
        let roots = crate::tls::pem::authorities(authority.pem().as_bytes()).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        named(&chain, &roots, now + Duration::from_secs(years * 365 * 24 * 3_600))
    }

    /// X509-01.
    #[test]
    fn the_subject_names_the_user_and_the_group() {
        let authority = Authority::new("clients").unwrap();
        let user = asked(&authority.client("alice", Some("team")).unwrap(), &authority, 0).unwrap();
        assert_eq!((user.name.as_str(), user.groups.as_slice()), ("alice", &["team".to_owned()][..]));
        let id = &user.extra[CREDENTIAL_ID][0];
        assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
    }

    /// X509-02 to X509-05.
    #[test]
    fn a_certificate_that_is_not_good_names_nobody() {
        let (authority, other) = (Authority::new("clients").unwrap(), Authority::new("others").unwrap());
        let client = authority.client("alice", None).unwrap();
        assert!(matches!(asked(&client, &other, 0), Err(Nobody::NotGood(_))), "of another authority");
        assert!(matches!(asked(&client, &authority, 5_000), Err(Nobody::NotGood(_))), "expired");
        let server = authority.server("alice", &ServerNames::default()).unwrap();
        assert!(matches!(asked(&server, &authority, 0), Err(Nobody::NotGood(_))), "for servers");
        let nameless = authority.client("", None).unwrap();
        assert!(matches!(asked(&nameless, &authority, 0), Err(Nobody::Subject(_))), "without a name");
        assert!(
            named(&[], &crate::tls::pem::authorities(authority.pem().as_bytes()).unwrap(), Duration::ZERO)
                .is_err()
        );
    }
}
