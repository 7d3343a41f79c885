//! An observed pod.

use std::time::Duration;

use api::names::{annotation, container, object};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use super::partial::partial_resource;
use crate::node::deadline::elapsed;

/// The fields of a pod that the operator reads: metadata, images, mounted Secrets and claims, and the states of its containers. The
/// rest is large and changes more often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedPod {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: Option<ObservedPodSpec>,
    /// The status.
    pub status: Option<ObservedPodStatus>,
}

partial_resource!(ObservedPod, Pod);

/// The fields of a pod spec that the operator reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedPodSpec {
    /// Init containers, including sidecar containers.
    pub init_containers: Vec<ObservedContainer>,
    /// Containers.
    pub containers: Vec<ObservedContainer>,
    /// The volumes that are Secrets or claims.
    pub volumes: Vec<ObservedVolume>,
}

/// A volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedVolume {
    name: String,
    secret: Option<SecretSource>,
    persistent_volume_claim: Option<ClaimSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecretSource {
    secret_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: String,
}

impl ObservedVolume {
    /// Returns the name of the volume.
    pub(in crate::node) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the Secret that the volume is made of.
    #[must_use]
    pub fn secret_name(&self) -> Option<&str> {
        self.secret.as_ref()?.secret_name.as_deref()
    }

    /// Returns the name of the claim that the volume is bound by.
    #[must_use]
    pub fn claim_name(&self) -> Option<&str> {
        self.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str())
    }
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedContainer {
    /// The name.
    pub name: String,
    /// The image.
    pub image: Option<String>,
    /// The arguments. Other than the image and annotations of a pod, they cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// The argument of the proxy with the audiences that it accepts.
const AUDIENCES_ARGUMENT: &str = "--auth-token-audiences=";

/// The fields of a pod status that the operator reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedPodStatus {
    /// The IP address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// The conditions.
    pub conditions: Vec<ObservedPodCondition>,
    /// The states of the init containers.
    pub init_container_statuses: Vec<ObservedContainerStatus>,
    /// The states of the containers.
    pub container_statuses: Vec<ObservedContainerStatus>,
}

/// A condition of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedPodCondition {
    /// The type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason.
    pub reason: Option<String>,
    /// The message.
    pub message: Option<String>,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedContainerStatus {
    /// The name of the container.
    pub name: String,
    /// Its readiness probe succeeds.
    #[serde(default)]
    pub ready: bool,
    /// The current state.
    pub state: Option<ContainerState>,
    /// How it terminated before its last restart.
    pub last_state: Option<ContainerState>,
}

impl ObservedPod {
    /// Drops what is never read: the conditions about readiness, which change often, all volumes but Secrets and claims, and all
    /// arguments but the audience of the proxy.
    pub fn prune(&mut self) {
        if let Some(spec) = &mut self.spec {
            for container in spec.init_containers.iter_mut().chain(&mut spec.containers) {
                container.args.retain(|argument| argument.starts_with(AUDIENCES_ARGUMENT));
                container.args.shrink_to_fit();
            }
            spec.volumes.retain(|volume| volume.secret_name().is_some() || volume.claim_name().is_some());
            spec.volumes.shrink_to_fit();
        }
        if let Some(status) = &mut self.status {
            status.conditions.retain(|condition| condition.type_ == POD_SCHEDULED);
            status.conditions.shrink_to_fit();
        }
    }

    /// Returns the volumes that are Secrets or claims.
    #[must_use]
    pub fn volumes(&self) -> &[ObservedVolume] {
        self.spec.as_ref().map(|spec| spec.volumes.as_slice()).unwrap_or_default()
    }

    /// Returns the audience of the tokens that the proxy accepts, as the pod is annotated, else as its proxy was started: a client that
    /// removes the annotation must not get the token for pods of previous versions. The proxies of those have no audience, or one that
    /// they share.
    #[must_use]
    pub fn sidecar_audience(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref();
        let annotated = annotations.and_then(|all| all.get(annotation::SIDECAR_AUDIENCE)).map(String::as_str);
        annotated
            .or_else(|| self.audience_argument().filter(|audience| object::is_sidecar_audience(audience)))
    }

    fn audience_argument(&self) -> Option<&str> {
        let containers = &self.spec.as_ref()?.init_containers;
        let proxy = containers.iter().find(|one| one.name == container::PROXY)?;
        proxy.args.iter().find_map(|argument| argument.strip_prefix(AUDIENCES_ARGUMENT))
    }

    /// Returns the state of every container.
    fn container_statuses(&self) -> impl Iterator<Item = &ObservedContainerStatus> {
        let statuses = self.status.iter();
        statuses.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses))
    }

    /// Returns whether a container is running.
    pub(in crate::node) fn is_running(&self, container: &str) -> bool {
        self.container_statuses().any(|status| {
            status.name == container && status.state.as_ref().is_some_and(|state| state.running.is_some())
        })
    }

    /// Returns whether a container is ready.
    pub(in crate::node) fn is_ready(&self, container: &str) -> bool {
        self.container_statuses().any(|status| status.name == container && status.ready)
    }

    /// Returns the image of a container.
    pub(in crate::node) fn image_of(&self, container: &str) -> Option<&str> {
        let spec = self.spec.as_ref()?;
        let found = spec.init_containers.iter().chain(&spec.containers).find(|one| one.name == container)?;
        found.image.as_deref()
    }

    /// Returns why the pod does not start, as its containers and conditions report it.
    pub(in crate::node) fn failure(&self) -> Option<String> {
        let found = self
            .waiting_failure()
            .or_else(|| self.terminated_failure())
            .or_else(|| self.scheduling_failure());
        found.map(|text| text.trim_end_matches([':', ' ']).to_owned())
    }

    fn waiting_failure(&self) -> Option<String> {
        self.container_statuses().find_map(|status| {
            let waiting = status.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.as_deref()?;
            // Every container passes through these states.
            if matches!(reason, "ContainerCreating" | "PodInitializing") {
                return None;
            }
            let message = waiting.message.as_deref().unwrap_or_default();
            let image = self.image_of(&status.name).unwrap_or_default();
            let cause = self.last_termination(status).map(|cause| format!(": {cause}")).unwrap_or_default();
            Some(format!("container {} (image {image}): {reason}: {message}{cause}", status.name))
        })
    }

    /// Returns why seid, which is running, was restarted a moment ago. In a crash loop seid runs between two crashes,
    /// and must not count as ready for that. Terminations on request do not count. Sidecars are excluded: they are
    /// probed.
    pub(in crate::node) fn recent_crash(&self, now: &Time) -> Option<String> {
        self.container_statuses().filter(|status| status.name == container::SEID).find_map(|status| {
            let code = status.last_state.as_ref()?.terminated.as_ref()?.exit_code;
            if REQUESTED_EXIT_CODES.contains(&code) {
                return None;
            }
            let since = status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?;
            let running_for = elapsed(since, now);
            let cause = self.last_termination(status)?;
            let image = self.image_of(&status.name).unwrap_or_default();
            let text = format!("container {} (image {image}): restarted after {cause}", status.name);
            (running_for < STABLE_AFTER).then_some(text)
        })
    }

    /// Describes how a container terminated before its last restart.
    fn last_termination(&self, status: &ObservedContainerStatus) -> Option<String> {
        let terminated = status.last_state.as_ref()?.terminated.as_ref()?;
        let pod = self.metadata.name.as_deref().unwrap_or_default();
        let hint = format!("see `kubectl logs {pod} --container {} --previous`", status.name);
        Some(describe_termination(terminated, &hint))
    }

    /// Main containers come before sidecar containers, which are terminated once the main containers have exited.
    fn terminated_failure(&self) -> Option<String> {
        let status = self.status.as_ref()?;
        let main_first = status.container_statuses.iter().chain(&status.init_container_statuses);
        main_first.into_iter().find_map(|status| {
            let terminated = status.state.as_ref()?.terminated.as_ref()?;
            (terminated.exit_code != 0)
                .then(|| format!("container {}: {}", status.name, describe_termination(terminated, "")))
        })
    }

    /// Returns whether the pod is scheduled.
    pub(in crate::node) fn is_scheduled(&self) -> bool {
        self.scheduled_condition().is_some_and(|condition| condition.status == "True")
    }

    fn scheduled_condition(&self) -> Option<&ObservedPodCondition> {
        self.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == POD_SCHEDULED)
    }

    fn scheduling_failure(&self) -> Option<String> {
        let scheduled = self.scheduled_condition()?;
        (scheduled.status == "False").then(|| {
            let reason = scheduled.reason.as_deref().unwrap_or("Unschedulable");
            format!("{reason}: {}", scheduled.message.as_deref().unwrap_or_default())
        })
    }
}

const POD_SCHEDULED: &str = "PodScheduled";

/// Exit codes of processes that terminate on request: 0, SIGINT and SIGTERM.
const REQUESTED_EXIT_CODES: [i32; 3] = [0, 130, 143];

/// How long seid must run after a crash to count as stable. A seid that cannot start exits within seconds.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// How much of a termination message is reported. Kubernetes keeps up to 80 lines of the log.
const MESSAGE_LINES: usize = 3;
const MESSAGE_CHARACTERS: usize = 600;

/// Describes how a container terminated, with the end of its message, or a hint if it left none.
fn describe_termination(terminated: &ContainerStateTerminated, hint: &str) -> String {
    let reason = terminated.reason.as_deref().unwrap_or("Error");
    let message = message_tail(terminated.message.as_deref().unwrap_or_default());
    let message = if message.is_empty() { hint } else { &message };
    format!("{reason}, exit code {}: {message}", terminated.exit_code)
}

/// Returns the last lines of a termination message, in one line.
fn message_tail(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(MESSAGE_LINES)..].join(" | ");
    let excess = tail.chars().count().saturating_sub(MESSAGE_CHARACTERS);
    if excess == 0 { tail } else { format!("...{}", tail.chars().skip(excess).collect::<String>()) }
}
