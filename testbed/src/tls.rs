//! TLS of our own clients and servers in the test-bed: both sides always verify.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::cluster::pki::Identity;
use crate::error::{Error, Result};

/// Makes aws-lc-rs the process's TLS provider; libraries that look for a default one find none otherwise.
pub(crate) fn install_provider() {
    // Refused when it is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// A client that trusts one authority, with or without a certificate of its own.
pub(crate) fn client(authority: &str, identity: Option<&Identity>) -> Result<ClientConfig> {
    install_provider();
    let builder = ClientConfig::builder().with_root_certificates(roots(authority)?);
    Ok(match identity {
        Some(identity) => {
            builder.with_client_auth_cert(certificates(&identity.certificate)?, key(&identity.key)?)?
        }
        None => builder.with_no_client_auth(),
    })
}

/// A server that asks its clients for a certificate of one authority, and also serves those that show none.
pub(crate) fn server(authority: &str, identity: &Identity) -> Result<ServerConfig> {
    install_provider();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots(authority)?))
        .allow_unauthenticated()
        .build()
        .map_err(|error| Error::Refused(format!("verifying clients: {error}")))?;
    Ok(ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&identity.certificate)?, key(&identity.key)?)?)
}

/// A server that asks its clients for nothing.
pub(crate) fn plain_server(identity: &Identity) -> Result<ServerConfig> {
    install_provider();
    Ok(ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates(&identity.certificate)?, key(&identity.key)?)?)
}

/// A server that serves nobody without a certificate of one authority.
pub(crate) fn strict_server(authority: &str, identity: &Identity) -> Result<ServerConfig> {
    install_provider();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots(authority)?))
        .build()
        .map_err(|error| Error::Refused(format!("verifying clients: {error}")))?;
    Ok(ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&identity.certificate)?, key(&identity.key)?)?)
}

pub(crate) fn roots(authority: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| Error::Refused(format!("reading a certificate: {error}")))
}

pub(crate) fn key(pem: &str) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| Error::Refused(format!("reading a private key: {error}")))
}
