//! The sidecar process, from startup to graceful shutdown.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use runtime::shutdown::ShutdownSignals;
use runtime::{hardening, telemetry};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::Engine;
use crate::http::{self, Listener, Scope};
use crate::ledger::{self, Ledger, OpenError};
use crate::metrics::Metrics;
use crate::node::{Node, home};
use crate::settings::{AuthnMode, Listen, Settings};

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
    /// The API cannot listen.
    #[error("{flag}: cannot listen on {address}: {error}")]
    Listen {
        /// The flag with the address.
        flag: &'static str,
        /// The address.
        address: String,
        /// The cause.
        error: io::Error,
    },
    /// The control directory of seid cannot be used.
    #[error("--seid-control-dir (OUTRIGGER_SEID_CONTROL_DIR): cannot use {dir}: {error}")]
    SeidControl {
        /// The directory.
        dir: String,
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
    let listeners = bind(&settings).await?;
    if settings.authn == AuthnMode::Unauthenticated {
        tracing::warn!("requests are not authenticated; remove --authn-mode unauthenticated in production");
    }
    let shutdown = CancellationToken::new();
    let (ledger, ledger_thread) =
        Ledger::open(&settings.home.join(ledger::FILE), settings.private_dir.as_deref(), shutdown.clone())?;
    let metrics = Metrics::new();
    let node = Arc::new(Node::new(settings, ledger, metrics.clone()));
    node.seid().prepare().map_err(|error| Error::SeidControl {
        dir: node.settings().seid_control_dir.as_deref().unwrap_or(Path::new("")).display().to_string(),
        error,
    })?;
    let engine = Engine::new(node, shutdown.clone());
    engine.recover().await.map_err(Error::Recover)?;
    let serving = TaskTracker::new();
    for (listener, scope, address) in listeners {
        tracing::info!(address, ?scope, "serving");
        serving.spawn(http::serve(listener, scope, engine.clone(), metrics.clone(), shutdown.clone()));
    }
    serving.close();
    let pruning = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run_pruning().await }
    });
    signals.recv().await;
    pruning.abort();
    let stopped = async {
        let (_, tasks) = tokio::join!(serving.wait(), engine.shutdown(SHUTDOWN_TIMEOUT));
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

/// Binds the listeners, each with what it serves and its address.
async fn bind(settings: &Settings) -> Result<Vec<(Listener, Scope, String)>, Error> {
    const LISTEN: &str = "--listen (OUTRIGGER_SIDECAR_LISTEN)";
    const PORT: &str = "--port (SEI_SIDECAR_PORT)";
    let loopback = Listen::Tcp(Listen::loopback(settings.port));
    let wanted = match &settings.listen {
        Listen::Unix(_) => {
            vec![(LISTEN, Scope::Full, &settings.listen), (PORT, Scope::Health, &loopback)]
        }
        Listen::Tcp(_) if settings.listen == loopback => vec![(PORT, Scope::Full, &loopback)],
        Listen::Tcp(_) => vec![(LISTEN, Scope::Full, &settings.listen)],
    };
    let mut listeners = Vec::new();
    for (flag, scope, listen) in wanted {
        let address = listen.to_string();
        match Listener::bind(listen).await {
            Ok(listener) => listeners.push((listener, scope, address)),
            Err(error) => return Err(Error::Listen { flag, address, error }),
        }
    }
    Ok(listeners)
}
