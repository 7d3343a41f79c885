//! Sends a request to the upstream, over a connection that waits or a new one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, Version, header};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;

use super::body::Outgoing;
use super::dial::{Dialed, Dialer};
use super::places::Place;
use super::pool::{Lease, Pool};
use crate::metrics::ProxyMetrics;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The upstream could not be connected to.
    #[error("the upstream cannot be reached: {0}")]
    Unreachable(String),
    /// It broke off, or does not speak HTTP.
    #[error("the upstream broke off: {0}")]
    Broken(String),
}

/// The upstream, as one worker reaches it.
#[derive(Debug)]
pub(crate) struct Upstream {
    dialer: Option<Dialer>,
    pool: Arc<Pool>,
    dialing: tokio::sync::Mutex<()>,
    metrics: ProxyMetrics,
}

/// An answer, and the connection that it is still read from.
pub(crate) type Answer = (Response<Incoming>, Option<Lease>);

impl Upstream {
    /// Reached by this dialer; by none, everything is a failure.
    pub(crate) fn new(dialer: Option<Dialer>, metrics: &ProxyMetrics) -> Self {
        Self {
            dialer,
            pool: Arc::default(),
            dialing: tokio::sync::Mutex::default(),
            metrics: metrics.clone(),
        }
    }

    /// The connections that wait.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Sends a request whose target is a path. `ended` tells whether its body has ended.
    pub(crate) async fn send(
        &self,
        mut request: Request<Outgoing>,
        ended: Option<Arc<AtomicBool>>,
    ) -> Result<Answer, Failure> {
        let Some(dialer) = &self.dialer else {
            return Err(Failure::Unreachable("--upstream leads nowhere".into()));
        };
        if let Some(sender) = self.pool.shared() {
            match self.send_shared(dialer, sender, request).await {
                Ok(answer) => return Ok((answer, None)),
                Err((Some(unsent), _)) => request = unsent,
                Err((None, why)) => return Err(Failure::Broken(why)),
            }
        }
        let (place, waited) = self.pool.places().take().await;
        if waited {
            self.metrics.upstream_wait();
        }
        // Dead ones give the request back, and the next is tried; a new one is tried once.
        while let Some((mut sender, may_end)) = self.pool.take().await {
            let copy = if may_end { repeatable(&request) } else { None };
            match sender.try_send_request(request).await {
                Ok(answer) => return Ok((answer, Some(Lease::new(sender, ended, &self.pool, place)))),
                Err(error) => {
                    self.metrics.upstream_connection("dead");
                    request = unsent(error, copy).map_err(Failure::Broken)?;
                }
            }
        }
        self.send_anew(dialer, request, ended, place).await
    }

    async fn send_anew(
        &self,
        dialer: &Dialer,
        request: Request<Outgoing>,
        ended: Option<Arc<AtomicBool>>,
        place: Place,
    ) -> Result<Answer, Failure> {
        match Box::pin(self.dial(dialer)).await.map_err(Failure::Unreachable)? {
            Dialed::One(mut sender) => match sender.try_send_request(request).await {
                Ok(answer) => Ok((answer, Some(Lease::new(sender, ended, &self.pool, place)))),
                Err(error) => Err(Failure::Broken(error.into_error().to_string())),
            },
            Dialed::Shared(sender) => match self.send_shared(dialer, sender, request).await {
                Ok(answer) => Ok((answer, None)),
                Err((_, why)) => Err(Failure::Broken(why)),
            },
        }
    }

    /// Many who find no connection of HTTP/2 at once make one, and not one each.
    async fn dial(&self, dialer: &Dialer) -> Result<Dialed, String> {
        let speaks_http2 = dialer.way.speech == super::target::Speech::H2c;
        let _turn = if speaks_http2 { Some(self.dialing.lock().await) } else { None };
        if speaks_http2 && let Some(sender) = self.pool.shared() {
            return Ok(Dialed::Shared(sender));
        }
        let dialed = dialer.dial().await;
        self.metrics.upstream_connection(if dialed.is_ok() { "opened" } else { "failed" });
        if let Ok(Dialed::Shared(sender)) = &dialed {
            self.pool.share(sender.clone());
        }
        dialed
    }

    /// HTTP/2 names the host in the target. What was not sent is given back.
    async fn send_shared(
        &self,
        dialer: &Dialer,
        mut sender: hyper::client::conn::http2::SendRequest<Outgoing>,
        mut request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, (Option<Request<Outgoing>>, String)> {
        let path = request.uri().path_and_query().cloned();
        let host = request.headers().get(header::HOST).and_then(authority);
        let authority = host.unwrap_or_else(|| dialer.way.authority.clone());
        let Some(uri) = path.clone().and_then(|path| dialer.way.uri(authority, path)) else {
            return Err((None, "its target cannot be written for HTTP/2".into()));
        };
        let host = request.headers_mut().remove(header::HOST);
        let chunked = request.headers_mut().remove(header::TRANSFER_ENCODING);
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        if let Err(error) = sender.ready().await {
            return Err((restored(request, path, (host, chunked)), error.to_string()));
        }
        sender.try_send_request(request).await.map_err(|mut error| {
            let unsent = error.take_message().and_then(|request| restored(request, path, (host, chunked)));
            (unsent, error.into_error().to_string())
        })
    }
}

fn authority(host: &HeaderValue) -> Option<Authority> {
    Authority::try_from(host.as_bytes()).ok()
}

/// The request as it was before it was written for HTTP/2.
fn restored(
    mut request: Request<Outgoing>,
    path: Option<http::uri::PathAndQuery>,
    (host, chunked): (Option<HeaderValue>, Option<HeaderValue>),
) -> Option<Request<Outgoing>> {
    *request.uri_mut() = path?.into();
    *request.version_mut() = Version::HTTP_11;
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host);
    }
    if let Some(chunked) = chunked {
        request.headers_mut().insert(header::TRANSFER_ENCODING, chunked);
    }
    Some(request)
}

/// A copy of a request that has neither body nor effect: it may be sent twice.
fn repeatable(request: &Request<Outgoing>) -> Option<Request<Outgoing>> {
    let harmless = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE);
    let plain = harmless && matches!(request.body(), Outgoing::Empty);
    // An upgrade is bound to the connection of its client.
    if !plain || request.headers().contains_key(header::UPGRADE) {
        return None;
    }
    let mut copy = Request::new(Outgoing::Empty);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// The request, if it was not sent or may be sent again.
fn unsent(
    mut error: TrySendError<Request<Outgoing>>,
    copy: Option<Request<Outgoing>>,
) -> Result<Request<Outgoing>, String> {
    if let Some(request) = error.take_message() {
        return Ok(request);
    }
    let error = error.into_error();
    // Only when not a byte of an answer was there: half of one is an answer.
    let silent = error.is_incomplete_message() || error.is_closed() || is_reset(&error);
    copy.filter(|_| silent).ok_or_else(|| error.to_string())
}

fn is_reset(error: &hyper::Error) -> bool {
    std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>()).is_some_and(
        |error| matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe),
    )
}
