//! Opens upstream connections.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::body::RequestBody;
use super::url::{Address, Endpoint, Protocol};
use crate::tls::reload::Reloadable;

/// Deadline for connecting, TLS handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which connecting to a Unix socket with a full backlog is retried.
const BACKLOG_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Bound of the read buffer of each connection, which holds the response headers and the first bytes of the
/// body.
const MAX_BUFFER: usize = 64 * 1024;

/// HTTP/2 keep-alive ping interval.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// A new connection.
pub(crate) enum Dialed {
    /// One request at a time.
    Http1(http1::SendRequest<RequestBody>),
    /// Multiplexed.
    Http2(http2::SendRequest<RequestBody>),
}

/// Opens connections to one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<Arc<Reloadable<ClientConfig>>>,
}

impl Dialer {
    /// Opens a connection and spawns its task.
    pub(crate) async fn dial(&self) -> Result<Dialed, String> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(dialed) => dialed,
            Err(_) => Err(format!("connect timed out after {} s", CONNECT_TIMEOUT.as_secs())),
        }
    }

    async fn connect(&self) -> Result<Dialed, String> {
        let Endpoint { address, protocol, .. } = &self.endpoint;
        let (host, port) = match address {
            Address::Tcp { host, port } => (host, port),
            Address::Unix(path) => {
                let stream =
                    connect_unix(path).await.map_err(|error| format!("{}: {error}", path.display()))?;
                return handshake_http1(stream).await;
            }
        };
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error.to_string())?;
        crate::serve::socket::set_options(&stream);
        match protocol {
            Protocol::Http1 => handshake_http1(stream).await,
            Protocol::H2c => handshake_http2(stream).await,
            Protocol::Tls => {
                let config = self.tls.as_ref().ok_or("TLS is not configured")?.get();
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                let stream = TlsConnector::from(config)
                    .connect(name, stream)
                    .await
                    .map_err(|error| error.to_string())?;
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    handshake_http2(stream).await
                } else {
                    handshake_http1(stream).await
                }
            }
        }
    }
}

/// Connects to a Unix socket. With a full backlog, which lets a TCP client wait, the kernel rejects the connection
/// at once: the caller's deadline ends the wait here too.
async fn connect_unix(path: &Path) -> std::io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                tokio::time::sleep(BACKLOG_RETRY_INTERVAL).await;
            }
            connected => return connected,
        }
    }
}

async fn handshake_http1<S>(stream: S) -> Result<Dialed, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_BUFFER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // The task ends with the connection; errors reach the sender of the request.
    tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok(Dialed::Http1(sender))
}

async fn handshake_http2<S>(stream: S) -> Result<Dialed, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .adaptive_window(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(Dialed::Http2(sender))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

    use super::*;

    #[tokio::test]
    async fn full_backlog_of_a_unix_socket_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("upstream.sock");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let listener = std::os::unix::net::UnixListener::from(socket);
        // The kernel queues one connection more than the backlog.
        let _queued = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let error = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "the backlog is full");
        let mut waiting = std::pin::pin!(connect_unix(&path));
        assert!(tokio::time::timeout(4 * BACKLOG_RETRY_INTERVAL, waiting.as_mut()).await.is_err());
        let _accepted = listener.accept().unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn missing_unix_socket_is_named_in_the_error() {
        let endpoint = Endpoint {
            authority: http::uri::Authority::from_static("localhost"),
            address: Address::Unix("/nowhere/upstream.sock".into()),
            protocol: Protocol::Http1,
        };
        let error = Dialer { endpoint, tls: None }.dial().await.err().unwrap();
        assert!(error.starts_with("/nowhere/upstream.sock: "), "{error}");
    }
}
