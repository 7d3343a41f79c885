//! The proxy's own health and metrics, over TLS and without authentication.

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

use super::stop::Stop;

/// What OpenMetrics calls its text form.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long a connection may live here: scrapers come again.
const LIFE: Duration = Duration::from_secs(300);

/// What is served.
#[derive(Debug)]
pub(crate) struct Endpoints {
    metrics: Metrics,
}

impl Endpoints {
    /// Serves these metrics.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone() }
    }

    /// Serves one connection.
    pub(crate) async fn serve<S>(
        self: &Arc<Self>,
        stream: S,
        is_http2: bool,
        stop: &Stop,
        head_within: Duration,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let this = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = this.answer(request.method(), request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
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
                    .header_read_timeout(head_within)
                    .serve_connection(io, service)
                    .await
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a connection for health or metrics broke");
            }
        };
        tokio::select! {
            () = serving => {}
            () = stop.heard() => {}
            () = tokio::time::sleep(LIFE) => {}
        }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let asked = *method == Method::GET || *method == Method::HEAD;
        let (status, kind, body) = match path {
            "/healthz" | "/readyz" | "/livez" if asked => {
                (StatusCode::OK, "text/plain; charset=utf-8", "ok".into())
            }
            "/metrics" if asked => (StatusCode::OK, OPEN_METRICS, self.metrics.text()),
            _ => (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n".into()),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}
