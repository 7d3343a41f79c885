//! Opens upstream connections.

use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::body::RequestBody;
use super::url::{Endpoint, Protocol};
use crate::tls::reload::Reloadable;

/// Deadline for connecting, TLS handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

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
        let Endpoint { host, port, protocol, .. } = &self.endpoint;
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
