//! The admin server: probes and metrics for the cluster, debug state and log level for loopback only.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::liveness::Liveness;
use crate::metrics::Metrics;
use crate::settings::LoopbackAddress;
use crate::sync::lock;
use crate::telemetry::LogLevel;

/// The content type of OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const FIXED_LOG_LEVEL: &str = "the log level of this process cannot be changed\n";

type ReadinessCheck = Box<dyn Fn() -> Result<(), String> + Send + Sync>;
type StateSource = Box<dyn Fn() -> Value + Send + Sync>;

/// The admin server before it listens. Checks and state can also be added while it serves.
#[derive(Clone)]
pub struct Admin {
    inner: Arc<Inner>,
}

struct Inner {
    metrics: Metrics,
    log_level: Option<LogLevel>,
    liveness: Mutex<Vec<Liveness>>,
    readiness: Mutex<BTreeMap<String, ReadinessCheck>>,
    state: Mutex<BTreeMap<String, StateSource>>,
}

impl Admin {
    /// Creates a server that exposes `metrics`. Without a `log_level`, `PUT /log-level` answers 501.
    #[must_use]
    pub fn new(metrics: &Metrics, log_level: Option<LogLevel>) -> Self {
        let inner = Inner {
            metrics: metrics.clone(),
            log_level,
            liveness: Mutex::default(),
            readiness: Mutex::default(),
            state: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Makes `/livez` fail when `progress` has been failing for too long.
    pub fn add_liveness_check(&self, progress: Liveness) {
        lock(&self.inner.liveness).push(progress);
    }

    /// Makes `/readyz` fail while `check` returns an error, which says what is missing.
    pub fn add_readiness_check(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        lock(&self.inner.readiness).insert(name.into(), Box::new(check));
    }

    /// Adds a field to `/debug/state.json`, evaluated per request. It must not contain secrets.
    pub fn add_debug_state(
        &self,
        name: impl Into<String>,
        source: impl Fn() -> Value + Send + Sync + 'static,
    ) {
        lock(&self.inner.state).insert(name.into(), Box::new(source));
    }

    /// Binds the listener of probes and metrics, which the whole cluster may connect to. Separate from serving, so that an
    /// address in use fails start-up.
    pub async fn bind(self, address: SocketAddr) -> std::io::Result<BoundAdmin> {
        let routes = Router::new()
            .route("/livez", get(livez))
            // The path that manifests of Go controllers probe.
            .route("/healthz", get(livez))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics));
        BoundAdmin::new(address, routes.with_state(self)).await
    }

    /// Binds the listener of debug state and log level. They have no authentication, so other hosts and pods must not reach them.
    pub async fn bind_admin(self, address: LoopbackAddress) -> std::io::Result<BoundAdmin> {
        let routes = Router::new()
            .route("/debug/state.json", get(state))
            .route("/log-level", put(set_log_level).get(log_level));
        BoundAdmin::new(address.into(), routes.with_state(self)).await
    }

    /// Returns the liveness checks that fail, with their reasons.
    pub(crate) fn liveness_failures(&self) -> Vec<String> {
        lock(&self.inner.liveness).iter().filter_map(Liveness::expired).collect()
    }

    /// Returns the readiness checks that fail, with their reasons.
    pub(crate) fn readiness_failures(&self) -> Vec<String> {
        let checks = lock(&self.inner.readiness);
        checks.iter().filter_map(|(name, check)| Some(format!("{name}: {}", check().err()?))).collect()
    }

    /// Returns the content of `/debug/state.json`.
    pub(crate) fn state(&self) -> Value {
        let progress: BTreeMap<String, Value> = lock(&self.inner.liveness)
            .iter()
            .map(|progress| {
                let failure = progress
                    .current_failure()
                    .map(|(since, why)| json!({ "seconds": since.as_secs(), "why": why }));
                (progress.name().to_owned(), json!({ "failure": failure }))
            })
            .collect();
        let mut state: serde_json::Map<String, Value> =
            lock(&self.inner.state).iter().map(|(name, source)| (name.clone(), source())).collect();
        state.insert("progress".into(), json!(progress));
        state.insert("notReady".into(), json!(self.readiness_failures()));
        Value::Object(state)
    }
}

/// An admin server with a bound listener.
pub struct BoundAdmin {
    address: SocketAddr,
    listener: TcpListener,
    routes: Router,
}

impl BoundAdmin {
    async fn new(address: SocketAddr, routes: Router) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener, routes })
    }

    /// Returns the address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled, then finishes open requests.
    pub async fn serve(self, stop: CancellationToken) {
        let serving = axum::serve(self.listener, self.routes)
            .with_graceful_shutdown(async move { stop.cancelled().await });
        if let Err(error) = serving.await {
            tracing::error!(%error, "admin server failed");
        }
    }
}

async fn livez(State(admin): State<Admin>) -> Response {
    probe_response(&admin.liveness_failures())
}

async fn readyz(State(admin): State<Admin>) -> Response {
    probe_response(&admin.readiness_failures())
}

fn probe_response(failures: &[String]) -> Response {
    if failures.is_empty() {
        return (StatusCode::OK, "ok\n").into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, failures.join("\n") + "\n").into_response()
}

async fn metrics(State(admin): State<Admin>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], admin.inner.metrics.encode()).into_response()
}

async fn state(State(admin): State<Admin>) -> Response {
    axum::Json(admin.state()).into_response()
}

async fn log_level(State(admin): State<Admin>) -> Response {
    match &admin.inner.log_level {
        Some(level) => (StatusCode::OK, level.current() + "\n").into_response(),
        None => (StatusCode::NOT_IMPLEMENTED, FIXED_LOG_LEVEL).into_response(),
    }
}

async fn set_log_level(State(admin): State<Admin>, directives: String) -> Response {
    let Some(level) = &admin.inner.log_level else {
        return (StatusCode::NOT_IMPLEMENTED, FIXED_LOG_LEVEL).into_response();
    };
    match level.set(directives.trim()) {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}
