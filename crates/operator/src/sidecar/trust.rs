//! Which certificate a sidecar must serve: that of its node's Secret, or one that the Secret's authority has issued for the
//! same host name, or one that the Secret had before. The latter two are what a sidecar serves while
//! a renewed certificate is on its way to it.

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

use crate::secrets::AUTHORITY;

/// What a sidecar's certificate is compared with.
#[derive(Clone, Debug)]
pub(super) struct Trust {
    leaf: CertificateDer<'static>,
    /// Those that the Secret had before, each by its SHA-256.
    before: Vec<String>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    /// Tells two of them apart.
    pub(super) fingerprint: String,
}

impl Trust {
    /// The public parts of a node's Secret. None when it has no certificate: then nothing can be trusted.
    pub(super) fn of(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let certificate = &data.get(data_key::TLS_CERTIFICATE)?.0;
        let leaf = CertificateDer::from_pem_slice(certificate).ok()?;
        let authority = data.get(AUTHORITY).map(|bytes| bytes.0.as_slice()).unwrap_or_default();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut all = Sha256::new();
        all.update(&leaf);
        all.update(authority);
        let fingerprint = hex(&all.finalize());
        let authorities = verifier(authority, &provider);
        Some(Self { leaf, before: Vec::new(), authorities, provider, fingerprint })
    }

    /// The SHA-256 of the Secret's certificate.
    pub(super) fn of_secret(&self) -> String {
        sha256(&self.leaf)
    }

    /// Accepts those that the Secret had before, too.
    pub(super) fn or_before(mut self, before: Vec<String>) -> Self {
        self.fingerprint.extend(before.iter().map(String::as_str));
        self.before = before;
        self
    }

    /// How TLS is spoken with that sidecar. Nothing is resumed: each connection shows its certificate anew.
    pub(super) fn config(&self) -> Result<ClientConfig, rustls::Error> {
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

/// An authority that cannot be read is none: then only the very certificate of the Secret is accepted.
fn verifier(authority: &[u8], provider: &Arc<CryptoProvider>) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authority).filter_map(Result::ok));
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().ok()
}

/// The SHA-256 of a certificate, in hexadecimal.
pub(super) fn sha256(certificate: &CertificateDer<'_>) -> String {
    hex(&Sha256::digest(certificate))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The Secret itself says that this is the one, whatever is in it; that its names fit is checked before a pod gets it.
        if *end_entity == self.leaf || self.before.contains(&sha256(end_entity)) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(authorities) => {
                authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
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
