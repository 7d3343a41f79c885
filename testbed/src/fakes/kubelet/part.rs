//! One pod, from its creation to its removal: what its kubelet does about it.

use std::sync::{Arc, Mutex, PoisonError};
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

use super::direction::Breakage;
use super::is_status;
use super::stage::Stage;
use super::status::{self, Place};
use crate::cluster::pki::Identity;
use crate::fakes::sidecars::{NodeName, Transport};

/// The time before something is tried again that the API server refused.
const RETRY: Duration = Duration::from_millis(200);

/// One pod that is played.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) node: NodeName,
    name: String,
    is_bootstrap: bool,
    place: Place,
    pod: Mutex<Arc<Pod>>,
    wake: Notify,
}

/// What happened to a pod so far, in the memory of its kubelet.
#[derive(Debug)]
struct Memory {
    seen: Instant,
    /// Whether it was given its machine.
    bound: bool,
    deleted: Option<Instant>,
    /// When the sidecar of a bootstrap pod was first ready.
    ready: Option<Instant>,
    /// Whether containers have been started; also by a player before.
    started: bool,
    /// The certificate that the proxy has read last.
    certificate: Option<String>,
    complaint: Option<String>,
}

/// When to look again.
enum Next {
    /// When something changes.
    OnChange,
    /// After a time, or when something changes.
    After(Duration),
}

impl Part {
    /// A pod that has just been seen; `None` for one that belongs to no node.
    pub(super) fn of(pod: Pod, place: Place) -> Option<Self> {
        let labels = pod.labels();
        let namespace = pod.namespace()?;
        Some(Self {
            node: NodeName::new(&namespace, labels.get(label::NODE)?),
            is_bootstrap: labels.get(label::COMPONENT).is_some_and(|is| is == role::BOOTSTRAP_COMPONENT),
            uid: pod.uid()?,
            name: pod.name_any(),
            namespace,
            place,
            pod: Mutex::new(Arc::new(pod)),
            wake: Notify::new(),
        })
    }

    /// The pod as it was last seen.
    pub(super) fn pod(&self) -> Arc<Pod> {
        self.pod.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a newer look at the pod; an older one may come late.
    pub(super) fn see(&self, pod: Pod) {
        let version = |pod: &Pod| pod.resource_version().and_then(|version| version.parse::<u64>().ok());
        let mut known = self.pod.lock().unwrap_or_else(PoisonError::into_inner);
        if version(&pod) > version(&known) {
            *known = Arc::new(pod);
            self.wake.notify_one();
        }
    }

    /// Something that it depends on has changed.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Plays until it is dropped.
    pub(super) async fn play(self: Arc<Self>, stage: Arc<Stage>) {
        let mut memory = Memory {
            seen: Instant::now(),
            bound: false,
            deleted: None,
            ready: None,
            started: self.pod().status.as_ref().is_some_and(status::has_begun),
            certificate: None,
            complaint: None,
        };
        loop {
            let next = match self.step(&stage, &mut memory).await {
                Ok(next) => next,
                // Somebody was faster; the news is on its way.
                Err(error) if is_status(&error, 404) || is_status(&error, 409) => Next::After(RETRY),
                Err(error) => {
                    stage.log.say(&self.node, format!("pod {}: {error}", self.name));
                    Next::After(RETRY)
                }
            };
            match next {
                Next::OnChange => self.wake.notified().await,
                // Either is a reason to look again.
                Next::After(time) => drop(timeout(time, self.wake.notified()).await),
            }
        }
    }

    async fn step(&self, stage: &Arc<Stage>, memory: &mut Memory) -> kube::Result<Next> {
        let pod = self.pod();
        if pod.metadata.deletion_timestamp.is_some() {
            return self.remove(stage, memory).await;
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return Ok(Next::OnChange);
        }
        if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
            return self.schedule(stage, memory, &pod).await;
        }
        if !memory.started {
            if let Some(next) = self.hold_back(stage, memory, &pod).await? {
                return Ok(next);
            }
            memory.started = true;
        }
        self.run(stage, memory).await
    }

    async fn schedule(&self, stage: &Stage, memory: &mut Memory, pod: &Pod) -> kube::Result<Next> {
        // Done; that it shows in the pod is on its way.
        if memory.bound {
            return Ok(Next::OnChange);
        }
        if let Some(why) = stage.objects(|objects| objects.unschedulable(&self.namespace, pod)) {
            self.write(stage, pod, status::unschedulable(pod, &why, &now())).await?;
            return Ok(Next::OnChange);
        }
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": self.name, "uid": self.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": stage.machine},
        });
        let _turn = stage.turn().await;
        let _: Value = self
            .api(stage)
            .create_subresource("binding", &self.name, &PostParams::default(), &binding)
            .await?;
        memory.bound = true;
        stage.log.say(&self.node, format!("pod {} has a machine", self.name));
        Ok(Next::OnChange)
    }

    /// What keeps the containers of a pod from being started, if anything does.
    async fn hold_back(&self, stage: &Stage, memory: &mut Memory, pod: &Pod) -> kube::Result<Option<Next>> {
        let (held, start_after) = stage.directed(|direction| (direction.held, direction.start_after));
        let wait = start_after.saturating_sub(memory.seen.elapsed());
        let unmountable = stage.objects(|objects| objects.unmountable(&self.namespace, pod));
        // Written in any case: a pod whose containers run has been one whose containers were created.
        let creating = status::of(pod, status::Stage::Creating, &self.place, |_| None, &now());
        self.write(stage, pod, creating).await?;
        if let Some(why) = unmountable {
            if memory.complaint.as_ref() != Some(&why) {
                self.complain(stage, &why).await?;
                memory.complaint = Some(why);
            }
            return Ok(Some(Next::OnChange));
        }
        Ok(match (held, wait) {
            (true, _) => Some(Next::OnChange),
            (false, Duration::ZERO) => None,
            (false, wait) => Some(Next::After(wait)),
        })
    }

    async fn run(&self, stage: &Arc<Stage>, memory: &mut Memory) -> kube::Result<Next> {
        // Read anew: what was written in this step is part of it.
        let pod = self.pod();
        let ready = stage.sidecars.is_ready(&self.node, &self.uid);
        let left = self.time_left(stage, memory, ready);
        if left == Some(Duration::ZERO) {
            stage.sidecars.pod_ended(&self.node, &self.uid);
            let exit_code = stage.directed(|direction| direction.bootstrap_exit_code);
            let ended = status::of(&pod, status::Stage::Ended { exit_code }, &self.place, |_| None, &now());
            self.write(stage, &pod, ended).await?;
            return Ok(Next::OnChange);
        }
        let certificate = stage.objects(|objects| objects.certificate(&self.namespace, &pod));
        let transport = match &certificate {
            Ok(None) => Ok(Transport::Plain),
            Ok(Some(identity)) => Transport::tls(identity).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let broken = |one: &Container| self.broken(stage, one, transport.as_ref().err());
        let written = status::of(&pod, status::Stage::Started { ready }, &self.place, broken, &now());
        let up = status::runs(&written, container::SIDECAR) && status::runs(&written, container::PROXY);
        if up && let Ok(transport) = transport {
            self.serve(stage, memory, transport, certificate.ok().flatten());
        }
        self.write(stage, &pod, written).await?;
        Ok(left.map_or(Next::OnChange, Next::After))
    }

    /// How long a bootstrap pod's seid still runs, if it does: it has begun when its sidecar was ready.
    fn time_left(&self, stage: &Stage, memory: &mut Memory, ready: bool) -> Option<Duration> {
        if memory.ready.is_none() && self.is_bootstrap && ready {
            memory.ready = Some(Instant::now());
        }
        let takes = stage.directed(|direction| direction.bootstrap_takes);
        memory.ready.map(|since| takes.saturating_sub(since.elapsed()))
    }

    /// What is wrong with a container that is about to be started.
    fn broken(&self, stage: &Stage, one: &Container, certificate: Option<&String>) -> Option<Breakage> {
        let image = one.image.as_deref().unwrap_or_default();
        let image = stage.directed(|direction| direction.broken_images.get(image).cloned());
        let config = || stage.objects(|objects| objects.config_error(&self.namespace, one));
        let certificate =
            || certificate.filter(|_| one.name == container::PROXY).cloned().map(Breakage::CrashLoopBackOff);
        image.or_else(config).or_else(certificate)
    }

    /// Lets the sidecar live, and its proxy read a changed certificate.
    fn serve(
        &self,
        stage: &Arc<Stage>,
        memory: &mut Memory,
        transport: Transport,
        certificate: Option<Identity>,
    ) {
        let read = certificate.map(|identity| identity.certificate + &identity.key);
        if memory.certificate.is_some() && read != memory.certificate {
            stage.log.say(&self.node, "the proxy has read another certificate");
            stage.sidecars.certificate_changed(&self.node, &self.uid, transport.clone());
        }
        memory.certificate = read;
        stage.sidecars.pod_started(&self.node, &self.uid, transport);
    }

    async fn remove(&self, stage: &Stage, memory: &mut Memory) -> kube::Result<Next> {
        let since = *memory.deleted.get_or_insert_with(Instant::now);
        let wait = stage.directed(|direction| direction.remove_after).saturating_sub(since.elapsed());
        if !wait.is_zero() {
            return Ok(Next::After(wait));
        }
        stage.sidecars.pod_ended(&self.node, &self.uid);
        let only_this = Preconditions { uid: Some(self.uid.clone()), ..Preconditions::default() };
        let at_once = DeleteParams::default().grace_period(0).preconditions(only_this);
        let _turn = stage.turn().await;
        self.api(stage).delete(&self.name, &at_once).await?;
        stage.log.say(&self.node, format!("pod {} is removed", self.name));
        Ok(Next::OnChange)
    }

    /// Writes a status that differs from the one that was seen.
    async fn write(&self, stage: &Stage, pod: &Pod, status: PodStatus) -> kube::Result<()> {
        if pod.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let phase = status.phase.clone().unwrap_or_default();
        let patch = Patch::Merge(json!({"metadata": {"uid": self.uid}, "status": status}));
        let _turn = stage.turn().await;
        let written = self.api(stage).patch_status(&self.name, &PatchParams::default(), &patch).await?;
        stage.log.say(&self.node, format!("pod {} is {phase}", self.name));
        self.see(written);
        Ok(())
    }

    /// Says in an event what no status tells.
    async fn complain(&self, stage: &Stage, why: &str) -> kube::Result<()> {
        let now = now();
        let event = serde_json::from_value::<Event>(json!({
            "metadata": {"generateName": format!("{}.", self.name), "namespace": self.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod",
                "namespace": self.namespace, "name": self.name, "uid": self.uid,
            },
            "type": "Warning", "reason": "FailedMount", "message": why,
            "source": {"component": "kubelet", "host": stage.machine},
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        }))
        .map_err(kube::Error::SerdeError)?;
        let events: Api<Event> = Api::namespaced(stage.client.clone(), &self.namespace);
        let _turn = stage.turn().await;
        events.create(&PostParams::default(), &event).await?;
        stage.log.say(&self.node, format!("pod {}: {why}", self.name));
        Ok(())
    }

    fn api(&self, stage: &Stage) -> Api<Pod> {
        Api::namespaced(stage.client.clone(), &self.namespace)
    }
}

fn now() -> Time {
    Time(Timestamp::now())
}
