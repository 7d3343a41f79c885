//! Sends requests to the upstream, over a pooled or a new connection.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, Version, header};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;

use super::body::RequestBody;
use super::concurrency::ConcurrencyPermit;
use super::dial::{Dialed, Dialer};
use super::pool::{ConnectionPool, Lease};
use crate::metrics::ProxyMetrics;

/// Why an upstream request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// No connection could be established.
    #[error("upstream unreachable: {0}")]
    Unreachable(String),
    /// The connection failed, or the response is not valid HTTP.
    #[error("upstream connection failed: {0}")]
    Broken(String),
}

/// The upstream client of one worker.
#[derive(Debug)]
pub(crate) struct UpstreamClient {
    dialer: Option<Dialer>,
    pool: Arc<ConnectionPool>,
    dial_lock: tokio::sync::Mutex<()>,
    metrics: ProxyMetrics,
}

/// A response, and the HTTP/1 connection that its body is read from.
pub(crate) type UpstreamResponse = (Response<Incoming>, Option<Lease>);

impl UpstreamClient {
    /// Creates a client. Without a dialer every request fails.
    pub(crate) fn new(dialer: Option<Dialer>, metrics: &ProxyMetrics) -> Self {
        Self {
            dialer,
            pool: Arc::default(),
            dial_lock: tokio::sync::Mutex::default(),
            metrics: metrics.clone(),
        }
    }

    /// Returns the connection pool.
    pub(crate) fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    /// Sends a request in origin form. `body_ended` is set once its body has ended.
    pub(crate) async fn send(
        &self,
        mut request: Request<RequestBody>,
        body_ended: Option<Arc<AtomicBool>>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let Some(dialer) = &self.dialer else {
            return Err(UpstreamError::Unreachable("--upstream has no usable address".into()));
        };
        if let Some(sender) = self.pool.shared() {
            match self.send_http2(dialer, sender, request).await {
                Ok(response) => return Ok((response, None)),
                Err((Some(unsent), _)) => request = unsent,
                Err((None, error)) => return Err(UpstreamError::Broken(error)),
            }
        }
        let (permit, has_waited) = self.pool.concurrency().acquire().await;
        if has_waited {
            self.metrics.record_upstream_wait();
        }
        // A dead connection returns the unsent request, and the next one is tried; a new connection is tried
        // once.
        while let Some((mut sender, may_be_closing)) = self.pool.take().await {
            let retry = if may_be_closing { clone_if_safe(&request) } else { None };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    return Ok((response, Some(Lease::new(sender, body_ended, &self.pool, permit))));
                }
                Err(error) => {
                    self.metrics.record_upstream_connection("dead");
                    request = recover_request(error, retry).map_err(UpstreamError::Broken)?;
                }
            }
        }
        self.send_on_new_connection(dialer, request, body_ended, permit).await
    }

    async fn send_on_new_connection(
        &self,
        dialer: &Dialer,
        request: Request<RequestBody>,
        body_ended: Option<Arc<AtomicBool>>,
        permit: ConcurrencyPermit,
    ) -> Result<UpstreamResponse, UpstreamError> {
        match Box::pin(self.dial(dialer)).await.map_err(UpstreamError::Unreachable)? {
            Dialed::Http1(mut sender) => match sender.try_send_request(request).await {
                Ok(response) => Ok((response, Some(Lease::new(sender, body_ended, &self.pool, permit)))),
                Err(error) => Err(UpstreamError::Broken(error.into_error().to_string())),
            },
            Dialed::Http2(sender) => match self.send_http2(dialer, sender, request).await {
                Ok(response) => Ok((response, None)),
                Err((_, error)) => Err(UpstreamError::Broken(error)),
            },
        }
    }

    /// Opens a connection. Concurrent callers share one new HTTP/2 connection instead of opening one each.
    async fn dial(&self, dialer: &Dialer) -> Result<Dialed, String> {
        let is_h2c = dialer.endpoint.protocol == super::url::Protocol::H2c;
        let _guard = if is_h2c { Some(self.dial_lock.lock().await) } else { None };
        if is_h2c && let Some(sender) = self.pool.shared() {
            return Ok(Dialed::Http2(sender));
        }
        let dialed = dialer.dial().await;
        self.metrics.record_upstream_connection(if dialed.is_ok() { "opened" } else { "failed" });
        if let Ok(Dialed::Http2(sender)) = &dialed {
            self.pool.set_shared(sender.clone());
        }
        dialed
    }

    /// Sends a request over HTTP/2, whose target contains the host. An unsent request is returned in HTTP/1
    /// form.
    async fn send_http2(
        &self,
        dialer: &Dialer,
        mut sender: hyper::client::conn::http2::SendRequest<RequestBody>,
        mut request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, (Option<Request<RequestBody>>, String)> {
        let path = request.uri().path_and_query().cloned();
        let host = request.headers().get(header::HOST).and_then(authority);
        let authority = host.unwrap_or_else(|| dialer.endpoint.authority.clone());
        let Some(uri) = path.clone().and_then(|path| dialer.endpoint.uri(authority, path)) else {
            return Err((None, "request target is not valid in HTTP/2".into()));
        };
        let host = request.headers_mut().remove(header::HOST);
        let chunked = request.headers_mut().remove(header::TRANSFER_ENCODING);
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        if let Err(error) = sender.ready().await {
            return Err((restore_http1(request, path, (host, chunked)), error.to_string()));
        }
        sender.try_send_request(request).await.map_err(|mut error| {
            let unsent =
                error.take_message().and_then(|request| restore_http1(request, path, (host, chunked)));
            (unsent, error.into_error().to_string())
        })
    }
}

fn authority(host: &HeaderValue) -> Option<Authority> {
    Authority::try_from(host.as_bytes()).ok()
}

/// Undoes the conversion to HTTP/2.
fn restore_http1(
    mut request: Request<RequestBody>,
    path: Option<http::uri::PathAndQuery>,
    (host, chunked): (Option<HeaderValue>, Option<HeaderValue>),
) -> Option<Request<RequestBody>> {
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

/// Copies a request that is safe to send twice: no body and no side effect.
fn clone_if_safe(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE);
    let has_no_body = is_safe && matches!(request.body(), RequestBody::Empty);
    // An upgrade is bound to its client connection.
    if !has_no_body || request.headers().contains_key(header::UPGRADE) {
        return None;
    }
    let mut retry = Request::new(RequestBody::Empty);
    *retry.method_mut() = request.method().clone();
    *retry.uri_mut() = request.uri().clone();
    *retry.headers_mut() = request.headers().clone();
    Some(retry)
}

/// Returns the request, if it was not sent or is safe to send again.
fn recover_request(
    mut error: TrySendError<Request<RequestBody>>,
    retry: Option<Request<RequestBody>>,
) -> Result<Request<RequestBody>, String> {
    if let Some(request) = error.take_message() {
        return Ok(request);
    }
    let error = error.into_error();
    // Only when no byte of a response arrived: a partial response is a response.
    let no_response = error.is_incomplete_message() || error.is_closed() || is_reset(&error);
    retry.filter(|_| no_response).ok_or_else(|| error.to_string())
}

fn is_reset(error: &hyper::Error) -> bool {
    std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>()).is_some_and(
        |error| matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe),
    )
}
