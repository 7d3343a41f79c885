//! Worker threads. A connection is assigned to one worker and stays with it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use rustls::ServerConfig;
use tokio::sync::{mpsc, oneshot};

use super::access_control::AccessControl;
use super::connection;
use super::endpoints::Endpoints;
use super::rate_limited_log::RateLimitedLog;
use super::shutdown::Shutdown;
use super::slots::Slot;
use crate::settings::{ClientLimits, Http2Settings};
use crate::upstream::client::UpstreamClient;
use crate::upstream::url::UpstreamUrl;

/// Interval at which idle upstream connections are swept.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The configuration of all workers.
#[derive(Clone, Debug)]
pub(crate) struct WorkerConfig {
    pub(crate) access: Arc<AccessControl>,
    pub(crate) upstream_url: UpstreamUrl,
    /// Replaces the client's `Host`.
    pub(crate) host_override: Option<HeaderValue>,
    /// Used when the client sends no `Host`.
    pub(crate) default_host: Option<HeaderValue>,
    pub(crate) upgrades: Vec<String>,
    pub(crate) http2: Http2Settings,
    pub(crate) limits: ClientLimits,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) access_log: bool,
    pub(crate) shutdown: Shutdown,
}

/// The state of one worker thread.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) config: WorkerConfig,
    pub(crate) upstream: UpstreamClient,
    /// Limits the log messages about failed upstream requests.
    pub(crate) upstream_failures: RateLimitedLog,
    open_connections: Arc<AtomicUsize>,
}

/// What a listener serves.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// Proxied requests in clear text.
    Plain,
    /// Proxied requests over TLS.
    Tls,
    /// The proxy's own health and metrics endpoints, over TLS.
    Endpoints(Arc<Endpoints>),
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) address: IpAddr,
    pub(crate) purpose: Purpose,
    pub(crate) slot: Arc<Slot>,
}

/// The control thread's handle of a worker.
#[derive(Debug)]
pub(crate) struct Handle {
    connections: mpsc::UnboundedSender<Accepted>,
    open_connections: Arc<AtomicUsize>,
}

impl Handle {
    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> usize {
        self.open_connections.load(Ordering::Relaxed)
    }

    /// Assigns a connection to the worker. When the worker has ended, the connection is closed; the process
    /// exits anyway.
    pub(crate) fn assign(&self, accepted: Accepted) {
        self.open_connections.fetch_add(1, Ordering::Relaxed);
        if self.connections.send(accepted).is_err() {
            self.open_connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Starts a worker thread. The receiver resolves when the thread ends.
pub(crate) fn start(
    number: usize,
    config: &WorkerConfig,
    upstream: UpstreamClient,
) -> std::io::Result<(Handle, oneshot::Receiver<()>)> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let open_connections = Arc::new(AtomicUsize::new(0));
    let worker = Arc::new(Worker {
        config: config.clone(),
        upstream,
        upstream_failures: RateLimitedLog::default(),
        open_connections: open_connections.clone(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (alive, ended) = oneshot::channel();
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        // Dropped on a panic too.
        let alive: oneshot::Sender<()> = alive;
        runtime.block_on(run(worker, receiver));
        drop(alive);
    })?;
    Ok((Handle { connections: sender, open_connections }, ended))
}

async fn run(worker: Arc<Worker>, mut connections: mpsc::UnboundedReceiver<Accepted>) {
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = connections.recv() => match accepted {
                Some(accepted) => {
                    let open = OpenConnection::new(&worker);
                    let slot = accepted.slot.clone();
                    // A task per connection: one that fails or panics does not affect the others.
                    let task = tokio::spawn(connection::run(worker.clone(), accepted, open));
                    slot.set_task(task.abort_handle());
                }
                None => return,
            },
            _ = sweep.tick() => {
                worker.upstream.pool().sweep(Instant::now());
            }
        }
    }
}

/// Counts a connection while it is served.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    count: Arc<AtomicUsize>,
    gauge: prometheus_client::metrics::gauge::Gauge,
}

impl OpenConnection {
    fn new(worker: &Worker) -> Self {
        let gauge = worker.config.access.metrics.connections().clone();
        gauge.inc();
        Self { count: worker.open_connections.clone(), gauge }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.gauge.dec();
    }
}
