//! Raw HTTP client: writes given bytes and reads the response. For requests that no library sends, and for servers
//! whose responses must be checked byte for byte.

mod client_tls;
pub mod frames;
mod response;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use self::client_tls::{ClientTls, PresentedCertificate};
pub use self::response::RawResponse;
use crate::error::{Error, IoContext, Result};

/// Response timeout: long enough for a busy machine, short enough to detect a hanging server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Stream below a connection.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// One connection.
pub struct RawConnection {
    stream: Box<dyn Transport>,
    buffer: Vec<u8>,
}

impl RawConnection {
    /// Connects without TLS.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self { stream: Box::new(tcp(address).await?), buffer: Vec::new() })
    }

    /// Connects without TLS from a given source address, to be distinguishable from other clients.
    pub async fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Result<Self> {
        let stream = tcp_from(Some(source), address).await?;
        Ok(Self { stream: Box::new(stream), buffer: Vec::new() })
    }

    /// Connects with TLS, without SNI: the tested servers have a single certificate.
    pub async fn connect_tls(address: SocketAddr, config: Arc<ClientConfig>) -> Result<Self> {
        let stream = tcp(address).await?;
        let name = ServerName::from(address.ip());
        let what = || format!("TLS with {address}");
        let handshake = timeout(TIMEOUT, TlsConnector::from(config).connect(name, stream)).await;
        let stream = handshake.map_err(|_| timed_out(what()))?.context(what)?;
        Ok(Self { stream: Box::new(stream), buffer: Vec::new() })
    }

    /// Returns the stream, for use with an HTTP library.
    #[must_use]
    pub fn into_stream(self) -> Box<dyn Transport> {
        self.stream
    }

    /// Writes bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        let what = || "writing a request".to_owned();
        let written = async {
            self.stream.write_all(bytes.as_ref()).await?;
            self.stream.flush().await
        };
        timeout(TIMEOUT, written).await.map_err(|_| timed_out(what()))?.context(what)
    }

    /// Closes the write half.
    pub async fn close_write(&mut self) -> Result<()> {
        self.stream.shutdown().await.context(|| "closing a connection for writing".to_owned())
    }

    /// Reads the next response to a request with this method, including its body.
    pub async fn read_response(&mut self, method: &str) -> Result<RawResponse> {
        let read = response::read(self.stream.as_mut(), &mut self.buffer, method);
        timeout(TIMEOUT, read).await.map_err(|_| timed_out("a response".into()))?
    }

    /// Reads some bytes; empty at EOF.
    pub async fn read(&mut self) -> Result<Vec<u8>> {
        if !self.buffer.is_empty() {
            return Ok(std::mem::take(&mut self.buffer));
        }
        let what = || "reading".to_owned();
        let read = timeout(TIMEOUT, self.stream.read_buf(&mut self.buffer)).await;
        read.map_err(|_| timed_out("bytes".into()))?.context(what)?;
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Reads this many bytes, or fewer at EOF.
    pub async fn read_exactly(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let more = self.read().await?;
            if more.is_empty() {
                break;
            }
            bytes.extend(more);
        }
        if bytes.len() > count {
            self.buffer = bytes.split_off(count);
        }
        Ok(bytes)
    }

    /// Reads until EOF or reset, at most for `limit`. Returns the bytes and whether the connection ended.
    pub async fn read_to_end(&mut self, limit: Duration) -> (Vec<u8>, bool) {
        let mut bytes = std::mem::take(&mut self.buffer);
        let read = async {
            // A reset ends the connection, too.
            while let Ok(count) = self.stream.read_buf(&mut bytes).await {
                if count == 0 {
                    break;
                }
            }
        };
        let ended = timeout(limit, read).await.is_ok();
        (bytes, ended)
    }
}

async fn tcp(address: SocketAddr) -> Result<TcpStream> {
    tcp_from(None, address).await
}

async fn tcp_from(source: Option<Ipv4Addr>, address: SocketAddr) -> Result<TcpStream> {
    let what = || format!("connecting to {address}");
    let socket = TcpSocket::new_v4().context(what)?;
    if let Some(source) = source {
        socket.bind(SocketAddr::from((source, 0))).context(what)?;
    }
    let stream = timeout(TIMEOUT, socket.connect(address)).await;
    let stream = stream.map_err(|_| timed_out(what()))?.context(what)?;
    stream.set_nodelay(true).context(what)?;
    Ok(stream)
}

fn timed_out(what: String) -> Error {
    Error::Deadline { what, limit: TIMEOUT, last: "nothing received".into() }
}
