//! The preflight controller's process.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::kms::KmsTarget;
use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Resource};
use runtime::process::{self, Process};
use runtime::telemetry::Options;
use runtime::watch::{DeserializeGuard, Watch};
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

/// Runs the controller until it receives SIGTERM.
pub async fn run(settings: Settings) -> Result<(), process::Error> {
    let options = Options {
        format: settings.log_format,
        level: &settings.log_level,
        otlp_endpoint: None,
        service: "outrigger-kms-preflight-controller",
    };
    let mut process = Process::start(&options, &settings.access, env!("CARGO_PKG_VERSION")).await?;
    let trigger = Arc::new(Notify::new());
    Watches { process: &mut process, trigger: &trigger }.start(&settings)?;
    lead(&settings, &mut process, trigger);
    process.run(settings.metrics, settings.admin).await
}

/// Watches of the resources and pods of a check. Events only trigger a reconcile, which reads the objects again.
struct Watches<'a> {
    process: &'a mut Process,
    trigger: &'a Arc<Notify>,
}

impl Watches<'_> {
    fn start(&mut self, settings: &Settings) -> Result<(), process::Error> {
        let label = format!("{}={}", names::APP_LABEL, names::APP);
        let pods: Api<DeserializeGuard<Pod>> =
            Api::namespaced(self.process.client.clone(), &settings.pod_config.namespace);
        self.watch(pods, watcher::Config::default().labels(&label))?;
        self.watch_object::<ApiServer>()?;
        match settings.kind.target() {
            KmsTarget::KubeApiServer => self.watch_object::<KubeApiServer>(),
            KmsTarget::OpenShiftApiServer => self.watch_object::<OpenShiftApiServer>(),
            KmsTarget::Authentication => self.watch_object::<Authentication>(),
            KmsTarget::KmsHealth => self.watch_object::<KmsHealth>(),
        }
    }

    /// Watches the only object of a kind.
    fn watch_object<K: ResourceKind>(&mut self) -> Result<(), process::Error> {
        let api: Api<DeserializeGuard<UntypedObject<K>>> = Api::all(self.process.client.clone());
        self.watch(api, watch_by_name(NAME))
    }

    fn watch<K>(
        &mut self,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
    ) -> Result<(), process::Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let trigger = self.trigger.clone();
        let watch = Watch::new(api, config, &self.process.metrics)?.on_change(move |_| trigger.notify_one());
        self.process.spawn_watch(watch);
        Ok(())
    }
}

/// Runs the controller while this process is the leader, or always without leader election.
fn lead(settings: &Settings, process: &mut Process, trigger: Arc<Notify>) {
    let (client, metrics) = (process.client.clone(), process.metrics.clone());
    let (lease, settings) = (settings.lease.clone(), settings.clone());
    process.spawn_leader_elected("preflight", lease, move |claim, stop| {
        let controller = Controller {
            client: client.clone(),
            settings: settings.clone(),
            writer: Writer::new(client.clone(), names::MANAGER, claim.clone(), &metrics),
            claim,
            memory: Memory::default(),
        };
        reconcile_loop(controller, trigger.clone(), stop)
    });
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
