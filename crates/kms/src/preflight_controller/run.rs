//! The controller's process, from its settings to its end.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Resource};
use runtime::lease::{Campaign, Claim};
use runtime::process::{self, Process};
use runtime::tasks::Phase;
use runtime::telemetry::Options;
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

/// The longest that one pass may take.
const PASS_WITHIN: Duration = Duration::from_secs(120);

/// Why the controller ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// As any process.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// A watch that must not be.
    #[error(transparent)]
    Watch(#[from] runtime::watch::SecretsOfAll),
}

/// Lives as the controller until it is told to end.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let options = Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: None,
        service: "outrigger-kms-preflight-controller",
    };
    let mut process = Process::begin(&options, &settings.access, env!("CARGO_PKG_VERSION")).await?;
    let woken = Arc::new(Notify::new());
    Wake { process: &mut process, woken: &woken }.by_all(&settings)?;
    lead(&settings, &mut process, &woken);
    Ok(process.live(settings.admin).await?)
}

/// Watches of everything that a check is asked for by or tells by. They only wake: what is decided on is read anew.
struct Wake<'a> {
    process: &'a mut Process,
    woken: &'a Arc<Notify>,
}

impl Wake<'_> {
    fn by_all(&mut self, settings: &Settings) -> Result<(), Error> {
        let label = format!("{}={}", names::APP_LABEL, names::APP);
        let pods: Api<Guarded<Pod>> = Api::namespaced(self.process.client.clone(), &settings.place.namespace);
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
        let api: Api<Guarded<Raw<K>>> = Api::all(self.process.client.clone());
        self.by(api, named(NAME))
    }

    fn by<K>(&mut self, api: Api<Guarded<K>>, config: watcher::Config) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let woken = self.woken.clone();
        let watch = Watch::of(api, config, &self.process.metrics)?.tell(move |_| woken.notify_one());
        self.process.admin.lives_by(watch.progress());
        self.process.tasks.spawn_until_stopped(
            Phase::Intake,
            format!("watch {}", K::plural(&())),
            watch.run(),
        );
        Ok(())
    }
}

/// Works while this process leads, or for ever when there is no election.
fn lead(settings: &Settings, process: &mut Process, woken: &Arc<Notify>) {
    let Process { client, metrics, admin, tasks, .. } = process;
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
