//! How a node's proxy serves: in the clear, or by TLS with a certificate of its own.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::cluster::pki::Identity;
use crate::error::{Error, Result};
use crate::tls;

/// How a node's proxy serves.
#[derive(Clone, Debug, Default)]
pub(crate) enum Transport {
    /// In the clear.
    #[default]
    Plain,
    /// By TLS.
    Tls(Arc<ServerConfig>),
}

impl Transport {
    /// By TLS with this certificate. Clients are told by their token and show no certificate.
    pub(crate) fn tls(identity: &Identity) -> Result<Self> {
        tls::install_provider();
        let unreadable = |error| Error::Refused(format!("reading a sidecar's certificate: {error}"));
        let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
            .collect::<std::result::Result<_, _>>()
            .map_err(unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(unreadable)?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        Ok(Self::Tls(Arc::new(config)))
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}
