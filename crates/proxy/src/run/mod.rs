//! The proxy's process, from its settings to its end.

mod assemble;

use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::admin::Admin;
use runtime::metrics::Metrics;
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Options};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

use self::assemble::{Files, dialer, listeners, orders};
use crate::authentication::Tellers;
use crate::metrics::{CacheName, ProxyMetrics};
use crate::serve::gate::Gate;
use crate::serve::socket;
use crate::serve::stop::Stop;
use crate::serve::worker::{self, Handle};
use crate::settings::Settings;
use crate::upstream::send::Upstream;

/// How often caches are swept and their sizes told.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

/// How often it is looked whether the last connection has ended.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// More workers than this gain nothing beside a sidecar.
const MOST_WORKERS: usize = 4;

/// Why the process ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Logs cannot be written.
    #[error("logs: {0}")]
    Telemetry(String),
    /// The API server's configuration cannot be used.
    #[error("{0}")]
    Kubernetes(String),
    /// A certificate cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// An address cannot be listened at.
    #[error("--{flag} {address}: {source}")]
    Listen {
        /// The flag.
        flag: &'static str,
        /// Its value.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The system gives no randomness, threads or signals.
    #[error("{what}: {source}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Why it is not there.
        source: std::io::Error,
    },
    /// A task ended that must live.
    #[error(transparent)]
    Tasks(#[from] runtime::tasks::Error),
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}

/// Lives as the proxy until it is told to end.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let told = telemetry::start(&Options {
        format: settings.log_format,
        level: level(settings.verbosity),
        traces_to: None,
        service: "outrigger-proxy",
    })
    .map_err(Error::Telemetry)?;
    let signals = signal(SignalKind::terminate()).and_then(|one| Ok((one, signal(SignalKind::interrupt())?)));
    let signals = signals.map_err(system("listening for signals"))?;
    tell(&settings);
    socket::raise_descriptors();
    let metrics = Metrics::new();
    let proxy_metrics = ProxyMetrics::new(&metrics);
    let mut tasks = Tasks::new();
    let mut files = Files { looks: Vec::new(), metrics: proxy_metrics.clone() };

    let orders = orders(&settings, &metrics, &proxy_metrics, &mut files)?;
    let dialer = dialer(&settings, &mut files)?;
    let listeners = listeners(&settings, &metrics).await?;
    let mut workers = Vec::new();
    for number in 0..count(settings.workers) {
        let upstream = Upstream::new(dialer.clone(), &proxy_metrics);
        let (worker, ended) =
            worker::start(number, &orders, upstream).map_err(system("starting a thread"))?;
        tasks.spawn_until_stopped(Phase::Work, format!("worker {number}"), async move {
            let _ = ended.await;
        });
        workers.push(worker);
    }
    let workers = Arc::new(workers);
    let places = Arc::new(Semaphore::new(settings.limits.connections));
    for (name, listener) in listeners {
        let accepting = listener.run(workers.clone(), places.clone(), orders.stop.clone());
        // It has ended when the drain begins, which is before tasks are told to end.
        tasks.spawn_until_stopped(Phase::Intake, name, async move {
            accepting.await;
            std::future::pending().await
        });
    }
    if let Some(address) = &settings.metrics_address {
        serve_admin(&mut tasks, address, Admin::new(&metrics, Some(told.level()))).await?;
    }
    tasks.spawn_until_stopped(Phase::Watchman, "files", look(files, settings.tls.reload));
    if let Tellers::Provider(oidc) = &orders.gate.tokens {
        let oidc = oidc.clone();
        tasks.spawn_until_stopped(Phase::Watchman, "issuer", async move { oidc.discover().await });
    }
    tasks.spawn_until_stopped(Phase::Watchman, "caches", sweep(orders.gate.clone()));
    tracing::info!(workers = workers.len(), "serving");
    let ended = tasks.run_until(drained(signals, workers, orders.stop, settings.drain)).await;
    told.end().await;
    Ok(ended?)
}

/// What is logged. Other crates stay silent: at their lowest levels they would tell what requests hold.
fn level(verbosity: u32) -> &'static str {
    match verbosity {
        0 | 1 => "warn,proxy=info,runtime=info,access=info",
        2 | 3 => "warn,proxy=debug,runtime=info,access=info",
        _ => "warn,proxy=trace,runtime=debug,access=info",
    }
}

fn tell(settings: &Settings) {
    for sentence in &settings.warnings {
        tracing::warn!("{sentence}");
    }
    if settings.verbosity >= 1 {
        tracing::info!(flags = settings.effective, "flags");
    }
    if !settings.audiences.is_empty() {
        tracing::info!(audiences = ?settings.audiences, "tokens must be for one of these audiences");
    }
}

fn count(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_WORKERS),
        wanted => wanted,
    }
}

async fn serve_admin(tasks: &mut Tasks, address: &str, admin: Admin) -> Result<(), Error> {
    let failed =
        |source| Error::Listen { flag: "metrics-listen-address", address: address.to_owned(), source };
    let parsed = address.parse().map_err(|error| failed(std::io::Error::other(error)))?;
    let bound = admin.bind(parsed).await.map_err(failed)?;
    tracing::info!(flag = "metrics-listen-address", address = %bound.address(), "listening");
    let stop = tasks.stop(Phase::Watchman);
    tasks.spawn(Phase::Watchman, "metrics", bound.serve(stop));
    Ok(())
}

async fn look(mut files: Files, every: Duration) {
    let mut tick = tokio::time::interval(every.max(Duration::from_millis(100)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        for one in &mut files.looks {
            one.look();
        }
    }
}

async fn sweep(gate: Arc<Gate>) {
    let mut tick = tokio::time::interval(SWEEP_EVERY);
    loop {
        tick.tick().await;
        let now = Instant::now();
        let good = match &gate.tokens {
            Tellers::ApiServer(tokens) => {
                let (good, bad) = tokens.caches();
                bad.sweep(now);
                gate.metrics.cache_is(CacheName::BadTokens, bad.size(), bad.evictions());
                good
            }
            Tellers::Provider(oidc) => oidc.cache(),
        };
        let decisions = gate.authorizer.cache();
        good.sweep(now);
        decisions.sweep(now);
        gate.metrics.cache_is(CacheName::Tokens, good.size(), good.evictions());
        gate.metrics.cache_is(CacheName::Decisions, decisions.size(), decisions.evictions());
    }
}

/// Ends when a signal has come and what was under way has ended, or its time is over. A second signal ends the process at once.
async fn drained(
    (mut terminate, mut interrupt): (Signal, Signal),
    workers: Arc<Vec<Handle>>,
    stop: Stop,
    within: Duration,
) {
    next(&mut terminate, &mut interrupt).await;
    stop.say();
    let open = || workers.iter().map(Handle::open).sum::<usize>();
    tracing::info!(connections = open(), "draining");
    tokio::spawn(async move {
        next(&mut terminate, &mut interrupt).await;
        std::process::exit(0);
    });
    let gone = async {
        while open() > 0 {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    };
    if tokio::time::timeout(within, gone).await.is_err() {
        tracing::warn!(connections = open(), "cut off: these did not end in their time");
    }
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: ending"),
        _ = interrupt.recv() => tracing::info!("SIGINT: ending"),
    }
}
