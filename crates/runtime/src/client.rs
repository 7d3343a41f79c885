//! The Kubernetes client: every request is counted, has a deadline and counts against a concurrency limit.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::Semaphore;
use tower::{BoxError, Layer, Service};
use tower_http::timeout::ResponseBodyTimeoutLayer;

use crate::metrics::{Metrics, ResponseLabels, VerbLabels};

/// Timeout for response headers.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Idle timeout for response bodies. The API server sends a watch bookmark every minute and closes the watch after
/// [`crate::watch::WATCH_TIMEOUT`], so a longer silence means that the connection was lost.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(150);

/// Concurrent requests, watches excluded. Each needs its own connection (a handshake and 100 KB): without a limit, a process
/// with a thousand pending writes opens hundreds of connections and is no faster.
const MAX_CONCURRENT_REQUESTS: usize = 24;

/// Errors of creating a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig is unusable.
    #[error("{what}: {source}")]
    Kubeconfig {
        /// The flag that selected it.
        what: String,
        /// The cause.
        source: Box<kube::config::KubeconfigError>,
    },
    /// Neither a kubeconfig nor a service account was found.
    #[error(
        "no kubeconfig and no service account found: set --kubeconfig or KUBECONFIG, or run in a pod ({0})"
    )]
    NotConfigured(Box<kube::config::InferConfigError>),
    /// The user agent is not a valid header value.
    #[error("invalid user agent {0:?}: not a valid header value")]
    UserAgent(String),
    /// The configuration does not yield a client.
    #[error("failed to create Kubernetes client: {0}")]
    Client(Box<kube::Error>),
}

/// Selects the cluster to connect to.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Path of a kubeconfig. If unset: `KUBECONFIG`, `~/.kube/config`, or the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig. If unset: its current context.
    pub context: Option<String>,
}

impl ClientOptions {
    /// Creates a client with this user agent. The client never retries: only the caller knows whether a request is safe to
    /// repeat.
    pub async fn connect(&self, user_agent: &str, metrics: &Metrics) -> Result<Client, Error> {
        connect(self.config().await?, user_agent, metrics)
    }

    async fn config(&self) -> Result<Config, Error> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let invalid = |what: String| move |error| Error::Kubeconfig { what, source: Box::new(error) };
        match &self.kubeconfig {
            Some(path) => {
                let what = format!("--kubeconfig {}", path.display());
                let kubeconfig = Kubeconfig::read_from(path).map_err(invalid(what.clone()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(invalid(what))
            }
            None if self.context.is_some() => {
                let what = format!("--context {}", self.context.as_deref().unwrap_or_default());
                Config::from_kubeconfig(&options).await.map_err(invalid(what))
            }
            None => Config::infer().await.map_err(|error| Error::NotConfigured(Box::new(error))),
        }
    }
}

/// Creates a client from a loaded configuration, with the same limits as [`ClientOptions::connect`].
pub fn connect(mut config: Config, user_agent: &str, metrics: &Metrics) -> Result<Client, Error> {
    let agent = HeaderValue::from_str(user_agent).map_err(|_| Error::UserAgent(user_agent.to_owned()))?;
    config.headers.push((http::header::USER_AGENT, agent));
    config.default_retry = false;
    let host = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
    let limits = RequestLimits::new(metrics, host);
    let builder = ClientBuilder::try_from(config).map_err(|error| Error::Client(Box::new(error)))?;
    Ok(builder.with_layer(&ResponseBodyTimeoutLayer::new(BODY_IDLE_TIMEOUT)).with_layer(&limits).build())
}

/// A layer that counts requests, times them out and limits their concurrency.
#[derive(Clone)]
struct RequestLimits {
    metrics: Metrics,
    host: String,
    permits: Arc<Semaphore>,
}

impl RequestLimits {
    fn new(metrics: &Metrics, host: String) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS));
        Self { metrics: metrics.clone(), host, permits }
    }
}

/// Watches are exempt from the concurrency limit: they stay open for minutes and would starve all other requests.
fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"))
}

impl<S> Layer<S> for RequestLimits {
    type Service = LimitedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        LimitedService { inner, limits: self.clone() }
    }
}

#[derive(Clone)]
struct LimitedService<S> {
    inner: S,
    limits: RequestLimits,
}

impl<S, B> Service<Request<Body>> for LimitedService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.method().to_string();
        let limits = self.limits.clone();
        let is_watch = is_watch(&request);
        // The request is sent when the future is first polled, which is after the permit is acquired.
        let response = self.inner.call(request);
        Box::pin(async move {
            // Acquiring fails only on a closed semaphore, and this one is never closed.
            let _permit = if is_watch { None } else { limits.permits.clone().acquire_owned().await.ok() };
            let start = Instant::now();
            let response = match tokio::time::timeout(RESPONSE_TIMEOUT, response).await {
                Ok(response) => response.map_err(Into::into),
                Err(_) => {
                    Err(format!("API server did not respond within {} s", RESPONSE_TIMEOUT.as_secs()).into())
                }
            };
            let code = response
                .as_ref()
                .map_or_else(|_| "<error>".to_owned(), |response| response.status().as_str().to_owned());
            let RequestLimits { metrics, host, .. } = limits;
            metrics
                .requests
                .get_or_create(&ResponseLabels { code, method: method.clone(), host: host.clone() })
                .inc();
            metrics
                .request_time
                .get_or_create(&VerbLabels { verb: method, host })
                .observe(start.elapsed().as_secs_f64());
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test]
    async fn concurrent_requests_are_limited_and_watches_are_exempt() {
        let (active, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let finish = Arc::new(Semaphore::new(0));
        let server = {
            let (active, peak, finish) = (active.clone(), peak.clone(), finish.clone());
            service_fn(move |_: Request<Body>| {
                let (active, peak, finish) = (active.clone(), peak.clone(), finish.clone());
                async move {
                    peak.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    finish.acquire().await.unwrap().forget();
                    active.fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, Infallible>(Response::new(()))
                }
            })
        };
        let client = RequestLimits::new(&Metrics::new(), "here".into()).layer(server);
        let send = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            tokio::spawn(client.clone().oneshot(request))
        };
        let mut sent: Vec<_> =
            (0..3 * MAX_CONCURRENT_REQUESTS).map(|_| send("/api/v1/pods?watch=false")).collect();
        assert_settles_at(&active, MAX_CONCURRENT_REQUESTS).await;
        sent.push(send("/api/v1/pods?limit=1&watch=true"));
        assert_settles_at(&active, MAX_CONCURRENT_REQUESTS + 1).await;
        finish.add_permits(sent.len());
        for response in sent {
            response.await.unwrap().unwrap();
        }
        assert_eq!(peak.load(Ordering::SeqCst), MAX_CONCURRENT_REQUESTS + 1);
    }

    /// Waits until `count` requests are active, and asserts that no more follow.
    async fn assert_settles_at(active: &AtomicUsize, count: usize) {
        while active.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(active.load(Ordering::SeqCst), count);
    }
}
