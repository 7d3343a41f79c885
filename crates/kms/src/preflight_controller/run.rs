//! The preflight controller's process.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Resource};
use plan::kms::target::ReportTarget;
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
use super::operator_resource::NAME;
use super::reconcile::{Controller, Memory};
use crate::resource::{
    ApiServer, Authentication, KmsHealth, KubeApiServer, OpenShiftApiServer, ResourceKind, UntypedObject,
    watch_by_name,
};

/// Timeout of one reconcile.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(120);

/// Why the controller failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process failed to start or a task failed.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// A watch would cache all Secrets of the cluster.
    #[error(transparent)]
    Watch(#[from] runtime::watch::SecretsOfAll),
}

/// Runs the controller until it receives SIGTERM.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let options = Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: None,
        service: "outrigger-kms-preflight-controller",
    };
    let mut process = Process::begin(&options, &settings.access, env!("CARGO_PKG_VERSION")).await?;
    let trigger = Arc::new(Notify::new());
    Watches { process: &mut process, trigger: &trigger }.start(&settings)?;
    lead(&settings, &mut process, &trigger);
    Ok(process.live(settings.admin).await?)
}

/// Watches of the resources and pods of a check. Events only trigger a reconcile, which reads the objects again.
struct Watches<'a> {
    process: &'a mut Process,
    trigger: &'a Arc<Notify>,
}

impl Watches<'_> {
    fn start(&mut self, settings: &Settings) -> Result<(), Error> {
        let label = format!("{}={}", names::APP_LABEL, names::APP);
        let pods: Api<Guarded<Pod>> = Api::namespaced(self.process.client.clone(), &settings.place.namespace);
        self.watch(pods, watcher::Config::default().labels(&label))?;
        self.watch_object::<ApiServer>()?;
        match settings.kind.target() {
            ReportTarget::KubeApiServer => self.watch_object::<KubeApiServer>(),
            ReportTarget::OpenShiftApiServer => self.watch_object::<OpenShiftApiServer>(),
            ReportTarget::Authentication => self.watch_object::<Authentication>(),
            ReportTarget::KmsHealth => self.watch_object::<KmsHealth>(),
        }
    }

    /// Watches the only object of a kind.
    fn watch_object<K: ResourceKind>(&mut self) -> Result<(), Error> {
        let api: Api<Guarded<UntypedObject<K>>> = Api::all(self.process.client.clone());
        self.watch(api, watch_by_name(NAME))
    }

    fn watch<K>(&mut self, api: Api<Guarded<K>>, config: watcher::Config) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let trigger = self.trigger.clone();
        let watch = Watch::of(api, config, &self.process.metrics)?.tell(move |_| trigger.notify_one());
        self.process.admin.lives_by(watch.progress());
        self.process.tasks.spawn_until_stopped(
            Phase::Intake,
            format!("watch {}", K::plural(&())),
            watch.run(),
        );
        Ok(())
    }
}

/// Runs the controller while this process is the leader, or always without leader election.
fn lead(settings: &Settings, process: &mut Process, trigger: &Arc<Notify>) {
    let Process { client, metrics, admin, tasks, .. } = process;
    let stop = tasks.stop(Phase::Work);
    let (own, settings, metrics, trigger) =
        (client.clone(), settings.clone(), metrics.clone(), trigger.clone());
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
        reconcile_loop(controller, trigger.clone(), stop)
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

/// Reconciles on every trigger and resync. Repeated failures are logged once, and so is recovery.
async fn reconcile_loop(mut controller: Controller, trigger: Arc<Notify>, stop: CancellationToken) {
    let mut last_error: Option<String> = None;
    loop {
        let result = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            result = tokio::time::timeout(RECONCILE_TIMEOUT, controller.reconcile()) => result,
        };
        let (requeue_after, error) = match result {
            Ok(Ok(requeue_after)) => (requeue_after, None),
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("timed out after {} s", RECONCILE_TIMEOUT.as_secs()))),
        };
        match (&last_error, &error) {
            (_, Some(error)) if last_error.as_ref() != Some(error) => {
                tracing::warn!(error, "reconcile failed")
            }
            (Some(_), None) => tracing::info!("reconcile recovered"),
            _ => {}
        }
        last_error = error;
        let resync = controller.settings.resync;
        let delay = requeue_after.map_or(resync, |after| after.min(resync));
        tokio::select! {
            () = stop.cancelled() => return,
            () = trigger.notified() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }
}
