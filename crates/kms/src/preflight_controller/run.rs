//! The controller's process, from its settings to its end.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use runtime::admin::Admin;
use runtime::lease::{Campaign, Claim};
use runtime::metrics::Metrics;
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Options};
use runtime::watch::{Guarded, Watch};
use runtime::while_leading;
use runtime::write::Writer;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::args::Settings;
use super::pass::{Controller, Memory};
use super::resource::{Kind, NAME};
use crate::resource::{self, ApiServer, Authentication, KubeApiServer, OpenShiftApiServer, Raw, named};

const USER_AGENT: &str = concat!("outrigger-kms-preflight-controller/", env!("CARGO_PKG_VERSION"));

/// The longest that one pass may take.
const PASS_WITHIN: Duration = Duration::from_secs(120);

/// Why the process ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Logs cannot be written.
    #[error("logs: {0}")]
    Telemetry(String),
    /// There is no way to the API server.
    #[error(transparent)]
    Access(#[from] runtime::client::Error),
    /// An address is taken, or is not ours.
    #[error("--metrics-bind-address {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A watch that must not be.
    #[error(transparent)]
    Watch(#[from] runtime::watch::SecretsOfAll),
    /// A task ended that must live.
    #[error(transparent)]
    Tasks(#[from] runtime::tasks::Error),
}

/// Lives as the controller until it is told to end.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let told = telemetry::start(&Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: None,
        service: "outrigger-kms-preflight-controller",
    })
    .map_err(Error::Telemetry)?;
    let metrics = Metrics::new();
    let client = settings.access.connect(USER_AGENT, &metrics).await?;
    let admin = Admin::new(&metrics, Some(told.level()));
    let mut tasks = Tasks::new();
    let woken = Arc::new(Notify::new());
    let mut wake =
        Wake { client: &client, metrics: &metrics, admin: &admin, tasks: &mut tasks, woken: &woken };
    wake.by_all(&settings)?;
    lead(&settings, &client, &metrics, &admin, &mut tasks, &woken);
    if let Some(address) = settings.admin {
        let bound = admin.clone().bind(address).await.map_err(|source| Error::Listen { address, source })?;
        let watchman = tasks.stop(Phase::Watchman);
        tasks.spawn(Phase::Watchman, "admin", bound.serve(watchman));
    }
    let ended = tasks.run_until_signal().await;
    told.end().await;
    Ok(ended?)
}

/// Watches of everything that a check is asked for by or tells by. They only wake: what is decided on is read anew.
struct Wake<'a> {
    client: &'a Client,
    metrics: &'a Metrics,
    admin: &'a Admin,
    tasks: &'a mut Tasks,
    woken: &'a Arc<Notify>,
}

impl Wake<'_> {
    fn by_all(&mut self, settings: &Settings) -> Result<(), Error> {
        let label = format!("{}={}", names::APP_LABEL, names::APP);
        let pods: Api<Guarded<Pod>> = Api::namespaced(self.client.clone(), &settings.place.namespace);
        self.by(pods, watcher::Config::default().labels(&label))?;
        self.by_object::<ApiServer>()?;
        match settings.kind {
            Kind::KubeAPIServer => self.by_object::<KubeApiServer>(),
            Kind::OpenShiftAPIServer => self.by_object::<OpenShiftApiServer>(),
            Kind::Authentication => self.by_object::<Authentication>(),
        }
    }

    /// By the one object of a kind.
    fn by_object<K: resource::Kind>(&mut self) -> Result<(), Error> {
        let api: Api<Guarded<Raw<K>>> = Api::all(self.client.clone());
        self.by(api, named(NAME))
    }

    fn by<K>(&mut self, api: Api<Guarded<K>>, config: watcher::Config) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let woken = self.woken.clone();
        let watch = Watch::of(api, config, self.metrics)?.tell(move |_| woken.notify_one());
        self.admin.lives_by(watch.progress());
        self.tasks.spawn_until_stopped(Phase::Intake, format!("watch {}", K::plural(&())), watch.run());
        Ok(())
    }
}

/// Works while this process leads, or for ever when there is no election.
fn lead(
    settings: &Settings,
    client: &Client,
    metrics: &Metrics,
    admin: &Admin,
    tasks: &mut Tasks,
    woken: &Arc<Notify>,
) {
    let stop = tasks.stop(Phase::Work);
    let (own, settings, metrics, woken) = (client.clone(), settings.clone(), metrics.clone(), woken.clone());
    let lease = settings.lease.clone();
    let campaign_metrics = metrics.clone();
    let work = move |claim: Claim, stop: CancellationToken| {
        let controller = Controller {
            client: own.clone(),
            settings: settings.clone(),
            writer: Writer::new(own.clone(), names::MANAGER, claim.clone(), &metrics),
            claim,
            memory: Memory::default(),
        };
        live(controller, woken.clone(), stop)
    };
    let Some(lease) = lease else {
        tasks.spawn(Phase::Work, "preflight", work(Claim::alone(), stop));
        return;
    };
    let (campaign, leadership) = Campaign::new(client.clone(), lease, &campaign_metrics);
    admin.lives_by(campaign.progress());
    let release = tasks.stop(Phase::Release);
    tasks.spawn(Phase::Release, "lease", campaign.run(release));
    tasks.spawn(Phase::Work, "preflight", while_leading(leadership, stop, work));
}

/// Pass after pass. A failure is told once, and once more when it is over.
async fn live(mut controller: Controller, woken: Arc<Notify>, stop: CancellationToken) {
    let mut failing: Option<String> = None;
    loop {
        let pass = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            pass = tokio::time::timeout(PASS_WITHIN, controller.pass()) => pass,
        };
        let (again, failure) = match pass {
            Ok(Ok(again)) => (again, None),
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("a pass took longer than {} s", PASS_WITHIN.as_secs()))),
        };
        match (&failing, &failure) {
            (_, Some(why)) if failing.as_ref() != Some(why) => tracing::warn!("{why}"),
            (Some(_), None) => tracing::info!("passes succeed again"),
            _ => {}
        }
        failing = failure;
        let resync = controller.settings.resync;
        let wait = again.map_or(resync, |again| again.min(resync));
        tokio::select! {
            () = stop.cancelled() => return,
            () = woken.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}
