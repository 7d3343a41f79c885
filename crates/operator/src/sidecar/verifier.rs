//! Verifies the certificate of a sidecar. It must be the one in the node's Secret, one that the Secret's CA issued for the same
//! host name, or one that the Secret had before. A sidecar serves one of the latter two until a renewed certificate reaches it.

use std::sync::Arc;

use api::names::data_key;
use k8s_openapi::api::core::v1::Secret;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

use crate::secrets::CA_CERTIFICATE;

/// Verifies server certificates against the Secret of a node.
#[derive(Clone, Debug)]
pub(super) struct ServerVerifier {
    leaf: CertificateDer<'static>,
    /// The SHA-256 of each certificate that the Secret had before.
    previous: Vec<String>,
    ca_verifier: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    /// Identifies the set of accepted certificates.
    pub(super) fingerprint: String,
}

impl ServerVerifier {
    /// Creates a verifier from the node's Secret, or `None` if it has no valid certificate.
    pub(super) fn from_secret(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let certificate = &data.get(data_key::TLS_CERTIFICATE)?.0;
        let leaf = CertificateDer::from_pem_slice(certificate).ok()?;
        let ca = data.get(CA_CERTIFICATE).map(|bytes| bytes.0.as_slice()).unwrap_or_default();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut digest = Sha256::new();
        digest.update(&leaf);
        digest.update(ca);
        let fingerprint = hex(&digest.finalize());
        let ca_verifier = ca_verifier(ca, &provider);
        Some(Self { leaf, previous: Vec::new(), ca_verifier, provider, fingerprint })
    }

    /// Returns the SHA-256 of the certificate in the Secret.
    pub(super) fn leaf_sha256(&self) -> String {
        sha256(&self.leaf)
    }

    /// Also accepts certificates that the Secret had before.
    pub(super) fn accepting_previous(mut self, previous: Vec<String>) -> Self {
        self.fingerprint.extend(previous.iter().map(String::as_str));
        self.previous = previous;
        self
    }

    /// Returns the TLS configuration. Sessions are not resumed, so that every connection presents its certificate.
    pub(super) fn client_config(&self) -> Result<ClientConfig, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(self.provider.clone());
        let mut config = builder
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(self.clone()))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Returns a verifier for a CA bundle, or `None` if it has no valid certificate. Without it, only known certificates are
/// accepted.
fn ca_verifier(ca: &[u8], provider: &Arc<CryptoProvider>) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(ca).filter_map(Result::ok));
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().ok()
}

/// Returns the SHA-256 of a certificate in hexadecimal.
pub(super) fn sha256(certificate: &CertificateDer<'_>) -> String {
    hex(&Sha256::digest(certificate))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // No further checks: the Secret vouches for this certificate, whose names are checked before a pod gets it.
        if *end_entity == self.leaf || self.previous.contains(&sha256(end_entity)) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.ca_verifier {
            Some(verifier) => {
                verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
