//! The client of one connection.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::activity::Activity;
use super::slots::Slot;
use crate::cache::HmacKey;
use crate::identity::{Identity, IdentityHeaders};
use crate::tls::client_cert;
use crate::tls::reload::Reloadable;
use runtime::sync::lock;

/// How long the identity of a certificate is cached: the certificate may expire while the connection is open.
const CERTIFICATE_CACHE_TTL: Duration = Duration::from_secs(60);

/// The client of one connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The address as `X-Forwarded-For` value.
    pub(crate) forwarded_for: HeaderValue,
    /// Activity on the connection.
    pub(crate) activity: Arc<Activity>,
    pub(crate) slot: Arc<Slot>,
    certificates: Vec<CertificateDer<'static>>,
    cached: Mutex<Option<CachedIdentity>>,
}

#[derive(Debug)]
struct CachedIdentity {
    generation: u64,
    at: Instant,
    identity: Option<Arc<Identity>>,
}

impl Peer {
    /// Creates the peer of a connection with the certificates it presented.
    pub(crate) fn new(
        address: IpAddr,
        certificates: Vec<CertificateDer<'static>>,
        activity: Arc<Activity>,
        slot: Arc<Slot>,
    ) -> Self {
        let address = address.to_canonical();
        let forwarded_for = HeaderValue::from_str(&address.to_string())
            .unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        Self { address, forwarded_for, activity, slot, certificates, cached: Mutex::default() }
    }

    /// Returns the identity of the client certificate, if the CA has issued it.
    pub(crate) fn certificate_identity(
        &self,
        client_ca: &Reloadable<RootCertStore>,
        identity_headers: Option<&IdentityHeaders>,
        hmac_key: &HmacKey,
    ) -> Option<Arc<Identity>> {
        if self.certificates.is_empty() {
            return None;
        }
        let generation = client_ca.generation();
        let mut cached = lock(&self.cached);
        if let Some(entry) = cached.as_ref()
            && entry.generation == generation
            && entry.at.elapsed() < CERTIFICATE_CACHE_TTL
        {
            return entry.identity.clone();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let identity = match client_cert::user_info(&self.certificates, &client_ca.get(), now) {
            Ok(user) => {
                Identity::new(user.with_authenticated_group(), identity_headers, hmac_key).map(Arc::new)
            }
            Err(error) => {
                tracing::debug!(client = %self.address, %error, "client certificate rejected");
                None
            }
        };
        *cached = Some(CachedIdentity { generation, at: Instant::now(), identity: identity.clone() });
        identity
    }
}
