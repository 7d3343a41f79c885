//! TLS configuration of the testbed's own clients and servers.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::cluster::pki::Identity;
use crate::error::{Error, Result};

/// Installs aws-lc-rs as the default crypto provider, which some libraries require.
pub(crate) fn install_provider() {
    // Fails if already installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Client that trusts one CA, with an optional client certificate.
pub(crate) fn client(ca: &str, identity: Option<&Identity>) -> Result<ClientConfig> {
    install_provider();
    let builder = ClientConfig::builder().with_root_certificates(roots(ca)?);
    Ok(match identity {
        Some(identity) => {
            builder.with_client_auth_cert(certificates(&identity.certificate)?, key(&identity.key)?)?
        }
        None => builder.with_no_client_auth(),
    })
}

/// Server that verifies client certificates of one CA, but does not require one.
pub(crate) fn server(ca: &str, identity: &Identity) -> Result<ServerConfig> {
    install_provider();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots(ca)?))
        .allow_unauthenticated()
        .build()
        .map_err(|error| Error::Other(format!("building the client verifier: {error}")))?;
    Ok(ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&identity.certificate)?, key(&identity.key)?)?)
}

/// Server without client certificates.
pub(crate) fn plain_server(identity: &Identity) -> Result<ServerConfig> {
    install_provider();
    Ok(ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates(&identity.certificate)?, key(&identity.key)?)?)
}

/// Server that requires client certificates of one CA.
pub(crate) fn strict_server(ca: &str, identity: &Identity) -> Result<ServerConfig> {
    install_provider();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots(ca)?))
        .build()
        .map_err(|error| Error::Other(format!("building the client verifier: {error}")))?;
    Ok(ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&identity.certificate)?, key(&identity.key)?)?)
}

pub(crate) fn roots(ca: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| Error::Other(format!("invalid certificate: {error}")))
}

pub(crate) fn key(pem: &str) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| Error::Other(format!("invalid private key: {error}")))
}
