//! One port for all nodes: the first byte of a connection distinguishes TLS from plain HTTP; the TLS server name or
//! the Host header selects the node.

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

/// First byte of every TLS connection, and of no HTTP request.
const TLS_HANDSHAKE: u8 = 0x16;

/// Response of a plain HTTP server to a TLS client hello; the client reports a corrupt TLS message.
const PLAIN_HTTP_RESPONSE: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request";

/// Lets others reset a connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionControl {
    reset: Notify,
}

impl ConnectionControl {
    /// Resets the connection and aborts all requests on it.
    pub(super) fn reset_now(&self) {
        self.reset.notify_one();
    }

    /// Like [`reset_now`](Self::reset_now), for a request on this very connection.
    pub(super) async fn reset(&self) -> Infallible {
        self.reset_now();
        std::future::pending().await
    }
}

/// Serves until the task is aborted; all connections are closed with it.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    connections.spawn(serve_one(tcp, shared.clone()));
                }
                // A dead listener must be reported: otherwise it looks like unreachable sidecars.
                Err(error) => return eprintln!("testbed: fake sidecars stopped accepting connections: {error}"),
            },
            // Reaps closed connections.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_one(tcp: TcpStream, shared: Arc<Shared>) {
    // Failure only costs latency.
    let _ = tcp.set_nodelay(true);
    let mut first = [0];
    match tcp.peek(&mut first).await {
        Ok(1) if first[0] == TLS_HANDSHAKE => serve_tls(tcp, shared).await,
        Ok(1) => serve_http(tcp, None, shared).await,
        // The client disconnected before sending anything.
        _ => {}
    }
}

async fn serve_tls(tcp: TcpStream, shared: Arc<Shared>) {
    let Ok(mut start) = LazyConfigAcceptor::new(Acceptor::default(), tcp).await else { return };
    let node = start.client_hello().server_name().and_then(NodeName::from_host);
    // Without SNI no node is selected.
    let Some(node) = node else { return reset(&start.io) };
    let transport =
        shared.with(|state| state.is_reachable(&node).then(|| state.node(&node).transport.clone()));
    match transport {
        None => reset(&start.io),
        Some(Transport::Plain) => {
            // The client may have disconnected.
            let _ = start.io.write_all(PLAIN_HTTP_RESPONSE).await;
        }
        Some(Transport::Tls(config)) => {
            // A failed handshake is reported to the client by TLS itself.
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
    let control = Arc::new(ConnectionControl::default());
    let service = service_fn(|request| {
        let answer = exchange::answer(shared.clone(), control.clone(), named.clone(), request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = control.reset.notified() => reset(connection.into_parts().io.inner().tcp()),
        // The client may disconnect at any time.
        _ = &mut connection => {}
    }
}

/// Makes the kernel send RST on close and discard unsent data. If the option cannot be set, the connection is
/// closed normally, which clients treat the same.
fn reset(tcp: &TcpStream) {
    let _ = tcp.set_zero_linger();
}

/// Gives access to the TCP socket below a stream.
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
