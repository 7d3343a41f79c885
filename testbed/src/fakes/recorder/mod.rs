//! A server behind a proxy under test: it writes down what reaches it, byte for byte, and answers as it is told.
//!
//! HTTP/1 is read here by hand and not by a library: a test must see the request as it was written, also one that no library
//! would let through. HTTP/2 (with prior knowledge, or by ALPN) is read by one.

mod h1;
mod h2;
mod reply;
mod rewound;
mod seen;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use self::reply::{After, Reply, Step};
use self::rewound::Rewound;
pub use self::seen::Seen;
use crate::cluster::pki::Identity;
use crate::error::{Error, IoContext, Result};
use crate::harness::wait;
use crate::tls;

/// What every HTTP/2 connection with prior knowledge begins with, as far as it tells it from HTTP/1.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

type Script = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// A running recorder; it ends when dropped, and with it every connection.
pub struct Recorder {
    address: SocketAddr,
    encrypted: bool,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    seen: Mutex<Vec<Seen>>,
    script: Mutex<Script>,
    connections: AtomicU64,
    open: AtomicU64,
}

impl Shared {
    fn note(&self, seen: Seen) -> usize {
        let mut list = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(seen);
        list.len() - 1
    }

    fn update(&self, index: usize, change: impl FnOnce(&mut Seen)) {
        // Gone when the test has cleared the record meanwhile.
        if let Some(seen) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index) {
            change(seen);
        }
    }

    fn reply(&self, seen: &Seen) -> Reply {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        script(seen)
    }
}

impl Recorder {
    /// A recorder on a free port of the loopback interface.
    pub async fn start() -> Result<Self> {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), None).await
    }

    /// The same at an address of the caller's choice: for one that is to come back where it was.
    pub async fn at(address: SocketAddr) -> Result<Self> {
        Self::listen(address, None).await
    }

    /// The same with TLS, HTTP/2 and HTTP/1.1; clients must show a certificate of `clients` if one is given.
    pub async fn encrypted(identity: &Identity, clients: Option<&str>) -> Result<Self> {
        let mut config = match clients {
            Some(authority) => tls::strict_server(authority, identity)?,
            None => tls::plain_server(identity)?,
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Some(acceptor)).await
    }

    /// The same with TLS and HTTP/1.1 only.
    pub async fn encrypted_http1(identity: &Identity) -> Result<Self> {
        let mut config = tls::plain_server(identity)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Some(acceptor)).await
    }

    async fn listen(address: SocketAddr, acceptor: Option<TlsAcceptor>) -> Result<Self> {
        let listening = || format!("listening on {address}");
        let listener = TcpListener::bind(address).await.context(listening)?;
        let address = listener.local_addr().context(listening)?;
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            script: Mutex::new(Arc::new(|_| Reply::default())),
            connections: AtomicU64::new(0),
            open: AtomicU64::new(0),
        });
        let encrypted = acceptor.is_some();
        let server = tokio::spawn(serve(listener, acceptor, shared.clone()));
        Ok(Self { address, encrypted, shared, server })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as a URL, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.encrypted { "https" } else { "http" }, self.address)
    }

    /// Answers from now on as `script` says, which is asked when a request's head has come.
    pub fn answer(&self, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(script);
    }

    /// What has come so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes what has come so far, and begins anew.
    #[must_use]
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many connections were made so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Waits until the record is as wanted.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&[Seen]) -> bool,
    ) -> Result<Vec<Seen>> {
        wait::until(what, limit, || async {
            let seen = self.seen();
            if wanted(&seen) { Ok(seen) } else { Err(Error::Refused(format!("{seen:?}"))) }
        })
        .await
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    // Dropped with this task: a recorder that ends takes its connections with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: somebody else's are closed in a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
        connections.spawn(attend(stream, acceptor.clone(), shared.clone(), number));
        while connections.try_join_next().is_some() {}
    }
}

/// Counts a connection as long as it is open.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn attend(stream: TcpStream, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>, number: u64) {
    shared.open.fetch_add(1, Ordering::SeqCst);
    let open = Open(shared.clone());
    // A small answer must not wait for a larger one.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return converse(stream, &open.0, number, false).await;
    };
    if let Ok(stream) = acceptor.accept(stream).await {
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let shown = stream.get_ref().1.peer_certificates().is_some();
        if h2 {
            h2::serve(stream, open.0.clone(), number, shown).await;
        } else {
            h1::serve(stream, Vec::new(), open.0.clone(), number, shown).await;
        }
    }
}

/// Finds out which protocol a connection in clear text speaks.
async fn converse<S>(mut stream: S, shared: &Arc<Shared>, number: u64, shown: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut begin = Vec::new();
    while begin.len() < PREFACE.len() && PREFACE.starts_with(&begin) {
        match stream.read_buf(&mut begin).await {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
    if begin.starts_with(PREFACE) {
        let stream = Rewound { begin, stream };
        h2::serve(stream, shared.clone(), number, shown).await;
    } else {
        h1::serve(stream, begin, shared.clone(), number, shown).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::wire::{Wire, frames};

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn what_comes_is_kept_byte_for_byte() {
        let recorder = Recorder::start().await.unwrap();
        let mut wire = Wire::connect(recorder.address()).await.unwrap();
        let odd = "POST /a//../b?x#y HTTP/1.1\r\nX-A:  1 \r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n";
        wire.send(format!("{odd}3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\nGET /second HTTP/1.0\r\n\r\n"))
            .await
            .unwrap();
        assert_eq!(wire.answer("POST").await.unwrap().text(), "upstream\n");
        assert_eq!(wire.answer("GET").await.unwrap().status, 200);
        let seen = recorder.take();
        assert_eq!(seen[0].head, odd);
        assert_eq!((seen[0].target.as_str(), seen[0].shown("X-A").as_str()), ("/a//../b?x#y", "1 & 2"));
        assert_eq!((seen[0].body.as_slice(), seen[0].complete), (&b"abc"[..], true));
        assert_eq!(seen[0].trailers, [("X-Sum".to_owned(), "7".to_owned())]);
        assert_eq!((seen[1].target.as_str(), seen[1].connection), ("/second", 1));
    }

    #[tokio::test]
    async fn whoever_goes_away_and_half_a_body_are_noticed() {
        let recorder = Recorder::start().await.unwrap();
        recorder.answer(|_| Reply::steps([Step::Pause(Duration::from_secs(60))]));
        let mut gone = Wire::connect(recorder.address()).await.unwrap();
        gone.send("GET /gone HTTP/1.1\r\n\r\n").await.unwrap();
        recorder.until("the request", PATIENCE, |seen| !seen.is_empty()).await.unwrap();
        drop(gone);
        recorder.until("its end", PATIENCE, |seen| seen[0].abandoned).await.unwrap();
        let mut half = Wire::connect(recorder.address()).await.unwrap();
        half.send("POST /half HTTP/1.1\r\nContent-Length: 9\r\n\r\nfour").await.unwrap();
        drop(half);
        let seen =
            recorder.until("four bytes", PATIENCE, |seen| seen.iter().any(|one| one.length == 4)).await;
        assert!(!seen.unwrap()[1].complete);
    }

    #[tokio::test]
    async fn http2_is_told_from_http1_by_its_beginning() {
        let recorder = Recorder::start().await.unwrap();
        let mut wire = Wire::connect(recorder.address()).await.unwrap();
        let lines = [(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", "/two?x")];
        wire.send([frames::begin(), frames::request(1, &lines)].concat()).await.unwrap();
        let said = frames::listen(&mut wire, PATIENCE, |said| !said.answers.is_empty()).await.unwrap();
        assert_eq!(said.answers, [(1, 200)]);
        let seen = recorder.take();
        assert_eq!((seen[0].version.as_str(), seen[0].target.as_str()), ("HTTP/2.0", "/two?x"));
        assert_eq!(seen[0].shown("host"), "a.test");
    }
}
