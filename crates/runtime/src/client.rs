//! The way to the API server: every request is counted and has a deadline.

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

use crate::metrics::{ByAnswer, ByVerb, Metrics};

/// How long the API server may take until the head of its answer.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// How long an answer may pause. A watch is never silent for longer, since the server sends a bookmark every minute and
/// ends it after [`crate::watch::LIFE`]: one that is has lost its connection without being told.
const PAUSE_WITHIN: Duration = Duration::from_secs(150);

/// How many requests are under way at once, beside watches. Each needs a connection of its own, which takes a handshake and
/// 100 KB: a process that has a thousand things to write would open hundreds of them, and be no faster.
const AT_ONCE: usize = 24;

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig cannot be used.
    #[error("{what}: {source}")]
    Kubeconfig {
        /// Which one.
        what: String,
        /// Why.
        source: Box<kube::config::KubeconfigError>,
    },
    /// Neither a kubeconfig nor a service account was found.
    #[error(
        "no kubeconfig and no service account: give --kubeconfig FILE, set KUBECONFIG, or run in a pod ({0})"
    )]
    Nothing(Box<kube::config::InferConfigError>),
    /// The user agent is no header value.
    #[error("{0:?} cannot be a user agent")]
    UserAgent(String),
    /// The client cannot be made of the configuration.
    #[error("the way to the API server: {0}")]
    Client(Box<kube::Error>),
}

/// How to reach the API server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// A kubeconfig; else `KUBECONFIG`, `~/.kube/config`, or the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it; else its current one.
    pub context: Option<String>,
}

impl Access {
    /// A client whose requests carry `user_agent`. It does not repeat requests by itself: who asked knows better whether,
    /// when and what to ask again.
    pub async fn connect(&self, user_agent: &str, metrics: &Metrics) -> Result<Client, Error> {
        connect(self.config().await?, user_agent, metrics)
    }

    async fn config(&self) -> Result<Config, Error> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let refused = |what: String| move |error| Error::Kubeconfig { what, source: Box::new(error) };
        match &self.kubeconfig {
            Some(path) => {
                let what = format!("--kubeconfig {}", path.display());
                let read = Kubeconfig::read_from(path).map_err(refused(what.clone()))?;
                Config::from_custom_kubeconfig(read, &options).await.map_err(refused(what))
            }
            None if self.context.is_some() => {
                let what = format!("--context {}", self.context.as_deref().unwrap_or_default());
                Config::from_kubeconfig(&options).await.map_err(refused(what))
            }
            None => Config::infer().await.map_err(|error| Error::Nothing(Box::new(error))),
        }
    }
}

/// The same for a configuration that was read already.
pub fn connect(mut config: Config, user_agent: &str, metrics: &Metrics) -> Result<Client, Error> {
    let agent = HeaderValue::from_str(user_agent).map_err(|_| Error::UserAgent(user_agent.to_owned()))?;
    config.headers.push((http::header::USER_AGENT, agent));
    config.default_retry = false;
    let host = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
    let counted = Counted::new(metrics, host);
    let builder = ClientBuilder::try_from(config).map_err(|error| Error::Client(Box::new(error)))?;
    Ok(builder.with_layer(&ResponseBodyTimeoutLayer::new(PAUSE_WITHIN)).with_layer(&counted).build())
}

/// Counts requests, gives each a deadline, and lets only so many be under way at once.
#[derive(Clone)]
struct Counted {
    metrics: Metrics,
    host: String,
    turns: Arc<Semaphore>,
}

impl Counted {
    fn new(metrics: &Metrics, host: String) -> Self {
        Self { metrics: metrics.clone(), host, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

/// A watch stays under way as long as it lives, and would keep everything else waiting.
fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"))
}

impl<S> Layer<S> for Counted {
    type Service = CountedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CountedService { inner, to: self.clone() }
    }
}

#[derive(Clone)]
struct CountedService<S> {
    inner: S,
    to: Counted,
}

impl<S, B> Service<Request<Body>> for CountedService<S>
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
        let to = self.to.clone();
        let is_watch = is_watch(&request);
        // Nothing is sent before the answer is waited for.
        let answer = self.inner.call(request);
        Box::pin(async move {
            // It is never closed.
            let _turn = if is_watch { None } else { to.turns.clone().acquire_owned().await.ok() };
            let begin = Instant::now();
            let answer = match tokio::time::timeout(HEAD_WITHIN, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => {
                    Err(format!("the API server did not answer within {} s", HEAD_WITHIN.as_secs()).into())
                }
            };
            let code = answer
                .as_ref()
                .map_or_else(|_| "<error>".to_owned(), |answer| answer.status().as_str().to_owned());
            let Counted { metrics, host, .. } = to;
            metrics
                .requests
                .get_or_create(&ByAnswer { code, method: method.clone(), host: host.clone() })
                .inc();
            metrics
                .request_time
                .get_or_create(&ByVerb { verb: method, host })
                .observe(begin.elapsed().as_secs_f64());
            answer
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
    async fn only_so_many_requests_are_under_way_and_watches_beside_them() {
        let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let finish = Arc::new(Semaphore::new(0));
        let server = {
            let (under_way, most, finish) = (under_way.clone(), most.clone(), finish.clone());
            service_fn(move |_: Request<Body>| {
                let (under_way, most, finish) = (under_way.clone(), most.clone(), finish.clone());
                async move {
                    most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    finish.acquire().await.unwrap().forget();
                    under_way.fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, Infallible>(Response::new(()))
                }
            })
        };
        let client = Counted::new(&Metrics::new(), "here".into()).layer(server);
        let ask = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            tokio::spawn(client.clone().oneshot(request))
        };
        let mut asked: Vec<_> = (0..3 * AT_ONCE).map(|_| ask("/api/v1/pods?watch=false")).collect();
        until(&under_way, AT_ONCE).await;
        asked.push(ask("/api/v1/pods?limit=1&watch=true"));
        until(&under_way, AT_ONCE + 1).await;
        finish.add_permits(asked.len());
        for answer in asked {
            answer.await.unwrap().unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), AT_ONCE + 1);
    }

    /// Waits until so many have come, and sees that no more do.
    async fn until(under_way: &AtomicUsize, count: usize) {
        while under_way.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(under_way.load(Ordering::SeqCst), count);
    }
}
