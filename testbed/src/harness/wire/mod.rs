//! A client that writes what it is told, byte for byte, and reads what comes back: for requests that no library would write, and
//! for servers that are not believed.

mod answer;
pub mod frames;
mod trust;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use self::answer::Answer;
pub use self::trust::{Presented, Trust};
use crate::error::{Error, IoContext, Result};

/// How long an answer may take: a busy machine is slow, a hanging server is found all the same.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a connection runs over.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// One connection.
pub struct Wire {
    stream: Box<dyn Transport>,
    buffer: Vec<u8>,
}

impl Wire {
    /// Connects in clear text.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self { stream: Box::new(tcp(address).await?), buffer: Vec::new() })
    }

    /// Connects in clear text from an address of the caller's choice: for whoever must not be taken for another.
    pub async fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Result<Self> {
        let stream = tcp_from(Some(source), address).await?;
        Ok(Self { stream: Box::new(stream), buffer: Vec::new() })
    }

    /// Connects with TLS. The name is not sent: the servers that are tested have one certificate.
    pub async fn encrypted(address: SocketAddr, config: Arc<ClientConfig>) -> Result<Self> {
        let stream = tcp(address).await?;
        let name = ServerName::from(address.ip());
        let what = || format!("TLS with {address}");
        let shaken = timeout(PATIENCE, TlsConnector::from(config).connect(name, stream)).await;
        let stream = shaken.map_err(|_| late(what()))?.context(what)?;
        Ok(Self { stream: Box::new(stream), buffer: Vec::new() })
    }

    /// What it runs over, for a library that speaks for itself.
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
        timeout(PATIENCE, written).await.map_err(|_| late(what()))?.context(what)
    }

    /// Says that nothing more will be written.
    pub async fn finish(&mut self) -> Result<()> {
        self.stream.shutdown().await.context(|| "closing a connection for writing".to_owned())
    }

    /// The next answer to a request with this method, with its body to the end.
    pub async fn answer(&mut self, method: &str) -> Result<Answer> {
        let read = answer::read(self.stream.as_mut(), &mut self.buffer, method);
        timeout(PATIENCE, read).await.map_err(|_| late("an answer".into()))?
    }

    /// Reads some bytes; none at the end of the connection.
    pub async fn read(&mut self) -> Result<Vec<u8>> {
        if !self.buffer.is_empty() {
            return Ok(std::mem::take(&mut self.buffer));
        }
        let what = || "reading".to_owned();
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await;
        read.map_err(|_| late("bytes".into()))?.context(what)?;
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Reads until so many bytes are there, or the end.
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

    /// Reads everything to the end of the connection, whichever way it ends; what comes later than `within` is not waited for.
    pub async fn rest(&mut self, within: Duration) -> (Vec<u8>, bool) {
        let mut bytes = std::mem::take(&mut self.buffer);
        let read = async {
            // A reset is an end too.
            while let Ok(count) = self.stream.read_buf(&mut bytes).await {
                if count == 0 {
                    break;
                }
            }
        };
        let ended = timeout(within, read).await.is_ok();
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
    let stream = timeout(PATIENCE, socket.connect(address)).await;
    let stream = stream.map_err(|_| late(what()))?.context(what)?;
    stream.set_nodelay(true).context(what)?;
    Ok(stream)
}

fn late(what: String) -> Error {
    Error::Deadline { what, limit: PATIENCE, last: "nothing came".into() }
}
