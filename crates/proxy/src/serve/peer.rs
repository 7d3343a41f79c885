//! The other end of one connection.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tokio::sync::OwnedSemaphorePermit;

use super::activity::Activity;
use crate::cache::Secret;
use crate::identity::{HeaderStyle, Identity};
use crate::tls::clients;
use crate::tls::reload::Current;

/// How long it is remembered whom a certificate names: it may expire while its connection lives.
const CERTIFICATE_FOR: Duration = Duration::from_secs(60);

/// The other end of one connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its address.
    pub(crate) address: IpAddr,
    /// The same as a header has it.
    pub(crate) forwarded_for: HeaderValue,
    /// What happens on the connection.
    pub(crate) activity: Arc<Activity>,
    certificates: Vec<CertificateDer<'static>>,
    named: Mutex<Option<Named>>,
    _place: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Named {
    generation: u64,
    at: Instant,
    identity: Option<Arc<Identity>>,
}

impl Peer {
    /// A client at an address, with the certificates that it has shown.
    pub(crate) fn new(
        address: IpAddr,
        certificates: Vec<CertificateDer<'static>>,
        activity: Arc<Activity>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let address = address.to_canonical();
        let forwarded_for = HeaderValue::from_str(&address.to_string())
            .unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        Self { address, forwarded_for, activity, certificates, named: Mutex::default(), _place: place }
    }

    /// Whom its certificate names, if these authorities vouch for it.
    pub(crate) fn named(
        &self,
        authorities: &Current<RootCertStore>,
        style: Option<&HeaderStyle>,
        secret: &Secret,
    ) -> Option<Arc<Identity>> {
        if self.certificates.is_empty() {
            return None;
        }
        let generation = authorities.generation();
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = named.as_ref()
            && known.generation == generation
            && known.at.elapsed() < CERTIFICATE_FOR
        {
            return known.identity.clone();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let identity = match clients::named(&self.certificates, &authorities.get(), now) {
            Ok(user) => Identity::new(user.authenticated(), style, secret).map(Arc::new),
            Err(why) => {
                tracing::debug!(client = %self.address, %why, "a client certificate names nobody");
                None
            }
        };
        *named = Some(Named { generation, at: Instant::now(), identity: identity.clone() });
        identity
    }
}
