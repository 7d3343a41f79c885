//! Transport of a node's proxy: plain HTTP, or TLS with its own certificate.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::cluster::pki::Identity;
use crate::error::{Error, Result};
use crate::tls;

/// Transport of a node's proxy.
#[derive(Clone, Debug, Default)]
pub(crate) enum Transport {
    /// Plain HTTP.
    #[default]
    Plain,
    /// TLS.
    Tls(Arc<ServerConfig>),
}

impl Transport {
    /// TLS with this certificate. Clients authenticate with tokens, not certificates.
    pub(crate) fn tls(identity: &Identity) -> Result<Self> {
        tls::install_provider();
        let invalid = |error| Error::Other(format!("invalid sidecar certificate: {error}"));
        let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
            .collect::<std::result::Result<_, _>>()
            .map_err(invalid)?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(invalid)?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        Ok(Self::Tls(Arc::new(config)))
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}
