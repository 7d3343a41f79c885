//! One port for all nodes: the first byte of a connection tells TLS from plain HTTP, and the server name or the Host
//! header tells the node.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::exchange;
use super::name::NodeName;
use super::state::Shared;
use super::transport::Transport;

/// Every TLS connection begins with this, and no HTTP request does.
const TLS_HANDSHAKE: u8 = 0x16;

/// What a server in the clear says to who begins with TLS; the client sees something that is no TLS.
const NO_TLS_HERE: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request";

/// What others can do to a connection.
#[derive(Debug, Default)]
pub(super) struct Control {
    reset: Notify,
}

impl Control {
    /// Resets the connection, and everything that is done over it.
    pub(super) fn reset_now(&self) {
        self.reset.notify_one();
    }

    /// The same, for one who is himself done over it.
    pub(super) async fn reset(&self) -> Infallible {
        self.reset_now();
        std::future::pending().await
    }
}

/// Serves until it is dropped; every connection ends with it.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    connections.spawn(serve_one(tcp, shared.clone()));
                }
                // A server that nobody can reach any more must say so, and not look like sidecars that are away.
                Err(error) => return eprintln!("testbed: sidecars cannot be reached any more: {error}"),
            },
            // Those that have ended are forgotten.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_one(tcp: TcpStream, shared: Arc<Shared>) {
    // What cannot be set only costs time.
    let _ = tcp.set_nodelay(true);
    let mut first = [0];
    match tcp.peek(&mut first).await {
        Ok(1) if first[0] == TLS_HANDSHAKE => serve_tls(tcp, shared).await,
        Ok(1) => serve_http(tcp, None, shared).await,
        // Gone before it said anything.
        _ => {}
    }
}

async fn serve_tls(tcp: TcpStream, shared: Arc<Shared>) {
    let Ok(mut start) = LazyConfigAcceptor::new(Acceptor::default(), tcp).await else { return };
    let node = start.client_hello().server_name().and_then(NodeName::of_host);
    // Without a name nobody is meant.
    let Some(node) = node else { return reset(&start.io) };
    let transport = shared.with(|world| world.is_there(&node).then(|| world.node(&node).transport.clone()));
    match transport {
        None => reset(&start.io),
        Some(Transport::Plain) => {
            // Who does not wait for it is none of our business.
            let _ = start.io.write_all(NO_TLS_HERE).await;
        }
        Some(Transport::Tls(config)) => {
            // Who does not get through TLS is told why by it.
            if let Ok(stream) = start.into_stream(config).await {
                serve_http(stream, Some(node), shared).await;
            }
        }
    }
}

async fn serve_http<S>(stream: S, named: Option<NodeName>, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Unpin + Socket,
{
    let control = Arc::new(Control::default());
    let service = service_fn(|request| {
        let answer = exchange::answer(shared.clone(), control.clone(), named.clone(), request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = control.reset.notified() => reset(connection.into_parts().io.inner().tcp()),
        // A client that goes away is no failure of ours.
        _ = &mut connection => {}
    }
}

/// Closed with this set, the kernel sends RST and throws away what it has not sent yet. If it cannot be set, the
/// connection is merely closed, which clients take for the same.
fn reset(tcp: &TcpStream) {
    let _ = tcp.set_zero_linger();
}

/// What a connection is made of in the end.
trait Socket {
    fn tcp(&self) -> &TcpStream;
}

impl Socket for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Socket for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}
