//! Connections to sidecars: made, kept for the next question, and let go.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::trouble::Trouble;
use super::trust::{self, Trust};

/// How long a connection may take, with TLS.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How long an unused connection is kept: as long as a node that is worked on asks its next question. One that is at rest asks
/// twice a minute, which is not worth a thousand open connections.
const IDLE_FOR: Duration = Duration::from_secs(5);

/// How often those that nobody came back to are let go.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(1);

/// How many unused connections are kept to one sidecar, and to how many sidecars. With those that are in use they stay below the
/// thousand open files that many machines allow.
const MOST_TO_ONE: usize = 2;
const MOST_SIDECARS: usize = 128;

/// Where a sidecar is, and how it is known.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Where it is connected to.
    pub(super) address: String,
    /// The host name that it answers to.
    pub(super) host: String,
    /// By TLS: the Secret's name, and the certificate in it.
    pub(super) tls: Option<(String, Arc<Trust>)>,
}

impl Target {
    fn parts(&self) -> (&str, &str, Option<&str>) {
        (&self.address, &self.host, self.tls.as_ref().map(|(_, trust)| trust.fingerprint.as_str()))
    }
}

/// The same sidecar, known by the same certificate.
impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Target {}

impl std::hash::Hash for Target {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// A connection to a sidecar.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// The SHA-256 of the certificate that was served, by TLS.
    pub(super) certificate: Option<String>,
}

impl Connection {
    /// A new connection.
    pub(super) async fn to(target: &Target) -> Result<Self, Trouble> {
        let late = Trouble::ConnectsLate(CONNECT_WITHIN.as_secs());
        timeout(CONNECT_WITHIN, Self::connect(target)).await.unwrap_or(Err(late))
    }

    async fn connect(target: &Target) -> Result<Self, Trouble> {
        let stream = TcpStream::connect(&target.address).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Trouble::Refused,
            _ => Trouble::NoWay,
        })?;
        // Questions are small: without this each would wait for the answer to the packet before.
        let _ = stream.set_nodelay(true);
        let Some((secret, trust)) = &target.tls else {
            return Self::speak(stream, None).await;
        };
        let name = ServerName::try_from(target.host.clone()).map_err(|_| Trouble::NotTls)?;
        let config = trust.config().map_err(|_| Trouble::NotTls)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let stream = stream.map_err(|error| refusal(&error, secret))?;
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificate = certificates.first().map(trust::sha256);
        Self::speak(stream, certificate).await
    }

    async fn speak(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        certificate: Option<String>,
    ) -> Result<Self, Trouble> {
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Trouble::BrokeOff)?;
        // It ends when the sender is dropped, or the other side ends it; how, the sender is told.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, certificate })
    }
}

/// Why TLS did not come about.
fn refusal(error: &io::Error, secret: &str) -> Trouble {
    let why = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match why {
        Some(rustls::Error::InvalidCertificate(_)) => Trouble::OtherCertificate(secret.to_owned()),
        _ => Trouble::NotTls,
    }
}

/// Connections that wait for the next question.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    connections: HashMap<Target, Vec<(Connection, Instant)>>,
    swept: Option<Instant>,
}

impl Idle {
    /// Lets go those that nobody came back to.
    fn sweep(&mut self) {
        if self.swept.is_some_and(|swept| swept.elapsed() < BETWEEN_SWEEPS) {
            return;
        }
        self.swept = Some(Instant::now());
        self.connections.retain(|_, kept| {
            kept.retain(|(connection, since)| since.elapsed() < IDLE_FOR && !connection.sender.is_closed());
            !kept.is_empty()
        });
    }
}

impl Pool {
    /// A connection that was used before.
    pub(super) fn take(&self, target: &Target) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.sweep();
        let idle = &mut idle.connections;
        let kept = idle.get_mut(target)?;
        let found = std::iter::from_fn(|| kept.pop())
            .find(|(connection, since)| since.elapsed() < IDLE_FOR && connection.sender.is_ready());
        if kept.is_empty() {
            idle.remove(target);
        }
        found.map(|(connection, _)| connection)
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn keep(&self, target: &Target, connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = &mut idle.connections;
        if idle.len() >= MOST_SIDECARS {
            return;
        }
        let kept = idle.entry(target.clone()).or_default();
        if kept.len() < MOST_TO_ONE {
            kept.push((connection, Instant::now()));
        }
    }

    /// Lets go every connection to a host.
    pub(super) fn forget(&self, host: &str) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.connections.retain(|target, _| target.host != host);
    }
}
