//! The proxy's process, from its settings to its end.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::admin::Admin;
use runtime::metrics::Metrics;
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Options};
use rustls::RootCertStore;
use tokio::runtime::Handle as Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::authentication::Tellers;
use crate::authentication::oidc::Oidc;
use crate::authentication::tokens::Tokens;
use crate::authorization::Authorizer;
use crate::cache::Secret;
use crate::metrics::{CacheName, ProxyMetrics};
use crate::request::protected::Protected;
use crate::reviews::{Limiter, Reviews};
use crate::serve::endpoints::Endpoints;
use crate::serve::gate::Gate;
use crate::serve::listener::Listener;
use crate::serve::socket;
use crate::serve::worker::{self, Handle, Orders, Purpose};
use crate::settings::{Kubernetes, Settings};
use crate::tls::reload::{Current, Look, Source};
use crate::tls::{self, self_signed};
use crate::upstream::dial::Dialer;
use crate::upstream::send::Upstream;
use crate::upstream::target::Speech;

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

/// Files that are looked at again.
struct Files {
    looks: Vec<Box<dyn Look>>,
    metrics: ProxyMetrics,
}

impl Files {
    fn open<T: Send + Sync + 'static>(
        &mut self,
        what: &'static str,
        files: Vec<std::path::PathBuf>,
        load: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + 'static,
    ) -> Result<Arc<Current<T>>, Error> {
        let source = Source::open(what, files, &self.metrics, load).map_err(Error::Certificate)?;
        let current = source.current();
        self.looks.push(Box::new(source));
        Ok(current)
    }
}

fn part(content: &[Vec<u8>], index: usize) -> &[u8] {
    content.get(index).map(Vec::as_slice).unwrap_or_default()
}

fn orders(
    settings: &Settings,
    metrics: &Metrics,
    proxy_metrics: &ProxyMetrics,
    files: &mut Files,
) -> Result<Orders, Error> {
    let secret = Secret::new().ok_or_else(|| {
        system("the key of the caches")(std::io::Error::other("the system gives no randomness"))
    })?;
    let Kubernetes { within, rate, tokens, decisions, cache, .. } = &settings.kubernetes;
    let limiter = rate.map(|(rate, burst)| Limiter::new(rate, burst));
    let client = client(&settings.kubernetes, metrics)?;
    let reviews = Arc::new(Reviews::new(client, limiter, *within, proxy_metrics));
    let by = || (reviews.clone(), Runtime::current());
    let tls = match &settings.secure {
        None => None,
        Some(_) => Some(Arc::new(serving(settings, files)?)),
    };
    let authorities: Option<Arc<Current<RootCertStore>>> = match &settings.client_ca {
        // An identity provider replaces certificates too.
        Some(file) if settings.oidc.is_none() => {
            Some(files.open("client authority", vec![file.clone()], |content| {
                tls::pem::authorities(part(content, 0))
            })?)
        }
        _ => None,
    };
    let tellers = match &settings.oidc {
        Some(oidc) => Tellers::Provider(Arc::new(Oidc::new(
            (oidc.clone(), issuer(oidc)?),
            Runtime::current(),
            (*cache, tokens.known),
            (settings.style.clone(), secret.clone()),
            proxy_metrics,
        ))),
        None => Tellers::ApiServer(Tokens::new(
            by(),
            settings.audiences.clone(),
            (*cache, *tokens),
            (settings.style.clone(), secret.clone()),
            proxy_metrics,
        )),
    };
    let gate = Gate {
        paths: crate::settings::Paths {
            allowed: settings.paths.allowed.clone(),
            ignored: settings.paths.ignored.clone(),
        },
        protected: Arc::new(Protected::new(settings.protected.iter().map(String::as_str))),
        tokens: tellers,
        authorizer: Authorizer::new(
            settings.configuration.clone(),
            &secret,
            (*cache, *decisions),
            by(),
            proxy_metrics,
        ),
        authorities,
        style: settings.style.clone(),
        secret,
        outage_is_503: settings.outage_is_503,
        metrics: proxy_metrics.clone(),
        told: crate::serve::seldom::Seldom::default(),
    };
    Ok(Orders {
        gate: Arc::new(gate),
        target: settings.upstream.target.clone(),
        host: settings.upstream.host.clone(),
        upgrades: settings.upgrades.clone(),
        http2: settings.http2,
        limits: settings.limits,
        tls,
        access_log: settings.access_log,
        stop: CancellationToken::new(),
    })
}

/// How the issuer is trusted.
fn issuer(oidc: &crate::settings::Oidc) -> Result<rustls::ClientConfig, Error> {
    let refused = |why: String| Error::Certificate(format!("--oidc-ca-file: {why}"));
    match &oidc.ca {
        None => {
            tls::upstream::of_system(&tls::upstream::SYSTEM_BUNDLES).map_err(refused).map(|mut config| {
                config.alpn_protocols.clear();
                config
            })
        }
        Some(file) => {
            let pem = std::fs::read(file).map_err(|error| refused(format!("{}: {error}", file.display())))?;
            tls::upstream::config(&pem, None).map_err(refused)
        }
    }
}

fn serving(settings: &Settings, files: &mut Files) -> Result<rustls::ServerConfig, Error> {
    let refused = |error: &dyn std::fmt::Display| Error::Certificate(format!("serving TLS: {error}"));
    let pair = match &settings.tls.pair {
        Some((certificate, key)) => {
            files.open("serving certificate", vec![certificate.clone(), key.clone()], |content| {
                tls::server::pair(part(content, 0), part(content, 1))
            })?
        }
        None => {
            let (certificate, key) = self_signed::make().map_err(|error| refused(&error))?;
            let pair =
                tls::server::pair(certificate.as_bytes(), key.as_bytes()).map_err(|why| refused(&why))?;
            Arc::new(Current::new(pair))
        }
    };
    tls::server::config(&settings.tls, settings.http2.enabled, pair).map_err(|error| refused(&error))
}

fn dialer(settings: &Settings, files: &mut Files) -> Result<Option<Dialer>, Error> {
    let Some(way) = settings.upstream.target.way.clone() else { return Ok(None) };
    let mut sources: Vec<std::path::PathBuf> = settings.upstream.ca.iter().cloned().collect();
    if let Some((certificate, key)) = &settings.upstream.client {
        sources.extend([certificate.clone(), key.clone()]);
    }
    let tls = match (&settings.upstream.ca, way.speech) {
        (Some(_), _) => Some(files.open("upstream authority", sources, |content| {
            let pair = (content.len() > 1).then(|| (part(content, 1), part(content, 2)));
            tls::upstream::config(part(content, 0), pair)
        })?),
        (None, Speech::Tls) => {
            let config = tls::upstream::of_system(&tls::upstream::SYSTEM_BUNDLES);
            Some(Arc::new(Current::new(config.map_err(Error::Certificate)?)))
        }
        (None, Speech::Plain | Speech::H2c) => None,
    };
    Ok(Some(Dialer { way, tls }))
}

fn client(kubernetes: &Kubernetes, metrics: &Metrics) -> Result<kube::Client, Error> {
    let config = match &kubernetes.kubeconfig {
        Some(path) => {
            let refused = |error: kube::config::KubeconfigError| {
                Error::Kubernetes(format!("--kubeconfig {}: {error}", path.display()))
            };
            let read = Kubeconfig::read_from(path).map_err(refused)?;
            let options = KubeConfigOptions::default();
            futures_util::FutureExt::now_or_never(kube::Config::from_custom_kubeconfig(read, &options))
                .ok_or_else(|| {
                    Error::Kubernetes(format!(
                        "--kubeconfig {}: it could not be read at once",
                        path.display()
                    ))
                })?
                .map_err(refused)?
        }
        None => kube::Config::incluster().map_err(|error| {
            Error::Kubernetes(format!(
                "there is no service account here: give --kubeconfig FILE, or run in a pod ({error})"
            ))
        })?,
    };
    let agent = concat!("outrigger-proxy/", env!("CARGO_PKG_VERSION"));
    runtime::client::connect(config, agent, metrics).map_err(|error| Error::Kubernetes(error.to_string()))
}

async fn listeners(settings: &Settings, metrics: &Metrics) -> Result<Vec<(&'static str, Listener)>, Error> {
    let mut listeners = Vec::new();
    let endpoints = settings.secure.as_ref().filter(|_| settings.endpoints_port != 0).map(|secure| {
        let host = secure.rsplit_once(':').map_or(secure.as_str(), |(host, _)| host);
        format!("{host}:{}", settings.endpoints_port)
    });
    let served = Purpose::Endpoints(Arc::new(Endpoints::new(metrics)));
    for (flag, address, purpose) in [
        ("insecure-listen-address", settings.insecure.clone(), Purpose::Plain),
        ("secure-listen-address", settings.secure.clone(), Purpose::Tls),
        ("proxy-endpoints-port", endpoints, served),
    ] {
        let Some(address) = address else { continue };
        let failed = |source| Error::Listen { flag, address: address.clone(), source };
        let listener = Listener::bind(&address, purpose).await.map_err(failed)?;
        let local = listener.address().map_err(system("asking for an address"))?;
        tracing::info!(flag, address = %local, "listening");
        listeners.push((flag, listener));
    }
    Ok(listeners)
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
fn drained(
    (mut terminate, mut interrupt): (Signal, Signal),
    workers: Arc<Vec<Handle>>,
    stop: CancellationToken,
    within: Duration,
) -> impl Future<Output = ()> {
    async move {
        next(&mut terminate, &mut interrupt).await;
        stop.cancel();
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
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: ending"),
        _ = interrupt.recv() => tracing::info!("SIGINT: ending"),
    }
}
