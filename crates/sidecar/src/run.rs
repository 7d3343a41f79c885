//! The life of the process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use runtime::telemetry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::http;
use crate::ledger::{self, Ledger, OpenError};
use crate::metrics::Metrics;
use crate::node::{Node, home};
use crate::settings::Settings;

/// How long requests and tasks may take to end. Kubernetes kills after 30 seconds.
const END_WITHIN: Duration = Duration::from_secs(25);

/// Why the sidecar could not live.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logs cannot be written as wanted.
    #[error("--log-level (OUTRIGGER_LOG_LEVEL): {0}")]
    Telemetry(String),
    /// The node's home cannot be used.
    #[error("--home (SEI_HOME): {home} cannot be used: {why}")]
    Home {
        /// The home.
        home: String,
        /// Why.
        why: io::Error,
    },
    /// The ledger cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What a process before this one did not end cannot be taken up.
    #[error("tasks of an earlier process cannot be taken up: {0}")]
    Recover(ledger::Error),
    /// The port is taken, or signals cannot be heard.
    #[error("--port (SEI_SIDECAR_PORT): cannot listen on {address}: {why}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        why: io::Error,
    },
    /// Signals cannot be heard.
    #[error("signals cannot be heard: {0}")]
    Signals(io::Error),
}

/// Lives as the sidecar until SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let settings = Arc::new(settings);
    let options = telemetry::Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: None,
        service: "sidecar",
    };
    let telemetry = telemetry::start(&options).map_err(Error::Telemetry)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let unusable = |why| Error::Home { home: settings.home.display().to_string(), why };
    std::fs::create_dir_all(&settings.home).map_err(unusable)?;
    // Held until the end: what another sidecar has just staged must not be swept.
    let _home = home::take(&settings.home).map_err(unusable)?;
    home::prepare(&settings.home).map_err(unusable)?;
    // Bound before anything is begun: who cannot be asked must not work.
    let address = settings.listen();
    let listener = http::listen(address).await.map_err(|why| Error::Listen { address, why })?;
    let end = CancellationToken::new();
    let (ledger, keeper) = Ledger::open(&settings.home.join(ledger::FILE), end.clone())?;
    let metrics = Metrics::new();
    let node = Arc::new(Node::new(settings, ledger, metrics.clone()));
    let engine = Engine::new(node, end.clone());
    engine.recover().await.map_err(Error::Recover)?;
    tracing::info!(%address, "serving");
    let serving = tokio::spawn(http::serve(listener, engine.clone(), metrics, end.clone()));
    let pruning = tokio::spawn({
        let engine = engine.clone();
        async move { engine.prune().await }
    });
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: ending"),
        _ = interrupt.recv() => tracing::info!("SIGINT: ending"),
    }
    pruning.abort();
    let stopped = async {
        let (_, tasks) = tokio::join!(serving, engine.end(END_WITHIN));
        tasks
    };
    end.cancel();
    if !tokio::time::timeout(END_WITHIN, stopped).await.unwrap_or(false) {
        tracing::warn!("not everything ended in time: the next start does it again");
    }
    keeper.close().await;
    telemetry.end().await;
    Ok(())
}
