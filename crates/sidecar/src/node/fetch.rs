//! Fetches a document from an address that somebody else chose: no redirects, and limits for everything.

use std::sync::OnceLock;
use std::time::Duration;

use http::{Request, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::roots;

/// The longest answer.
const LONGEST: usize = 32 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address is none that is spoken to.
    #[error("{0:?} is no address of http or https")]
    Address(String),
    /// Nobody answered, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// The answer is no success.
    #[error("HTTP {0}")]
    Status(u16),
    /// The answer is too long, or broke off.
    #[error("its answer cannot be read: {0}")]
    Answer(String),
}

/// Fetches a document within a time. Only `200` is an answer.
pub async fn fetch(url: &str, within: Duration) -> Result<Bytes, FetchError> {
    let fetched = async {
        match url.split_once("://") {
            Some(("http", rest)) => plain(rest).await,
            Some(("https", _)) => secure(url).await,
            _ => Err(FetchError::Address(url.to_owned())),
        }
    };
    let late = || FetchError::Unreachable(format!("no answer within {within:?}"));
    tokio::time::timeout(within, fetched).await.map_err(|_| late())?
}

fn unreachable(error: impl std::fmt::Display) -> FetchError {
    FetchError::Unreachable(error.to_string())
}

/// A connection for each: the process beside us is asked rarely, and may have been started again since.
async fn plain(rest: &str) -> Result<Bytes, FetchError> {
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
        .map_err(|_| FetchError::Address(rest.to_owned()))?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(unreachable)?;
        if answer.status() != 200 {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| FetchError::Answer(error.to_string()))
    };
    // The connection is driven here, so that it is gone with whoever asked.
    tokio::pin!(connection);
    tokio::pin!(exchange);
    tokio::select! {
        done = &mut exchange => done,
        ended = &mut connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(unreachable(error)),
        },
    }
}

/// Made when it is first needed: it reads all certificates of the system.
fn client() -> Result<&'static reqwest::Client, FetchError> {
    static CLIENT: OnceLock<Result<reqwest::Client, String>> = OnceLock::new();
    let made = CLIENT.get_or_init(|| {
        let authorities = roots::built_in().map(reqwest::Certificate::from_der);
        let authorities: Vec<_> = authorities.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        builder.tls_certs_merge(authorities).build().map_err(|error| error.to_string())
    });
    made.as_ref().map_err(unreachable)
}

async fn secure(url: &str) -> Result<Bytes, FetchError> {
    let mut answer = client()?.get(url).send().await.map_err(|error| unreachable(error.without_url()))?;
    if answer.status() != 200 {
        return Err(FetchError::Status(answer.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| FetchError::Answer(error.to_string()))? {
        if body.len() + chunk.len() > LONGEST {
            return Err(FetchError::Answer(format!("longer than {LONGEST} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}
