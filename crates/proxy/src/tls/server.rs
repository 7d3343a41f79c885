//! Server-side TLS.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use super::reload::Reloadable;
use crate::settings::TlsSettings;

/// Parses certificate and private key. They must match.
pub(crate) fn certified_key(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain = super::pem::certificates(certificate)?;
    let key = super::pem::key(key)?;
    let key = aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|error| format!("unusable private key: {error}"))?;
    let certified_key = CertifiedKey::new(chain, key);
    match certified_key.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(certified_key),
        Err(error) => Err(format!("certificate and private key do not match: {error}")),
    }
}

/// Creates the configuration of all TLS listeners.
pub(crate) fn config(
    tls: &TlsSettings,
    http2: bool,
    certified_key: Arc<Reloadable<CertifiedKey>>,
) -> Result<ServerConfig, Error> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(enabled) = &tls.suites {
        // TLS 1.3 suites cannot be configured, as in Go.
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || enabled.contains(&suite.suite()));
    }
    let versions: &[&rustls::SupportedProtocolVersion] =
        if tls.only_tls13 { &[&TLS13] } else { &[&TLS12, &TLS13] };
    let verifier = Arc::new(UnverifiedClientCert { algorithms: provider.signature_verification_algorithms });
    let provider: Arc<CryptoProvider> = Arc::new(provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(ReloadingCertResolver(certified_key)));
    config.alpn_protocols =
        if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    config.send_tls13_tickets = 2;
    Ok(config)
}

/// Serves the certificate in use.
#[derive(Debug)]
struct ReloadingCertResolver(Arc<Reloadable<CertifiedKey>>);

impl ResolvesServerCert for ReloadingCertResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.get())
    }
}

/// Requests a client certificate and accepts any: it is verified per request, because a token may be used
/// instead. The handshake only proves possession of the private key.
#[derive(Debug)]
struct UnverifiedClientCert {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for UnverifiedClientCert {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::self_signed;

    #[test]
    fn mismatched_key_is_rejected() {
        let ((certificate, key), (_, other)) =
            (self_signed::generate().unwrap(), self_signed::generate().unwrap());
        assert!(certified_key(certificate.as_bytes(), key.as_bytes()).is_ok());
        let error = certified_key(certificate.as_bytes(), other.as_bytes()).unwrap_err();
        assert!(error.contains("do not match"), "{error}");
        assert!(certified_key(b"", key.as_bytes()).is_err());
        assert!(certified_key(certificate.as_bytes(), b"nonsense").is_err());
    }
}
