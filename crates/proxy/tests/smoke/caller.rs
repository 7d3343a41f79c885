//! Test clients: one request each, over a connection of its own.

use rustls::pki_types::ServerName;
use testbed::cluster::pki::Identity;
use testbed::harness::raw_http::ClientTls;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Any error of a call.
pub type CallError = Box<dyn std::error::Error + Send + Sync>;

/// A request.
#[derive(Default)]
pub struct Call {
    path: String,
    headers: String,
    tls: bool,
    identity: Option<Identity>,
}

/// Its response.
#[derive(Debug)]
pub struct CallResponse {
    pub status: u16,
    pub body: String,
}

impl Call {
    /// A GET request.
    pub fn get(path: &str) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// Adds a bearer token.
    pub fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Uses TLS.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Uses TLS with a client certificate.
    pub fn certificate(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self.tls()
    }

    /// Sends the request.
    pub async fn send_to(self, address: &str) -> Result<CallResponse, CallError> {
        let stream = TcpStream::connect(address).await?;
        if self.tls {
            let stream = connect(stream, self.identity.as_ref()).await?;
            self.send_over(stream).await
        } else {
            self.send_over(stream).await
        }
    }

    async fn send_over(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> Result<CallResponse, CallError> {
        let head =
            format!("GET {} HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n{}\r\n", self.path, self.headers);
        stream.write_all(head.as_bytes()).await?;
        let mut bytes = Vec::new();
        // Servers may close without a TLS close_notify.
        let read = stream.read_to_end(&mut bytes).await;
        if bytes.is_empty() {
            read?;
        }
        let text = String::from_utf8(bytes)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or("no response")?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no status")?;
        Ok(CallResponse { status, body: body.to_owned() })
    }
}

/// Returns the subject of the served certificate.
pub async fn served_subject(address: &str) -> Result<String, CallError> {
    let stream = connect(TcpStream::connect(address).await?, None).await?;
    let certificates = stream.get_ref().1.peer_certificates().ok_or("no certificate")?;
    let first = certificates.first().ok_or("no certificate")?;
    let (_, parsed) = x509_parser::parse_x509_certificate(first)?;
    Ok(parsed.subject().to_string())
}

async fn connect(
    stream: TcpStream,
    identity: Option<&Identity>,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, CallError> {
    let tls = match identity {
        None => ClientTls::trusting_any(),
        Some(identity) => ClientTls::trusting_any().client_certificate(identity),
    };
    Ok(TlsConnector::from(tls.config()?).connect(ServerName::try_from("proxy")?, stream).await?)
}
