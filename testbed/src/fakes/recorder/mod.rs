//! Upstream HTTP server for tests of a proxy: records requests byte for byte and sends scripted responses.
//!
//! HTTP/1 is parsed by hand, because tests must see requests as they were sent, including those that no library
//! accepts. HTTP/2 (with prior knowledge or ALPN) is parsed by hyper.

mod h1;
mod h2;
mod prefixed;
mod reply;
mod request;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use self::prefixed::PrefixedStream;
pub use self::reply::{ConnectionAction, Reply, Step};
pub use self::request::RecordedRequest;
use crate::cluster::pki::Identity;
use crate::error::{Error, IoContext, Result};
use crate::harness::wait;
use crate::sync::lock;
use crate::tls;

/// Prefix of the HTTP/2 connection preface that distinguishes it from HTTP/1.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

type Script = Arc<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>;

/// A running recorder; it stops when dropped and closes all connections.
pub struct Recorder {
    address: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    requests: Mutex<Vec<RecordedRequest>>,
    script: Mutex<Script>,
    connections: AtomicU64,
    open: AtomicU64,
}

impl Shared {
    fn push(&self, request: RecordedRequest) -> usize {
        let mut requests = lock(&self.requests);
        requests.push(request);
        requests.len() - 1
    }

    fn update(&self, index: usize, change: impl FnOnce(&mut RecordedRequest)) {
        // Missing if the test has taken the requests meanwhile.
        if let Some(request) = lock(&self.requests).get_mut(index) {
            change(request);
        }
    }

    fn reply(&self, request: &RecordedRequest) -> Reply {
        let script = lock(&self.script).clone();
        script(request)
    }
}

impl Recorder {
    /// Starts on a free loopback port.
    pub async fn start() -> Result<Self> {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), None).await
    }

    /// Starts on a given address, to replace an earlier recorder.
    pub async fn start_at(address: SocketAddr) -> Result<Self> {
        Self::listen(address, None).await
    }

    /// Starts with TLS, HTTP/2 and HTTP/1.1. If `clients` is set, client certificates of this CA are required.
    pub async fn start_tls(identity: &Identity, clients: Option<&str>) -> Result<Self> {
        let mut config = match clients {
            Some(ca) => tls::strict_server(ca, identity)?,
            None => tls::plain_server(identity)?,
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Some(acceptor)).await
    }

    /// Starts with TLS and HTTP/1.1 only.
    pub async fn start_tls_http1(identity: &Identity) -> Result<Self> {
        let mut config = tls::plain_server(identity)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Some(acceptor)).await
    }

    /// Starts on a Unix socket, replacing the socket of an earlier recorder.
    pub fn start_unix(path: &Path) -> Result<Self> {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).context(|| format!("listening on {}", path.display()))?;
        let url = format!("unix://{}", path.display());
        Ok(Self::serve((Ipv4Addr::UNSPECIFIED, 0).into(), url, Listener::Unix(listener)))
    }

    async fn listen(address: SocketAddr, acceptor: Option<TlsAcceptor>) -> Result<Self> {
        let listening = || format!("listening on {address}");
        let listener = TcpListener::bind(address).await.context(listening)?;
        let address = listener.local_addr().context(listening)?;
        let url = format!("{}://{address}", if acceptor.is_some() { "https" } else { "http" });
        Ok(Self::serve(address, url, Listener::Tcp(listener, acceptor)))
    }

    fn serve(address: SocketAddr, url: String, listener: Listener) -> Self {
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            script: Mutex::new(Arc::new(|_| Reply::default())),
            connections: AtomicU64::new(0),
            open: AtomicU64::new(0),
        });
        let server = tokio::spawn(serve(listener, shared.clone()));
        Self { address, url, shared, server }
    }

    /// Returns the listening address, which is unspecified for a Unix socket.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address as a URL; without path, except for a Unix socket.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Sets the responses. `script` is called when the head of a request has arrived.
    pub fn answer(&self, script: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) {
        *lock(&self.shared.script) = Arc::new(script);
    }

    /// Returns the recorded requests.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.shared.requests).clone()
    }

    /// Removes and returns the recorded requests.
    #[must_use]
    pub fn take(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut *lock(&self.shared.requests))
    }

    /// Returns the number of accepted connections.
    #[must_use]
    pub fn accepted_connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Waits until the recorded requests match.
    pub async fn wait_for(
        &self,
        what: &str,
        limit: Duration,
        matches: impl Fn(&[RecordedRequest]) -> bool,
    ) -> Result<Vec<RecordedRequest>> {
        wait::until(what, limit, || async {
            let requests = self.requests();
            if matches(&requests) {
                Ok(requests)
            } else {
                Err(Error::Other(format!("recorded {requests:?}")))
            }
        })
        .await
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// What a recorder listens on.
enum Listener {
    Tcp(TcpListener, Option<TlsAcceptor>),
    Unix(UnixListener),
}

/// An accepted connection.
enum Accepted {
    Tcp(TcpStream, Option<TlsAcceptor>),
    Unix(UnixStream),
}

impl Listener {
    async fn accept(&self) -> std::io::Result<Accepted> {
        match self {
            Self::Tcp(listener, acceptor) => {
                listener.accept().await.map(|(stream, _)| Accepted::Tcp(stream, acceptor.clone()))
            }
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Accepted::Unix(stream)),
        }
    }
}

async fn serve(listener: Listener, shared: Arc<Shared>) {
    // Owned by this task, so that all connections end with the recorder.
    let mut connections = JoinSet::new();
    loop {
        let Ok(accepted) = listener.accept().await else {
            // Out of file descriptors; some are freed soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
        connections.spawn(serve_connection(accepted, shared.clone(), number));
        while connections.try_join_next().is_some() {}
    }
}

/// Counts an open connection until dropped.
struct OpenConnection(Arc<Shared>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve_connection(accepted: Accepted, shared: Arc<Shared>, number: u64) {
    shared.open.fetch_add(1, Ordering::SeqCst);
    let open = OpenConnection(shared.clone());
    let (stream, acceptor) = match accepted {
        Accepted::Tcp(stream, acceptor) => (stream, acceptor),
        Accepted::Unix(stream) => return serve_plain(stream, &open.0, number, false).await,
    };
    // A small response must not wait for a larger one.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return serve_plain(stream, &open.0, number, false).await;
    };
    if let Ok(stream) = acceptor.accept(stream).await {
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let has_certificate = stream.get_ref().1.peer_certificates().is_some();
        if h2 {
            h2::serve(stream, open.0.clone(), number, has_certificate).await;
        } else {
            h1::serve(stream, Vec::new(), open.0.clone(), number, has_certificate).await;
        }
    }
}

/// Detects the protocol of a plain-text connection.
async fn serve_plain<S>(mut stream: S, shared: &Arc<Shared>, number: u64, has_certificate: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut prefix = Vec::new();
    while prefix.len() < PREFACE.len() && PREFACE.starts_with(&prefix) {
        match stream.read_buf(&mut prefix).await {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
    if prefix.starts_with(PREFACE) {
        let stream = PrefixedStream { prefix, stream };
        h2::serve(stream, shared.clone(), number, has_certificate).await;
    } else {
        h1::serve(stream, prefix, shared.clone(), number, has_certificate).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::raw_http::{RawConnection, frames};

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn requests_are_recorded_byte_for_byte() {
        let recorder = Recorder::start().await.unwrap();
        let mut wire = RawConnection::connect(recorder.address()).await.unwrap();
        let odd = "POST /a//../b?x#y HTTP/1.1\r\nX-A:  1 \r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n";
        wire.send(format!("{odd}3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\nGET /second HTTP/1.0\r\n\r\n"))
            .await
            .unwrap();
        assert_eq!(wire.read_response("POST").await.unwrap().text(), "upstream\n");
        assert_eq!(wire.read_response("GET").await.unwrap().status, 200);
        let requests = recorder.take();
        assert_eq!(requests[0].head, odd);
        assert_eq!(
            (requests[0].target.as_str(), requests[0].joined_header("X-A").as_str()),
            ("/a//../b?x#y", "1 & 2")
        );
        assert_eq!((requests[0].body.as_slice(), requests[0].complete), (&b"abc"[..], true));
        assert_eq!(requests[0].trailers, [("X-Sum".to_owned(), "7".to_owned())]);
        assert_eq!((requests[1].target.as_str(), requests[1].connection), ("/second", 1));
    }

    #[tokio::test]
    async fn disconnect_and_partial_body_are_recorded() {
        let recorder = Recorder::start().await.unwrap();
        recorder.answer(|_| Reply::steps([Step::Pause(Duration::from_secs(60))]));
        let mut gone = RawConnection::connect(recorder.address()).await.unwrap();
        gone.send("GET /gone HTTP/1.1\r\n\r\n").await.unwrap();
        recorder.wait_for("request", TIMEOUT, |requests| !requests.is_empty()).await.unwrap();
        drop(gone);
        recorder.wait_for("disconnect", TIMEOUT, |requests| requests[0].abandoned).await.unwrap();
        let mut half = RawConnection::connect(recorder.address()).await.unwrap();
        half.send("POST /half HTTP/1.1\r\nContent-Length: 9\r\n\r\nfour").await.unwrap();
        drop(half);
        let requests = recorder
            .wait_for("four body bytes", TIMEOUT, |requests| requests.iter().any(|one| one.length == 4))
            .await;
        assert!(!requests.unwrap()[1].complete);
    }

    #[tokio::test]
    async fn http2_preface_is_detected() {
        let recorder = Recorder::start().await.unwrap();
        let mut wire = RawConnection::connect(recorder.address()).await.unwrap();
        let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", "/two?x")];
        wire.send([frames::preface(), frames::request(1, &fields)].concat()).await.unwrap();
        let received =
            frames::read_until(&mut wire, TIMEOUT, |received| !received.statuses.is_empty()).await.unwrap();
        assert_eq!(received.statuses, [(1, 200)]);
        let requests = recorder.take();
        assert_eq!((requests[0].version.as_str(), requests[0].target.as_str()), ("HTTP/2.0", "/two?x"));
        assert_eq!(requests[0].joined_header("host"), "a.test");
    }
}
