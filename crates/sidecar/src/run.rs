//! The sidecar process, from startup to graceful shutdown.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use runtime::shutdown::ShutdownSignals;
use runtime::{hardening, telemetry};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::http;
use crate::ledger::{self, Ledger, OpenError};
use crate::metrics::Metrics;
use crate::node::{Node, home};
use crate::settings::Settings;

/// Timeout of the graceful shutdown. The kubelet sends SIGKILL after 30 seconds at the earliest.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(25);

/// Why the sidecar failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process cannot be protected.
    #[error("cannot make the process undumpable: {0}")]
    Hardening(io::Error),
    /// The log settings are invalid.
    #[error("--log-level (OUTRIGGER_LOG_LEVEL): {0}")]
    Telemetry(String),
    /// The node's home cannot be used.
    #[error("--home (SEI_HOME): cannot use {home}: {error}")]
    Home {
        /// The home.
        home: String,
        /// The cause.
        error: io::Error,
    },
    /// The ledger cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Tasks of a previous process cannot be recovered.
    #[error("cannot recover tasks of the previous process: {0}")]
    Recover(ledger::Error),
    /// The port cannot be bound.
    #[error("--port (SEI_SIDECAR_PORT): cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// Signal handlers cannot be installed.
    #[error("cannot install signal handlers: {0}")]
    Signals(io::Error),
}

/// Runs the sidecar until SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), Error> {
    // First: the environment has the S3 credentials.
    hardening::set_undumpable().map_err(Error::Hardening)?;
    let settings = Arc::new(settings);
    let options = telemetry::Options {
        format: settings.log_format,
        level: &settings.log_level,
        otlp_endpoint: None,
        service: "sidecar",
    };
    let telemetry = telemetry::start(&options).map_err(Error::Telemetry)?;
    let mut signals = ShutdownSignals::register().map_err(Error::Signals)?;
    let unusable = |error| Error::Home { home: settings.home.display().to_string(), error };
    std::fs::create_dir_all(&settings.home).map_err(unusable)?;
    // Held until exit: `prepare` would delete temporary files of another running sidecar.
    let _home_lock = home::lock(&settings.home).map_err(unusable)?;
    home::prepare(&settings.home).map_err(unusable)?;
    // Bound before any task runs: a sidecar that cannot serve must not work.
    let address = settings.listen_address();
    let listener = http::listen(address).await.map_err(|error| Error::Listen { address, error })?;
    let shutdown = CancellationToken::new();
    let (ledger, ledger_thread) = Ledger::open(&settings.home.join(ledger::FILE), shutdown.clone())?;
    let metrics = Metrics::new();
    let node = Arc::new(Node::new(settings, ledger, metrics.clone()));
    let engine = Engine::new(node, shutdown.clone());
    engine.recover().await.map_err(Error::Recover)?;
    tracing::info!(%address, "serving");
    let serving = tokio::spawn(http::serve(listener, engine.clone(), metrics, shutdown.clone()));
    let pruning = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run_pruning().await }
    });
    signals.recv().await;
    pruning.abort();
    let stopped = async {
        let (_, tasks) = tokio::join!(serving, engine.shutdown(SHUTDOWN_TIMEOUT));
        tasks
    };
    shutdown.cancel();
    if !tokio::time::timeout(SHUTDOWN_TIMEOUT, stopped).await.unwrap_or(false) {
        tracing::warn!("shutdown timeout exceeded; the next start reruns unfinished tasks");
    }
    ledger_thread.close().await;
    telemetry.shutdown().await;
    Ok(())
}
