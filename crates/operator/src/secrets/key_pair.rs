//! Checks that the private key of a TLS Secret belongs to its certificate, as the proxy does before it serves them. The key is not kept.

use api::names::data_key;
use k8s_openapi::api::core::v1::Secret;
use plan::node::KeyPair;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

/// Checks the private key of a Secret of any type.
pub(super) fn check(secret: &Secret) -> KeyPair {
    let value =
        |key: &str| Some(secret.data.as_ref()?.get(key)?.0.as_slice()).filter(|bytes| !bytes.is_empty());
    let Some(key) = value(data_key::TLS_KEY).filter(|_| secret.type_.as_deref() == Some(super::TLS_TYPE))
    else {
        return KeyPair::NotChecked;
    };
    let Some(key) = PrivateKeyDer::from_pem_slice(key).ok().and_then(|key| any_supported_type(&key).ok())
    else {
        return KeyPair::MalformedKey;
    };
    let certificate = value(data_key::TLS_CERTIFICATE).map(CertificateDer::from_pem_slice);
    let Some(Ok(certificate)) = certificate else { return KeyPair::NotChecked };
    match CertifiedKey::new(vec![certificate], key).keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => KeyPair::Matching,
        Err(Error::InconsistentKeys(_)) => KeyPair::Mismatched,
        // The certificate is malformed.
        Err(_) => KeyPair::NotChecked,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use testbed::cluster::pki::{CertificateAuthority, ServerNames};

    use super::*;

    fn checked(type_: &str, certificate: &str, key: &str) -> KeyPair {
        let value = |text: &str| ByteString(text.as_bytes().into());
        let data = [
            (data_key::TLS_CERTIFICATE.to_owned(), value(certificate)),
            (data_key::TLS_KEY.to_owned(), value(key)),
        ];
        check(&Secret { type_: Some(type_.into()), data: Some(data.into()), ..Secret::default() })
    }

    #[test]
    fn private_key_must_belong_to_the_first_certificate() {
        let ca = CertificateAuthority::new("ca").unwrap();
        let [one, two] = ["one", "two"].map(|name| ca.issue_server(name, &ServerNames::default()).unwrap());
        let tls = |certificate: &str, key: &str| checked(super::super::TLS_TYPE, certificate, key);
        assert_eq!(tls(&one.certificate, &one.key), KeyPair::Matching);
        assert_eq!(tls(&format!("{}{}", one.certificate, ca.pem()), &one.key), KeyPair::Matching);
        assert_eq!(tls(&one.certificate, &two.key), KeyPair::Mismatched);
        assert_eq!(tls(&one.certificate, "key"), KeyPair::MalformedKey);
        assert_eq!(tls(&one.certificate, &one.certificate), KeyPair::MalformedKey);
        let garbage = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert_eq!(tls(&one.certificate, garbage), KeyPair::MalformedKey);
        // Reported for what else is wrong with them.
        assert_eq!(tls(&one.certificate, ""), KeyPair::NotChecked);
        assert_eq!(tls("certificate", &one.key), KeyPair::NotChecked);
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(tls(garbage, &one.key), KeyPair::NotChecked);
        assert_eq!(checked("Opaque", &one.certificate, &two.key), KeyPair::NotChecked);
    }
}
