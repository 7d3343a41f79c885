//! Documents of an issuer, over HTTPS.

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

/// How long a document may take.
const WITHIN: Duration = Duration::from_secs(30);

/// No document of an issuer is larger.
const LARGEST: usize = 1 << 20;

/// Reads a document.
pub(super) async fn json<T: DeserializeOwned>(url: &str, tls: &Arc<ClientConfig>) -> Result<T, String> {
    let bytes = match tokio::time::timeout(WITHIN, get(url, tls)).await {
        Ok(got) => got.map_err(|error| format!("{url}: {error}"))?,
        Err(_) => return Err(format!("{url}: no answer within {} s", WITHIN.as_secs())),
    };
    serde_json::from_slice(&bytes).map_err(|error| format!("{url}: {error}"))
}

async fn get(url: &str, tls: &Arc<ClientConfig>) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let uri: Uri = url.parse()?;
    let authority =
        uri.authority().filter(|_| uri.scheme_str() == Some("https")).ok_or("it is no https:// address")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let stream = TcpStream::connect((host.as_str(), authority.port_u16().unwrap_or(443))).await?;
    let stream = TlsConnector::from(tls.clone()).connect(ServerName::try_from(host)?, stream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::get(target)
        .header(header::HOST, authority.as_str())
        .header(header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("it was answered with {}", response.status()).into());
        }
        Ok(Limited::new(response.into_body(), LARGEST).collect().await?.to_bytes())
    };
    // Both end together: the connection is of no use without its answer.
    tokio::select! {
        answer = answer => answer,
        Err(error) = connection => Err(error.into()),
    }
}
