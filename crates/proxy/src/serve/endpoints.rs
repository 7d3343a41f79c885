//! Health and metrics endpoints of the proxy, over TLS and without authentication.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use runtime::metrics::Metrics;
use tokio::io::{AsyncRead, AsyncWrite};

use super::shutdown::Shutdown;

/// Content type of the OpenMetrics text format.
const OPENMETRICS_TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Maximum lifetime of a connection; scrapers reconnect.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(300);

/// Serves `/healthz`, `/readyz`, `/livez` and `/metrics`.
#[derive(Debug)]
pub(crate) struct Endpoints {
    metrics: Metrics,
}

impl Endpoints {
    /// Serves the given metrics.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone() }
    }

    /// Serves one connection until it closes, shuts down or reaches its maximum age.
    pub(crate) async fn serve<S>(
        self: &Arc<Self>,
        stream: S,
        is_http2: bool,
        shutdown: &Shutdown,
        header_timeout: Duration,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let this = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let response = this.respond(request.method(), request.uri().path());
            async move { Ok::<_, Infallible>(response) }
        });
        let io = TokioIo::new(stream);
        let serving = async {
            let served = if is_http2 {
                http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .serve_connection(io, service)
                    .await
            } else {
                http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(header_timeout)
                    .serve_connection(io, service)
                    .await
            };
            if let Err(error) = served {
                tracing::debug!(%error, "endpoint connection failed");
            }
        };
        tokio::select! {
            () = serving => {}
            () = shutdown.triggered() => {}
            () = tokio::time::sleep(MAX_CONNECTION_AGE) => {}
        }
    }

    fn respond(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let is_read = *method == Method::GET || *method == Method::HEAD;
        let (status, kind, body) = match path {
            "/healthz" | "/readyz" | "/livez" if is_read => {
                (StatusCode::OK, "text/plain; charset=utf-8", "ok".into())
            }
            "/metrics" if is_read => (StatusCode::OK, OPENMETRICS_TEXT, self.metrics.encode()),
            _ => (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n".into()),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}
