//! Fetches documents of an issuer over HTTPS.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Deadline for one document.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a document.
const MAX_BYTES: usize = 1 << 20;

/// Fetches and parses a JSON document.
pub(super) async fn json<T: DeserializeOwned>(url: &str, tls: &Arc<ClientConfig>) -> Result<T, String> {
    let bytes = match tokio::time::timeout(TIMEOUT, get(url, tls)).await {
        Ok(result) => result.map_err(|error| format!("{url}: {error}"))?,
        Err(_) => return Err(format!("{url}: timed out after {} s", TIMEOUT.as_secs())),
    };
    serde_json::from_slice(&bytes).map_err(|error| format!("{url}: {error}"))
}

async fn get(url: &str, tls: &Arc<ClientConfig>) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let uri: Uri = url.parse()?;
    let authority =
        uri.authority().filter(|_| uri.scheme_str() == Some("https")).ok_or("expected an https:// URL")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let stream = TcpStream::connect((host.as_str(), authority.port_u16().unwrap_or(443))).await?;
    let stream = TlsConnector::from(tls.clone()).connect(ServerName::try_from(host)?, stream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::get(target)
        .header(header::HOST, authority.as_str())
        .header(header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())?;
    let response_body = async {
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("unexpected status {}", response.status()).into());
        }
        Ok(Limited::new(response.into_body(), MAX_BYTES).collect().await?.to_bytes())
    };
    // The connection is useless without the response, so both futures end together.
    tokio::select! {
        response_body = response_body => response_body,
        Err(error) = connection => Err(error.into()),
    }
}
