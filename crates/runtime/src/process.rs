//! Start-up and shutdown of a controller process.
//!
//! A process starts telemetry and the client, lets components spawn watches, events and leader-elected work, and then runs until
//! a signal. Each component registers its own liveness and readiness with the admin server.

use std::fmt::Debug;
use std::net::SocketAddr;

use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::admin::{Admin, BoundAdmin};
use crate::client::{self, ClientOptions};
use crate::events::EventRecorder;
use crate::lease::{self, Claim, LeaderElector, Leadership, run_while_leading};
use crate::metrics::Metrics;
use crate::settings::LoopbackAddress;
use crate::tasks::{self, Phase, Tasks};
use crate::telemetry::{self, Options, Telemetry};
use crate::watch::{Cache, ClusterWideSecrets, Watch};

/// Errors of a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Telemetry failed to start: the log level or the OTLP endpoint is invalid.
    #[error("failed to start telemetry: {0}")]
    Telemetry(String),
    /// The Kubernetes client could not be created.
    #[error(transparent)]
    Access(#[from] client::Error),
    /// The admin server could not listen.
    #[error("failed to listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A watch is not allowed.
    #[error(transparent)]
    Watch(#[from] ClusterWideSecrets),
    /// A task exited unexpectedly.
    #[error(transparent)]
    Tasks(#[from] tasks::Error),
}

/// A process between start-up and [`run`](Self::run): everything is set up, and components add their tasks.
pub struct Process {
    /// The metrics of the process.
    pub metrics: Metrics,
    /// The Kubernetes client.
    pub client: Client,
    /// The admin server.
    pub admin: Admin,
    /// The background tasks.
    pub tasks: Tasks,
    telemetry: Telemetry,
}

impl Process {
    /// Starts telemetry and creates the client. Its user agent is `service/version`.
    pub async fn start(options: &Options<'_>, access: &ClientOptions, version: &str) -> Result<Self, Error> {
        let telemetry = telemetry::start(options).map_err(Error::Telemetry)?;
        let metrics = Metrics::new();
        let client = access.connect(&format!("{}/{version}", options.service), &metrics).await?;
        Ok(Self::new(telemetry, client, metrics))
    }

    /// Assembles a process from parts that are started already.
    #[must_use]
    pub fn new(telemetry: Telemetry, client: Client, metrics: Metrics) -> Self {
        let admin = Admin::new(&metrics, Some(telemetry.log_level()));
        Self { metrics, client, admin, tasks: Tasks::new(), telemetry }
    }

    /// Spawns a watch, and makes the liveness probe fail if the watch fails for too long. Returns its cache.
    pub fn spawn_watch<K>(&mut self, watch: Watch<K>) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.spawn_watch_after(std::future::ready(()), watch)
    }

    /// Like [`spawn_watch`](Self::spawn_watch), but starts the watch only after `ready` completes: for kinds whose CRD may be
    /// installed later, which would otherwise fail the watch and the liveness probe.
    pub fn spawn_watch_after<K>(
        &mut self,
        ready: impl Future<Output = ()> + Send + 'static,
        watch: Watch<K>,
    ) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let cache = watch.cache();
        self.admin.add_liveness_check(watch.progress());
        let name = format!("watch {}", watch.kind());
        self.tasks.spawn_until_stopped(Phase::Intake, name, async move {
            ready.await;
            watch.run().await;
        });
        cache
    }

    /// Spawns the sender of events. `controller` is the reporting controller, `instance` the identity of this process.
    pub fn spawn_events(&mut self, controller: &'static str, instance: &str) -> EventRecorder {
        let (events, sender) = EventRecorder::new(self.client.clone(), controller, instance, &self.metrics);
        let stop = self.tasks.stop_token(Phase::Work);
        self.tasks.spawn(Phase::Work, "events", sender.run(stop));
        events
    }

    /// Makes the readiness probe fail until the caches are synced.
    pub fn ready_when_synced(&self, is_synced: impl Fn() -> bool + Send + Sync + 'static) {
        self.admin.add_readiness_check("caches", move || {
            if is_synced() { Ok(()) } else { Err("initial lists are not complete".into()) }
        });
    }

    /// Spawns `work`, which runs while this process is the leader: each time it acquires the Lease, until it loses it or the
    /// process shuts down. Without a `lease` there is no election, and `work` runs once with a claim that never expires.
    ///
    /// `work` gets the claim for its writes and the token that is cancelled on shutdown.
    pub fn spawn_leader_elected<F, Fut>(
        &mut self,
        name: impl Into<String>,
        lease: Option<lease::Config>,
        work: F,
    ) where
        F: Fn(Claim, CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let stop = self.tasks.stop_token(Phase::Work);
        let Some(lease) = lease else {
            self.tasks.spawn(Phase::Work, name, work(Claim::permanent(), stop));
            return;
        };
        let (elector, leadership) = LeaderElector::new(self.client.clone(), lease, &self.metrics);
        self.admin.add_liveness_check(elector.progress());
        let release = self.tasks.stop_token(Phase::Release);
        self.tasks.spawn(Phase::Release, "lease", elector.run(release));
        let state = leadership.clone();
        self.admin
            .add_debug_state("leading", move || json!(matches!(*state.borrow(), Leadership::Leading(_))));
        self.tasks.spawn(Phase::Work, name, run_while_leading(leadership, stop, work));
    }

    /// Starts serving probes and metrics on `address`. Returns the address it listens on.
    pub async fn serve_metrics(&mut self, address: SocketAddr) -> Result<SocketAddr, Error> {
        let bound = self.admin.clone().bind(address).await;
        let bound = bound.map_err(|source| Error::Listen { address, source })?;
        Ok(self.spawn_server("metrics", bound))
    }

    /// Starts serving debug state and log level on `address`. Returns the address it listens on; `None` if it is in use.
    pub async fn serve_admin(&mut self, address: LoopbackAddress) -> Option<SocketAddr> {
        match self.admin.clone().bind_admin(address).await {
            Ok(bound) => Some(self.spawn_server("admin", bound)),
            // Processes that share a network namespace have the same default, and none needs them to work.
            Err(error) => {
                tracing::warn!(%address, %error, "failed to bind admin server, running without it");
                None
            }
        }
    }

    fn spawn_server(&mut self, server: &'static str, bound: BoundAdmin) -> SocketAddr {
        let address = bound.address();
        tracing::info!(server, %address, "server listening");
        let stop = self.tasks.stop_token(Phase::Background);
        self.tasks.spawn(Phase::Background, server, bound.serve(stop));
        address
    }

    /// Serves probes and metrics on `metrics`, debug state and log level on `admin`, and runs until SIGTERM, SIGINT or the exit of
    /// a task. Then stops all tasks and flushes traces.
    pub async fn run(
        mut self,
        metrics: impl IntoIterator<Item = SocketAddr>,
        admin: Option<LoopbackAddress>,
    ) -> Result<(), Error> {
        for address in metrics {
            self.serve_metrics(address).await?;
        }
        if let Some(address) = admin {
            self.serve_admin(address).await;
        }
        let result = self.tasks.run_until_signal().await;
        self.telemetry.shutdown().await;
        Ok(result?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::runtime::watcher;

    use super::*;

    /// A process whose API server refuses connections.
    fn process() -> Process {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let metrics = Metrics::new();
        let client = client::connect(config, "test", &metrics).unwrap();
        Process::new(Telemetry::for_test(), client, metrics)
    }

    fn watch(process: &Process) -> Watch<ConfigMap> {
        Watch::new(Api::all(process.client.clone()), watcher::Config::default(), &process.metrics).unwrap()
    }

    #[tokio::test]
    async fn readiness_probe_fails_until_caches_are_synced() {
        let process = process();
        let synced = Arc::new(AtomicBool::new(false));
        process.ready_when_synced({
            let synced = synced.clone();
            move || synced.load(Ordering::SeqCst)
        });
        assert_eq!(process.admin.readiness_failures(), ["caches: initial lists are not complete"]);
        synced.store(true, Ordering::SeqCst);
        assert_eq!(process.admin.readiness_failures(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn spawned_watch_reports_its_failures_to_the_admin_server() {
        let mut process = process();
        let watch = watch(&process);
        let cache = process.spawn_watch(watch);
        assert!(!cache.is_synced());
        while process.admin.state()["progress"]["watch configmaps"]["failure"].is_null() {
            tokio::task::yield_now().await;
        }
        process.tasks.run_until(async {}).await.unwrap();
    }

    #[tokio::test]
    async fn deferred_watch_does_not_start_before_it_is_ready() {
        let mut process = process();
        let watch = watch(&process);
        process.spawn_watch_after(std::future::pending(), watch);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(process.admin.state()["progress"]["watch configmaps"]["failure"].is_null());
        process.tasks.run_until(async {}).await.unwrap();
    }

    #[tokio::test]
    async fn without_lease_work_runs_at_once_with_a_valid_claim() {
        let mut process = process();
        let (sender, mut claims) = tokio::sync::mpsc::unbounded_channel();
        process.spawn_leader_elected("work", None, move |claim, stop| {
            sender.send(claim.check()).unwrap();
            async move { stop.cancelled().await }
        });
        assert_eq!(claims.recv().await, Some(Ok(())));
        assert!(process.admin.state()["leading"].is_null(), "there is no election");
        process.tasks.run_until(async {}).await.unwrap();
    }

    #[tokio::test]
    async fn work_does_not_run_without_the_lease() {
        let mut process = process();
        let ran = Arc::new(AtomicBool::new(false));
        let lease = lease::Config {
            retry_period: std::time::Duration::from_millis(10),
            ..lease::Config::new("default", "test", "me")
        };
        process.spawn_leader_elected("work", Some(lease), {
            let ran = ran.clone();
            move |_, stop| {
                ran.store(true, Ordering::SeqCst);
                async move { stop.cancelled().await }
            }
        });
        while process.admin.state()["progress"]["lease default/test"]["failure"].is_null() {
            tokio::task::yield_now().await;
        }
        assert_eq!(process.admin.state()["leading"], false);
        process.tasks.run_until(async {}).await.unwrap();
        assert!(!ran.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn address_in_use_fails_start_up() {
        let mut process = process();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = process.serve_metrics(address).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("failed to listen on {address}: ")), "{error}");
    }

    #[tokio::test]
    async fn admin_address_in_use_does_not_fail_start_up() {
        let mut process = process();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = LoopbackAddress::new(taken.local_addr().unwrap()).unwrap();
        assert_eq!(process.serve_admin(address).await, None);
        drop(taken);
        assert_eq!(process.serve_admin(address).await, Some(address.into()));
        process.tasks.run_until(async {}).await.unwrap();
    }
}
