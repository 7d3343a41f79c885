//! One fake pod, from creation to removal.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::names::{container, label, role};
use k8s_openapi::api::core::v1::{Container, Event, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::environment::Environment;
use super::is_status;
use super::script::ContainerFailure;
use super::status::{self, PodAddresses};
use crate::cluster::pki::Identity;
use crate::fakes::sidecars::{NodeName, Transport};
use crate::sync::lock;

/// Delay before a rejected request is retried.
const RETRY: Duration = Duration::from_millis(200);

/// One fake pod.
#[derive(Debug)]
pub(super) struct FakePod {
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) node: NodeName,
    name: String,
    is_bootstrap: bool,
    addresses: PodAddresses,
    pod: Mutex<Arc<Pod>>,
    wake: Notify,
}

/// What the fake kubelet has done for the pod so far.
#[derive(Debug)]
struct Progress {
    first_seen: Instant,
    /// Whether the pod was bound to the node.
    bound: bool,
    deleted_at: Option<Instant>,
    /// When the sidecar of a bootstrap pod was first ready.
    ready_since: Option<Instant>,
    /// Whether containers have started, possibly under an earlier fake kubelet.
    started: bool,
    /// The certificate that the proxy last loaded.
    certificate: Option<String>,
    mount_failure: Option<String>,
}

/// When to process the pod again.
enum Wakeup {
    /// When something changes.
    OnChange,
    /// After this time, or earlier if something changes.
    After(Duration),
}

impl FakePod {
    /// Wraps a new pod; `None` if it does not belong to a node.
    pub(super) fn new(pod: Pod, addresses: PodAddresses) -> Option<Self> {
        let labels = pod.labels();
        let namespace = pod.namespace()?;
        Some(Self {
            node: NodeName::new(&namespace, labels.get(label::NODE)?),
            is_bootstrap: labels.get(label::COMPONENT).is_some_and(|is| is == role::BOOTSTRAP_COMPONENT),
            uid: pod.uid()?,
            name: pod.name_any(),
            namespace,
            addresses,
            pod: Mutex::new(Arc::new(pod)),
            wake: Notify::new(),
        })
    }

    /// Returns the last observed version of the pod.
    pub(super) fn pod(&self) -> Arc<Pod> {
        lock(&self.pod).clone()
    }

    /// Stores a newer version of the pod; older versions may arrive late and are ignored.
    pub(super) fn observe(&self, pod: Pod) {
        let version = |pod: &Pod| pod.resource_version().and_then(|version| version.parse::<u64>().ok());
        let mut known = lock(&self.pod);
        if version(&pod) > version(&known) {
            *known = Arc::new(pod);
            self.wake.notify_one();
        }
    }

    /// Processes the pod again, because a dependency changed.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Runs until the task is aborted.
    pub(super) async fn run(self: Arc<Self>, env: Arc<Environment>) {
        let mut progress = Progress {
            first_seen: Instant::now(),
            bound: false,
            deleted_at: None,
            ready_since: None,
            started: self.pod().status.as_ref().is_some_and(status::has_any_started),
            certificate: None,
            mount_failure: None,
        };
        loop {
            let next = match self.step(&env, &mut progress).await {
                Ok(next) => next,
                // Lost a race; the watch event is on its way.
                Err(error) if is_status(&error, 404) || is_status(&error, 409) => Wakeup::After(RETRY),
                Err(error) => {
                    env.log.record(&self.node, format!("pod {}: {error}", self.name));
                    Wakeup::After(RETRY)
                }
            };
            match next {
                Wakeup::OnChange => self.wake.notified().await,
                // Both are a reason to process the pod again.
                Wakeup::After(time) => drop(timeout(time, self.wake.notified()).await),
            }
        }
    }

    async fn step(&self, env: &Arc<Environment>, progress: &mut Progress) -> kube::Result<Wakeup> {
        let pod = self.pod();
        if pod.metadata.deletion_timestamp.is_some() {
            return self.remove(env, progress).await;
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return Ok(Wakeup::OnChange);
        }
        if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
            return self.schedule(env, progress, &pod).await;
        }
        if !progress.started {
            if let Some(next) = self.check_start(env, progress, &pod).await? {
                return Ok(next);
            }
            progress.started = true;
        }
        self.run_containers(env, progress).await
    }

    async fn schedule(&self, env: &Environment, progress: &mut Progress, pod: &Pod) -> kube::Result<Wakeup> {
        // Already bound; the watch event is on its way.
        if progress.bound {
            return Ok(Wakeup::OnChange);
        }
        if let Some(why) = env.objects(|objects| objects.unschedulable(&self.namespace, pod)) {
            self.write(env, pod, status::unschedulable(pod, &why, &now())).await?;
            return Ok(Wakeup::OnChange);
        }
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": self.name, "uid": self.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": env.kube_node},
        });
        let _permit = env.request_permit().await;
        let _: Value =
            self.api(env).create_subresource("binding", &self.name, &PostParams::default(), &binding).await?;
        progress.bound = true;
        env.log.record(&self.node, format!("pod {} bound to the node", self.name));
        Ok(Wakeup::OnChange)
    }

    /// Returns when to try again if something keeps the containers from starting.
    async fn check_start(
        &self,
        env: &Environment,
        progress: &mut Progress,
        pod: &Pod,
    ) -> kube::Result<Option<Wakeup>> {
        let (held, start_after) = env.script(|script| (script.held, script.start_after));
        let wait = start_after.saturating_sub(progress.first_seen.elapsed());
        let unmountable = env.objects(|objects| objects.unmountable(&self.namespace, pod));
        // Written in any case: a real pod is in ContainerCreating before its containers run.
        let creating = status::build(pod, status::PodStage::Creating, &self.addresses, |_| None, &now());
        self.write(env, pod, creating).await?;
        if let Some(why) = unmountable {
            if progress.mount_failure.as_ref() != Some(&why) {
                self.emit_failed_mount(env, &why).await?;
                progress.mount_failure = Some(why);
            }
            return Ok(Some(Wakeup::OnChange));
        }
        Ok(match (held, wait) {
            (true, _) => Some(Wakeup::OnChange),
            (false, Duration::ZERO) => None,
            (false, wait) => Some(Wakeup::After(wait)),
        })
    }

    async fn run_containers(&self, env: &Arc<Environment>, progress: &mut Progress) -> kube::Result<Wakeup> {
        // Read again, because this step may have written the status.
        let pod = self.pod();
        let ready = env.sidecars.is_ready(&self.node, &self.uid);
        let left = self.time_left(env, progress, ready);
        if left == Some(Duration::ZERO) {
            env.sidecars.pod_ended(&self.node, &self.uid);
            let exit_code = env.script(|script| script.bootstrap_exit_code);
            let ended =
                status::build(&pod, status::PodStage::Ended { exit_code }, &self.addresses, |_| None, &now());
            self.write(env, &pod, ended).await?;
            return Ok(Wakeup::OnChange);
        }
        let certificate = env.objects(|objects| objects.certificate(&self.namespace, &pod));
        let transport = match &certificate {
            Ok(None) => Ok(Transport::Plain),
            Ok(Some(identity)) => Transport::tls(identity).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let failure =
            |container: &Container| self.container_failure(env, container, transport.as_ref().err());
        let written =
            status::build(&pod, status::PodStage::Started { ready }, &self.addresses, failure, &now());
        let up = status::runs(&written, container::SIDECAR) && status::runs(&written, container::PROXY);
        if up && let Ok(transport) = transport {
            self.serve(env, progress, transport, certificate.ok().flatten());
        }
        self.write(env, &pod, written).await?;
        Ok(left.map_or(Wakeup::OnChange, Wakeup::After))
    }

    /// Returns how long the seid of a bootstrap pod still runs. It starts when the sidecar is ready.
    fn time_left(&self, env: &Environment, progress: &mut Progress, ready: bool) -> Option<Duration> {
        if progress.ready_since.is_none() && self.is_bootstrap && ready {
            progress.ready_since = Some(Instant::now());
        }
        let duration = env.script(|script| script.bootstrap_duration);
        progress.ready_since.map(|since| duration.saturating_sub(since.elapsed()))
    }

    /// Returns why a container that is about to start fails.
    fn container_failure(
        &self,
        env: &Environment,
        container: &Container,
        certificate: Option<&String>,
    ) -> Option<ContainerFailure> {
        let image = container.image.as_deref().unwrap_or_default();
        let image = env.script(|script| script.broken_images.get(image).cloned());
        let config = || env.objects(|objects| objects.config_error(&self.namespace, container));
        let certificate = || {
            certificate
                .filter(|_| container.name == container::PROXY)
                .cloned()
                .map(ContainerFailure::CrashLoopBackOff)
        };
        image.or_else(config).or_else(certificate)
    }

    /// Starts the fake sidecar, or makes its proxy load a changed certificate.
    fn serve(
        &self,
        env: &Arc<Environment>,
        progress: &mut Progress,
        transport: Transport,
        certificate: Option<Identity>,
    ) {
        let read = certificate.map(|identity| identity.certificate + &identity.key);
        if progress.certificate.is_some() && read != progress.certificate {
            env.log.record(&self.node, "proxy loaded a changed certificate");
            env.sidecars.certificate_changed(&self.node, &self.uid, transport.clone());
        }
        progress.certificate = read;
        env.sidecars.pod_started(&self.node, &self.uid, transport);
    }

    async fn remove(&self, env: &Environment, progress: &mut Progress) -> kube::Result<Wakeup> {
        let since = *progress.deleted_at.get_or_insert_with(Instant::now);
        let wait = env.script(|script| script.remove_after).saturating_sub(since.elapsed());
        if !wait.is_zero() {
            return Ok(Wakeup::After(wait));
        }
        env.sidecars.pod_ended(&self.node, &self.uid);
        let only_this = Preconditions { uid: Some(self.uid.clone()), ..Preconditions::default() };
        let immediately = DeleteParams::default().grace_period(0).preconditions(only_this);
        let _permit = env.request_permit().await;
        self.api(env).delete(&self.name, &immediately).await?;
        env.log.record(&self.node, format!("pod {} removed", self.name));
        Ok(Wakeup::OnChange)
    }

    /// Writes the status if it differs from the observed one.
    async fn write(&self, env: &Environment, pod: &Pod, status: PodStatus) -> kube::Result<()> {
        if pod.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let phase = status.phase.clone().unwrap_or_default();
        let patch = Patch::Merge(json!({"metadata": {"uid": self.uid}, "status": status}));
        let _permit = env.request_permit().await;
        let written = self.api(env).patch_status(&self.name, &PatchParams::default(), &patch).await?;
        env.log.record(&self.node, format!("pod {} is {phase}", self.name));
        self.observe(written);
        Ok(())
    }

    /// Emits the FailedMount event of the pod.
    async fn emit_failed_mount(&self, env: &Environment, why: &str) -> kube::Result<()> {
        let now = now();
        let event = serde_json::from_value::<Event>(json!({
            "metadata": {"generateName": format!("{}.", self.name), "namespace": self.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod",
                "namespace": self.namespace, "name": self.name, "uid": self.uid,
            },
            "type": "Warning", "reason": "FailedMount", "message": why,
            "source": {"component": "kubelet", "host": env.kube_node},
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        }))
        .map_err(kube::Error::SerdeError)?;
        let events: Api<Event> = Api::namespaced(env.client.clone(), &self.namespace);
        let _permit = env.request_permit().await;
        events.create(&PostParams::default(), &event).await?;
        env.log.record(&self.node, format!("pod {}: {why}", self.name));
        Ok(())
    }

    fn api(&self, env: &Environment) -> Api<Pod> {
        Api::namespaced(env.client.clone(), &self.namespace)
    }
}

fn now() -> Time {
    Time(Timestamp::now())
}
