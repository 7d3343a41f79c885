//! The admin server: is the process alive, is it ready, what does it do, what does it cost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::progress::Progress;
use crate::telemetry::LogLevel;

/// What OpenMetrics calls its text form.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Condition = Box<dyn Fn() -> Result<(), String> + Send + Sync>;
type Source = Box<dyn Fn() -> Value + Send + Sync>;

/// The admin server that is about to serve.
#[derive(Clone)]
pub struct Admin {
    inner: Arc<Inner>,
}

struct Inner {
    metrics: Metrics,
    log_level: Option<LogLevel>,
    progress: Mutex<Vec<Progress>>,
    ready: Mutex<BTreeMap<String, Condition>>,
    state: Mutex<BTreeMap<String, Source>>,
}

impl Admin {
    /// A server of these metrics. Without a log level to change, `PUT /log-level` is refused.
    #[must_use]
    pub fn new(metrics: &Metrics, log_level: Option<LogLevel>) -> Self {
        let inner = Inner {
            metrics: metrics.clone(),
            log_level,
            progress: Mutex::default(),
            ready: Mutex::default(),
            state: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The process is alive only as long as this goes on.
    pub fn lives_by(&self, progress: Progress) {
        lock(&self.inner.progress).push(progress);
    }

    /// The process is ready only while this holds; the error says what is missing.
    pub fn ready_when(
        &self,
        name: impl Into<String>,
        condition: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        lock(&self.inner.ready).insert(name.into(), Box::new(condition));
    }

    /// Something for `/debug/state.json`. Never a secret.
    pub fn shows(&self, name: impl Into<String>, source: impl Fn() -> Value + Send + Sync + 'static) {
        lock(&self.inner.state).insert(name.into(), Box::new(source));
    }

    /// Listens, so that an address that is taken is told at the start and not later.
    pub async fn bind(self, address: SocketAddr) -> std::io::Result<Bound> {
        let listener = TcpListener::bind(address).await?;
        Ok(Bound { address: listener.local_addr()?, listener, admin: self })
    }

    fn deaths(&self) -> Vec<String> {
        lock(&self.inner.progress).iter().filter_map(Progress::death).collect()
    }

    fn missing(&self) -> Vec<String> {
        let ready = lock(&self.inner.ready);
        let missing =
            ready.iter().filter_map(|(name, condition)| Some(format!("{name}: {}", condition().err()?)));
        missing.collect()
    }

    fn state(&self) -> Value {
        let progress: BTreeMap<String, Value> = lock(&self.inner.progress)
            .iter()
            .map(|progress| {
                let trouble =
                    progress.trouble().map(|(since, why)| json!({ "seconds": since.as_secs(), "why": why }));
                (progress.name().to_owned(), json!({ "trouble": trouble }))
            })
            .collect();
        let mut state: serde_json::Map<String, Value> =
            lock(&self.inner.state).iter().map(|(name, source)| (name.clone(), source())).collect();
        state.insert("progress".into(), json!(progress));
        state.insert("notReady".into(), json!(self.missing()));
        Value::Object(state)
    }
}

/// The admin server, listening.
pub struct Bound {
    address: SocketAddr,
    listener: TcpListener,
    admin: Admin,
}

impl Bound {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`.
    pub async fn serve(self, stop: CancellationToken) {
        let routes = Router::new()
            // The second names are those that manifests for Go controllers probe.
            .route("/livez", get(livez))
            .route("/healthz", get(livez))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/debug/state.json", get(state))
            .route("/log-level", put(log_level).get(current_log_level))
            .with_state(self.admin);
        let serving =
            axum::serve(self.listener, routes).with_graceful_shutdown(async move { stop.cancelled().await });
        if let Err(error) = serving.await {
            tracing::error!(%error, "the admin server ended");
        }
    }
}

async fn livez(State(admin): State<Admin>) -> Response {
    verdict(&admin.deaths())
}

async fn readyz(State(admin): State<Admin>) -> Response {
    verdict(&admin.missing())
}

fn verdict(against: &[String]) -> Response {
    if against.is_empty() {
        return (StatusCode::OK, "ok\n").into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, against.join("\n") + "\n").into_response()
}

async fn metrics(State(admin): State<Admin>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], admin.inner.metrics.text()).into_response()
}

async fn state(State(admin): State<Admin>) -> Response {
    axum::Json(admin.state()).into_response()
}

async fn current_log_level(State(admin): State<Admin>) -> Response {
    match &admin.inner.log_level {
        Some(level) => (StatusCode::OK, level.current() + "\n").into_response(),
        None => {
            (StatusCode::NOT_IMPLEMENTED, "the log level of this process cannot be changed\n").into_response()
        }
    }
}

async fn log_level(State(admin): State<Admin>, wanted: String) -> Response {
    let Some(level) = &admin.inner.log_level else {
        return (StatusCode::NOT_IMPLEMENTED, "the log level of this process cannot be changed\n")
            .into_response();
    };
    match level.set(wanted.trim()) {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(why) => (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
