//! Connections to sidecars, and the pool of idle ones.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use runtime::Key;
use runtime::sync::lock;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::error::CallError;
use super::verifier::{self, ServerVerifier};

/// The timeout of a connection, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an idle connection is kept: an active plan sends its next request within this time. A converged node sends two
/// requests a minute, which is not worth a thousand open connections.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often expired connections are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How many idle connections are kept for one sidecar, and for how many sidecars. Together with those in use they stay below
/// a common limit of 1024 open files.
const MAX_IDLE_PER_SIDECAR: usize = 2;
const MAX_SIDECARS: usize = 128;

/// The endpoint of a sidecar, and how to verify it.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    /// The address to connect to.
    pub(super) address: String,
    /// The Host header and TLS server name.
    pub(super) host: String,
    /// With TLS: the Secret, and the verifier made from it.
    pub(super) tls: Option<(Key, Arc<ServerVerifier>)>,
    /// Which token its proxy accepts.
    pub(super) credential: Credential,
}

/// Which token a proxy accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Credential {
    /// One with this audience, which is that of its node.
    Audience(String),
    /// One for an audience that is not that of its node. It gets none.
    ForeignAudience,
    /// One that the proxies of other nodes accept, too.
    Legacy,
}

impl Endpoint {
    fn identity(&self) -> (&str, &str, Option<&str>, &Credential) {
        let fingerprint = self.tls.as_ref().map(|(_, verifier)| verifier.fingerprint.as_str());
        (&self.address, &self.host, fingerprint, &self.credential)
    }
}

/// Equal if the address, the host, the accepted certificates and the accepted tokens are equal.
impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Endpoint {}

impl std::hash::Hash for Endpoint {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// A connection to a sidecar.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// With TLS: the SHA-256 of the server certificate.
    pub(super) certificate: Option<String>,
}

impl Connection {
    /// Opens a connection.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self, CallError> {
        let timed_out = CallError::ConnectTimeout(CONNECT_TIMEOUT.as_secs());
        timeout(CONNECT_TIMEOUT, Self::connect(endpoint)).await.unwrap_or(Err(timed_out))
    }

    async fn connect(endpoint: &Endpoint) -> Result<Self, CallError> {
        let stream = TcpStream::connect(&endpoint.address).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => CallError::ConnectionRefused,
            _ => CallError::ConnectFailed,
        })?;
        // Requests are small: Nagle's algorithm would delay each until the previous packet is acknowledged.
        let _ = stream.set_nodelay(true);
        let Some((secret, verifier)) = &endpoint.tls else {
            return Self::start_http(stream, None).await;
        };
        let name = ServerName::try_from(endpoint.host.clone()).map_err(|_| CallError::TlsHandshake)?;
        let config = verifier.client_config().map_err(|_| CallError::TlsHandshake)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let stream = stream.map_err(|error| handshake_error(&error, &secret.name))?;
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificate = certificates.first().map(verifier::sha256);
        Self::start_http(stream, certificate).await
    }

    async fn start_http(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        certificate: Option<String>,
    ) -> Result<Self, CallError> {
        let handshake = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|_| CallError::ConnectionClosed)?;
        // Ends when the sender is dropped or the sidecar closes the connection. The sender gets the error.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, certificate })
    }
}

/// Maps the error of a TLS handshake.
fn handshake_error(error: &io::Error, secret: &str) -> CallError {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => CallError::UntrustedCertificate(secret.to_owned()),
        _ => CallError::TlsHandshake,
    }
}

/// The pool of idle connections.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    connections: HashMap<Endpoint, Vec<(Connection, Instant)>>,
    swept_at: Option<Instant>,
}

impl Idle {
    /// Closes expired connections.
    fn sweep(&mut self) {
        if self.swept_at.is_some_and(|swept_at| swept_at.elapsed() < SWEEP_INTERVAL) {
            return;
        }
        self.swept_at = Some(Instant::now());
        self.connections.retain(|_, idle| {
            idle.retain(|(connection, since)| {
                since.elapsed() < IDLE_TIMEOUT && !connection.sender.is_closed()
            });
            !idle.is_empty()
        });
    }
}

impl Pool {
    /// Takes an idle connection out of the pool.
    pub(super) fn take(&self, endpoint: &Endpoint) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        idle.sweep();
        let idle = &mut idle.connections;
        let connections = idle.get_mut(endpoint)?;
        let found = std::iter::from_fn(|| connections.pop())
            .find(|(connection, since)| since.elapsed() < IDLE_TIMEOUT && connection.sender.is_ready());
        if connections.is_empty() {
            idle.remove(endpoint);
        }
        found.map(|(connection, _)| connection)
    }

    /// Returns a connection to the pool after its response was read completely.
    pub(super) fn put(&self, endpoint: &Endpoint, connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let mut idle = lock(&self.idle);
        let idle = &mut idle.connections;
        if idle.len() >= MAX_SIDECARS {
            return;
        }
        let connections = idle.entry(endpoint.clone()).or_default();
        if connections.len() < MAX_IDLE_PER_SIDECAR {
            connections.push((connection, Instant::now()));
        }
    }

    /// Closes every idle connection to a host.
    pub(super) fn forget(&self, host: &str) {
        let mut idle = lock(&self.idle);
        idle.connections.retain(|endpoint, _| endpoint.host != host);
    }
}
