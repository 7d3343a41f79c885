//! How TLS is served.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use super::reload::Current;
use crate::settings::Tls;

/// The pair that is served, from the content of its two files. They must fit together.
pub(crate) fn pair(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain = super::pem::certificates(certificate)?;
    let key = super::pem::key(key)?;
    let key = aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|error| format!("the key cannot be used: {error}"))?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(pair),
        Err(error) => Err(format!("certificate and key do not fit together: {error}")),
    }
}

/// The configuration of all TLS listeners.
pub(crate) fn config(
    tls: &Tls,
    http2: bool,
    pair: Arc<Current<CertifiedKey>>,
) -> Result<ServerConfig, Error> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(wanted) = &tls.suites {
        // Those of TLS 1.3 cannot be chosen, as in Go.
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || wanted.contains(&suite.suite()));
    }
    let versions: &[&rustls::SupportedProtocolVersion] =
        if tls.only_13 { &[&TLS13] } else { &[&TLS12, &TLS13] };
    let verifier = Arc::new(AskedFor { algorithms: provider.signature_verification_algorithms });
    let provider: Arc<CryptoProvider> = Arc::new(provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(Served(pair)));
    config.alpn_protocols =
        if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    // Records of this size fit into one round trip of most networks, and bound what a connection buffers.
    config.send_tls13_tickets = 2;
    Ok(config)
}

/// Serves what is in use at the moment.
#[derive(Debug)]
struct Served(Arc<Current<CertifiedKey>>);

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.get())
    }
}

/// Asks for a certificate and lets everybody in: whether it is a good one is judged request by request, since a token may be
/// shown instead. That the client holds its key is checked here.
#[derive(Debug)]
struct AskedFor {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AskedFor {
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

    /// TLS-07.
    #[test]
    fn a_pair_must_fit_together() {
        let ((certificate, key), (_, other)) = (self_signed::make().unwrap(), self_signed::make().unwrap());
        assert!(pair(certificate.as_bytes(), key.as_bytes()).is_ok());
        let why = pair(certificate.as_bytes(), other.as_bytes()).unwrap_err();
        assert!(why.contains("do not fit together"), "{why}");
        assert!(pair(b"", key.as_bytes()).is_err());
        assert!(pair(certificate.as_bytes(), b"nonsense").is_err());
    }
}
