//! New connections to the upstream.

use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::body::Outgoing;
use super::target::{Speech, Way};
use crate::tls::reload::Current;

/// How long a connection may take, and the handshake in it.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The head of an answer and what is read of its body at once: a bound for each of many connections.
const LARGEST_BUFFER: usize = 64 * 1024;

/// How often the other end of an HTTP/2 connection is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(20);

/// A connection that was made.
pub(crate) enum Dialed {
    /// For one exchange at a time.
    One(http1::SendRequest<Outgoing>),
    /// For many.
    Shared(http2::SendRequest<Outgoing>),
}

/// Makes connections.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) way: Way,
    pub(crate) tls: Option<Arc<Current<ClientConfig>>>,
}

impl Dialer {
    /// A new connection, with the task that serves it; or why there is none.
    pub(crate) async fn dial(&self) -> Result<Dialed, String> {
        match tokio::time::timeout(CONNECT_WITHIN, self.connect()).await {
            Ok(dialed) => dialed,
            Err(_) => Err(format!("no connection within {} s", CONNECT_WITHIN.as_secs())),
        }
    }

    async fn connect(&self) -> Result<Dialed, String> {
        let Way { host, port, speech, .. } = &self.way;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error.to_string())?;
        crate::serve::socket::prepare(&stream);
        match speech {
            Speech::Plain => one(stream).await,
            Speech::H2c => shared(stream).await,
            Speech::Tls => {
                let config = self.tls.as_ref().ok_or("there is no configuration of TLS")?.get();
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                let stream = TlsConnector::from(config)
                    .connect(name, stream)
                    .await
                    .map_err(|error| error.to_string())?;
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    shared(stream).await
                } else {
                    one(stream).await
                }
            }
        }
    }
}

async fn one<S>(stream: S) -> Result<Dialed, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(LARGEST_BUFFER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // It ends with its connection, and who used it is told by his own part.
    tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok(Dialed::One(sender))
}

async fn shared<S>(stream: S) -> Result<Dialed, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .adaptive_window(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(Dialed::Shared(sender))
}
