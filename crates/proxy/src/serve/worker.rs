//! A thread that serves: connections are given to it, and stay with it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use rustls::ServerConfig;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::connection;
use super::endpoints::Endpoints;
use super::gate::Gate;
use super::seldom::Seldom;
use super::stop::Stop;
use crate::settings::{ClientLimits, Http2};
use crate::upstream::send::Upstream;
use crate::upstream::target::Target;

/// How often connections to the upstream are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// What every worker is told.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) gate: Arc<Gate>,
    pub(crate) target: Target,
    pub(crate) host: Option<HeaderValue>,
    pub(crate) upgrades: Vec<String>,
    pub(crate) http2: Http2,
    pub(crate) limits: ClientLimits,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) access_log: bool,
    pub(crate) stop: Stop,
}

/// What one worker serves with.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) gate: Arc<Gate>,
    pub(crate) target: Target,
    /// What `Host` is replaced by.
    pub(crate) host: Option<HeaderValue>,
    /// What stands for a `Host` that is missing.
    pub(crate) own_host: Option<HeaderValue>,
    pub(crate) upgrades: Vec<String>,
    pub(crate) upstream: Upstream,
    pub(crate) http2: Http2,
    pub(crate) limits: ClientLimits,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) access_log: bool,
    pub(crate) stop: Stop,
    /// When failures of the upstream were told last.
    pub(crate) told: Seldom,
    open: Arc<AtomicUsize>,
}

/// What a connection is for.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// Requests in clear text.
    Plain,
    /// Requests over TLS.
    Tls,
    /// The proxy's own health and metrics, over TLS.
    Endpoints(Arc<Endpoints>),
}

/// A connection for a worker.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) address: IpAddr,
    pub(crate) purpose: Purpose,
    pub(crate) place: OwnedSemaphorePermit,
}

/// A worker, as the control thread knows it.
#[derive(Debug)]
pub(crate) struct Handle {
    give: mpsc::UnboundedSender<Accepted>,
    open: Arc<AtomicUsize>,
}

impl Handle {
    /// How many connections it has.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Gives it a connection. One for a worker that has ended is closed, and the process with it.
    pub(crate) fn give(&self, accepted: Accepted) {
        self.open.fetch_add(1, Ordering::Relaxed);
        if self.give.send(accepted).is_err() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Starts a worker. The second part is told, or closed, when it ends.
pub(crate) fn start(
    number: usize,
    orders: &Orders,
    upstream: Upstream,
) -> std::io::Result<(Handle, oneshot::Receiver<()>)> {
    let (give, given) = mpsc::unbounded_channel();
    let open = Arc::new(AtomicUsize::new(0));
    let own_host =
        orders.target.way.as_ref().and_then(|way| HeaderValue::from_str(way.authority.as_str()).ok());
    let worker = Arc::new(Worker {
        gate: orders.gate.clone(),
        target: orders.target.clone(),
        host: orders.host.clone(),
        own_host,
        upgrades: orders.upgrades.clone(),
        upstream,
        http2: orders.http2,
        limits: orders.limits,
        tls: orders.tls.clone(),
        access_log: orders.access_log,
        stop: orders.stop.clone(),
        told: Seldom::default(),
        open: open.clone(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (alive, ended) = oneshot::channel();
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        // Closed also by a panic.
        let alive: oneshot::Sender<()> = alive;
        runtime.block_on(work(worker, given));
        drop(alive);
    })?;
    Ok((Handle { give, open }, ended))
}

async fn work(worker: Arc<Worker>, mut given: mpsc::UnboundedReceiver<Accepted>) {
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = given.recv() => match accepted {
                Some(accepted) => {
                    let open = Open { count: worker.open.clone(), gauge: worker.gate.metrics.connections().clone() };
                    open.gauge.inc();
                    // A connection that fails, or panics, takes only itself along.
                    tokio::spawn(connection::run(worker.clone(), accepted, open));
                }
                None => return,
            },
            _ = sweep.tick() => {
                worker.upstream.pool().sweep(Instant::now());
            }
        }
    }
}

/// Counts a connection as long as it is served.
#[derive(Debug)]
pub(crate) struct Open {
    count: Arc<AtomicUsize>,
    gauge: prometheus_client::metrics::gauge::Gauge,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.gauge.dec();
    }
}
