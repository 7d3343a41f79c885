//! The process of the proxy, from startup to shutdown.

mod assemble;

use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::admin::Admin;
use runtime::hardening;
use runtime::metrics::Metrics;
use runtime::shutdown::ShutdownSignals;
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Options};

use self::assemble::{ReloadableFiles, dialer, listeners, worker_config};
use crate::authentication::TokenAuthenticator;
use crate::metrics::{CacheName, ProxyMetrics};
use crate::serve::access_control::AccessControl;
use crate::serve::shutdown::Shutdown;
use crate::serve::slots::{Capacity, ConnectionSlots};
use crate::serve::socket;
use crate::serve::worker::{self, Handle};
use crate::settings::Settings;
use crate::upstream::client::UpstreamClient;

/// Interval at which caches are swept and their sizes recorded.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// Interval at which the drain checks for open connections.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Default upper limit of workers: more gain nothing next to a sidecar.
const MAX_DEFAULT_WORKERS: usize = 4;

/// Why the process failed or did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process cannot be protected.
    #[error("cannot make the process undumpable: {0}")]
    Hardening(std::io::Error),
    /// Logging could not be set up.
    #[error("failed to set up logging: {0}")]
    Telemetry(String),
    /// No usable API server configuration.
    #[error("{0}")]
    Kubernetes(String),
    /// A certificate or key is not usable.
    #[error("{0}")]
    Certificate(String),
    /// An address is not available.
    #[error("--{flag} {address}: {source}")]
    Listen {
        /// The flag of the address.
        flag: &'static str,
        /// The address.
        address: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Randomness, threads or signal handlers are not available.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A background task ended unexpectedly.
    #[error(transparent)]
    Tasks(#[from] runtime::tasks::Error),
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}

/// Runs the proxy until it receives SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), Error> {
    // First: the memory will have the TLS key, and tokens of callers pass through it.
    hardening::set_undumpable().map_err(Error::Hardening)?;
    let telemetry_guard = telemetry::start(&Options {
        format: settings.log_format,
        level: level(settings.verbosity),
        otlp_endpoint: None,
        service: "outrigger-proxy",
    })
    .map_err(Error::Telemetry)?;
    let signals = ShutdownSignals::register().map_err(system("installing signal handlers"))?;
    log_startup(&settings);
    let capacity = Capacity::new(settings.limits.max_connections, socket::raise_descriptor_limit());
    if capacity.regular < settings.limits.max_connections {
        tracing::warn!(
            connections = capacity.regular,
            "--max-connections lowered: the file descriptor limit is too low for it"
        );
    }
    let metrics = Metrics::new();
    let proxy_metrics = ProxyMetrics::new(&metrics);
    let mut tasks = Tasks::new();
    let mut files = ReloadableFiles { sources: Vec::new(), metrics: proxy_metrics.clone() };

    let config = worker_config(&settings, &metrics, &proxy_metrics, &mut files)?;
    let dialer = dialer(&settings, &mut files)?;
    let listeners = listeners(&settings, &metrics).await?;
    let mut workers = Vec::new();
    for number in 0..worker_count(settings.workers) {
        let upstream = UpstreamClient::new(dialer.clone(), &proxy_metrics);
        let (worker, ended) =
            worker::start(number, &config, upstream).map_err(system("starting a worker thread"))?;
        tasks.spawn_until_stopped(Phase::Work, format!("worker {number}"), async move {
            let _ = ended.await;
        });
        workers.push(worker);
    }
    let workers = Arc::new(workers);
    let slots = Arc::new(ConnectionSlots::new(capacity, &proxy_metrics));
    for (name, listener) in listeners {
        let accepting = listener.run(workers.clone(), slots.clone(), config.shutdown.clone());
        // Accepting ends when the drain starts, before the tasks are stopped.
        tasks.spawn_until_stopped(Phase::Intake, name, async move {
            accepting.await;
            std::future::pending().await
        });
    }
    if let Some(address) = &settings.metrics_address {
        serve_metrics(&mut tasks, address, Admin::new(&metrics, None)).await?;
    }
    tasks.spawn_until_stopped(Phase::Background, "files", reload_files(files, settings.tls.reload_interval));
    if let TokenAuthenticator::Oidc(oidc) = &config.access.tokens {
        let oidc = oidc.clone();
        tasks.spawn_until_stopped(Phase::Background, "issuer", async move { oidc.discover().await });
    }
    tasks.spawn_until_stopped(Phase::Background, "caches", sweep_caches(config.access.clone()));
    tracing::info!(workers = workers.len(), "serving");
    let ended = tasks.run_until(drain(signals, workers, config.shutdown, settings.drain_timeout)).await;
    telemetry_guard.shutdown().await;
    Ok(ended?)
}

/// Returns the log filter. Other crates stay at warn: at lower levels they would log the content of requests.
fn level(verbosity: u32) -> &'static str {
    match verbosity {
        0 | 1 => "warn,proxy=info,runtime=info,access=info",
        2 | 3 => "warn,proxy=debug,runtime=info,access=info",
        _ => "warn,proxy=trace,runtime=debug,access=info",
    }
}

fn log_startup(settings: &Settings) {
    for warning in &settings.warnings {
        tracing::warn!(warning, "configuration warning");
    }
    if settings.verbosity >= 1 {
        tracing::info!(flags = settings.effective, "effective flags");
    }
    if !settings.authentication.audiences.is_empty() {
        tracing::info!(audiences = ?settings.authentication.audiences, "token audiences restricted");
    }
}

fn worker_count(requested: usize) -> usize {
    match requested {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_DEFAULT_WORKERS),
        requested => requested,
    }
}

async fn serve_metrics(tasks: &mut Tasks, address: &str, admin: Admin) -> Result<(), Error> {
    let failed =
        |source| Error::Listen { flag: "metrics-listen-address", address: address.to_owned(), source };
    let parsed = address.parse().map_err(|error| failed(std::io::Error::other(error)))?;
    let bound = admin.bind(parsed).await.map_err(failed)?;
    tracing::info!(flag = "metrics-listen-address", address = %bound.address(), "listening");
    let stop = tasks.stop_token(Phase::Background);
    tasks.spawn(Phase::Background, "metrics", bound.serve(stop));
    Ok(())
}

async fn reload_files(mut files: ReloadableFiles, every: Duration) {
    let mut tick = tokio::time::interval(every.max(Duration::from_millis(100)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        for source in &mut files.sources {
            source.reload();
        }
    }
}

async fn sweep_caches(access: Arc<AccessControl>) {
    let mut tick = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        tick.tick().await;
        let now = Instant::now();
        let identities = match &access.tokens {
            TokenAuthenticator::TokenReview(reviewer) => {
                let (identities, rejected) = reviewer.caches();
                rejected.sweep(now);
                access.metrics.set_cache_size(CacheName::BadTokens, rejected.size(), rejected.evictions());
                identities
            }
            TokenAuthenticator::Oidc(oidc) => oidc.cache(),
        };
        let decisions = access.authorizer.cache();
        identities.sweep(now);
        decisions.sweep(now);
        access.metrics.set_cache_size(CacheName::Tokens, identities.size(), identities.evictions());
        access.metrics.set_cache_size(CacheName::Decisions, decisions.size(), decisions.evictions());
    }
}

/// Waits for a signal, then until all connections are closed or the drain timeout is exceeded. A second
/// signal exits at once.
async fn drain(
    mut signals: ShutdownSignals,
    workers: Arc<Vec<Handle>>,
    shutdown: Shutdown,
    timeout: Duration,
) {
    signals.recv().await;
    shutdown.trigger();
    let open = || workers.iter().map(Handle::open_connections).sum::<usize>();
    tracing::info!(connections = open(), "draining");
    signals.exit_on_next(0);
    let all_closed = async {
        while open() > 0 {
            tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(timeout, all_closed).await.is_err() {
        tracing::warn!(connections = open(), "drain timeout exceeded; closing remaining connections");
    }
}
