//! HTTP GET for URLs from task parameters: no redirects, and limits on time and size.

use std::sync::OnceLock;
use std::time::Duration;

use http::{Request, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::roots;

/// The largest accepted response body.
const MAX_BODY: usize = 32 << 20;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The URL is not supported.
    #[error("invalid URL {0:?}: expected http:// or https://")]
    InvalidUrl(String),
    /// The server did not respond in time.
    #[error("{0}")]
    Unreachable(String),
    /// The status is not 200.
    #[error("HTTP {0}")]
    Status(u16),
    /// The body is too large or incomplete.
    #[error("reading response: {0}")]
    Body(String),
}

/// Fetches a URL within a timeout. Any status but 200 is an error.
pub async fn fetch(url: &str, timeout: Duration) -> Result<Bytes, FetchError> {
    let response = async {
        match url.split_once("://") {
            Some(("http", rest)) => fetch_http(rest).await,
            Some(("https", _)) => fetch_https(url).await,
            _ => Err(FetchError::InvalidUrl(url.to_owned())),
        }
    };
    let late = || FetchError::Unreachable(format!("no response within {timeout:?}"));
    tokio::time::timeout(timeout, response).await.map_err(|_| late())?
}

fn unreachable(error: impl std::fmt::Display) -> FetchError {
    FetchError::Unreachable(error.to_string())
}

/// Opens a new connection for each request: seid is queried rarely and may have restarted since.
async fn fetch_http(rest: &str) -> Result<Bytes, FetchError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let with_port = |authority: &str| {
        if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") }
    };
    let stream = TcpStream::connect(with_port(authority)).await.map_err(unreachable)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
    let request = Request::get(format!("/{path}"))
        .header(header::HOST, authority)
        .body(Empty::<Bytes>::new())
        .map_err(|_| FetchError::InvalidUrl(rest.to_owned()))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(unreachable)?;
        if response.status() != 200 {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| FetchError::Body(error.to_string()))
    };
    // Polled here instead of spawned, so that it ends with the caller.
    tokio::pin!(connection);
    tokio::pin!(exchange);
    tokio::select! {
        body = &mut exchange => body,
        ended = &mut connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(unreachable(error)),
        },
    }
}

/// Returns the HTTPS client. It is built on first use because it loads all system certificates.
fn client() -> Result<&'static reqwest::Client, FetchError> {
    static CLIENT: OnceLock<Result<reqwest::Client, String>> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        let certificates = roots::bundled().map(reqwest::Certificate::from_der);
        let certificates: Vec<_> =
            certificates.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        builder.tls_certs_merge(certificates).build().map_err(|error| error.to_string())
    });
    client.as_ref().map_err(unreachable)
}

async fn fetch_https(url: &str) -> Result<Bytes, FetchError> {
    let mut response = client()?.get(url).send().await.map_err(|error| unreachable(error.without_url()))?;
    if response.status() != 200 {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| FetchError::Body(error.to_string()))? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(FetchError::Body(format!("larger than {MAX_BODY} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}
