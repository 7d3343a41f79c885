//! TLS configuration of the raw client.

use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CipherSuite, ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};

use crate::cluster::pki::Identity;
use crate::error::{Error, Result};
use crate::sync::lock;
use crate::tls;

/// TLS configuration of the raw client: trusted CA, client certificate, protocols.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    ca: Option<String>,
    identity: Option<Identity>,
    protocols: Vec<Vec<u8>>,
    versions: Vec<&'static SupportedProtocolVersion>,
    suites: Vec<CipherSuite>,
    presented: PresentedCertificate,
}

/// The server certificate of the last handshake.
#[derive(Clone, Debug, Default)]
pub struct PresentedCertificate(Arc<Mutex<Option<Vec<u8>>>>);

impl PresentedCertificate {
    /// Returns the certificate in DER.
    #[must_use]
    pub fn certificate(&self) -> Option<Vec<u8>> {
        lock(&self.0).clone()
    }
}

impl ClientTls {
    /// Trusts servers with a certificate of one CA.
    #[must_use]
    pub fn trusting_ca(pem: &str) -> Self {
        Self { ca: Some(pem.into()), ..Self::default() }
    }

    /// Trusts every server, for self-signed certificates, which a test can only inspect.
    #[must_use]
    pub fn trusting_any() -> Self {
        Self::default()
    }

    /// Presents this client certificate.
    #[must_use]
    pub fn client_certificate(mut self, identity: &Identity) -> Self {
        self.identity = Some(identity.clone());
        self
    }

    /// Offers these ALPN protocols.
    #[must_use]
    pub fn alpn(mut self, names: &[&str]) -> Self {
        self.protocols = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// Offers only these TLS versions.
    #[must_use]
    pub fn tls_versions(mut self, versions: &[&'static SupportedProtocolVersion]) -> Self {
        self.versions = versions.to_vec();
        self
    }

    /// Offers only these cipher suites.
    #[must_use]
    pub fn cipher_suites(mut self, suites: &[CipherSuite]) -> Self {
        self.suites = suites.to_vec();
        self
    }

    /// Returns a handle to the server certificate of later handshakes.
    #[must_use]
    pub fn presented_certificate(&self) -> PresentedCertificate {
        self.presented.clone()
    }

    /// Builds the client configuration.
    pub fn config(&self) -> Result<Arc<ClientConfig>> {
        tls::install_provider();
        let mut provider = aws_lc_rs::default_provider();
        if !self.suites.is_empty() {
            provider.cipher_suites.retain(|suite| self.suites.contains(&suite.suite()));
        }
        let algorithms = provider.signature_verification_algorithms;
        let versions = if self.versions.is_empty() { rustls::ALL_VERSIONS } else { &self.versions };
        let builder = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::new(provider))
            .with_protocol_versions(versions)?;
        let verifier: Arc<dyn ServerCertVerifier> = match &self.ca {
            Some(ca) => {
                let roots = Arc::new(tls::roots(ca)?);
                rustls::client::WebPkiServerVerifier::builder(roots)
                    .build()
                    .map_err(|error| Error::Other(format!("building the server verifier: {error}")))?
            }
            None => Arc::new(AcceptAny { algorithms }),
        };
        let recording = RecordingVerifier { inner: verifier, presented: self.presented.clone() };
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(recording));
        let mut config = match &self.identity {
            Some(identity) => builder
                .with_client_auth_cert(tls::certificates(&identity.certificate)?, tls::key(&identity.key)?)?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.clone_from(&self.protocols);
        // Full handshakes only: a resumed session has no server certificate.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Stores the certificate and delegates verification.
#[derive(Debug)]
struct RecordingVerifier {
    inner: Arc<dyn ServerCertVerifier>,
    presented: PresentedCertificate,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *lock(&self.presented.0) = Some(end_entity.to_vec());
        self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Accepts any certificate whose key signed the handshake.
#[derive(Debug)]
struct AcceptAny {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
