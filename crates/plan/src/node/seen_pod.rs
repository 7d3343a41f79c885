//! A pod as it was seen.

use std::time::Duration;

use api::names::container;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use super::seen::seen_of;

/// What is read of a pod: who it is, its images, whether its containers run, and why not. The rest of it is large, and changes
/// more often than what is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeenPod {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it is made of.
    pub spec: Option<SeenPodSpec>,
    /// What has become of it.
    pub status: Option<SeenPodStatus>,
}

seen_of!(SeenPod, Pod);

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SeenPodSpec {
    /// Containers that come first; sidecars are among them.
    pub init_containers: Vec<SeenContainer>,
    /// Containers.
    pub containers: Vec<SeenContainer>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenContainer {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: Option<String>,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SeenPodStatus {
    /// Its address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// What is said of it.
    pub conditions: Vec<SeenPodCondition>,
    /// What has become of the containers that come first.
    pub init_container_statuses: Vec<SeenContainerStatus>,
    /// What has become of its containers.
    pub container_statuses: Vec<SeenContainerStatus>,
}

/// What is said of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenPodCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it is so.
    pub status: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, in a sentence.
    pub message: Option<String>,
}

/// What has become of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenContainerStatus {
    /// Its name.
    pub name: String,
    /// Whether it waits, runs, or has ended.
    pub state: Option<ContainerState>,
    /// How it ended before it was started again.
    pub last_state: Option<ContainerState>,
}

impl SeenPod {
    /// Leaves out what is said about readiness, which changes often, and which nobody reads.
    pub fn forget_readiness(&mut self) {
        if let Some(status) = &mut self.status {
            status.conditions.retain(|condition| condition.type_ == SCHEDULED);
            status.conditions.shrink_to_fit();
        }
    }

    /// What has become of every container.
    fn containers(&self) -> impl Iterator<Item = &SeenContainerStatus> {
        let statuses = self.status.iter();
        statuses.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses))
    }

    /// Whether a container runs.
    pub(super) fn runs(&self, container: &str) -> bool {
        self.containers().any(|status| {
            status.name == container && status.state.as_ref().is_some_and(|state| state.running.is_some())
        })
    }

    /// The image of a container.
    pub(super) fn image_of(&self, container: &str) -> Option<&str> {
        let spec = self.spec.as_ref()?;
        let found = spec.init_containers.iter().chain(&spec.containers).find(|one| one.name == container)?;
        found.image.as_deref()
    }

    /// Why it does not come up, in its own words, if it says so.
    pub(super) fn trouble(&self) -> Option<String> {
        let found = self.waits().or_else(|| self.has_ended()).or_else(|| self.is_unscheduled());
        found.map(|text| text.trim_end_matches([':', ' ']).to_owned())
    }

    fn waits(&self) -> Option<String> {
        self.containers().find_map(|status| {
            let waiting = status.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.as_deref()?;
            // What every container goes through on its way.
            if matches!(reason, "ContainerCreating" | "PodInitializing") {
                return None;
            }
            let message = waiting.message.as_deref().unwrap_or_default();
            let image = self.image_of(&status.name).unwrap_or_default();
            let before = self.ended_before(status).map(|why| format!(": {why}")).unwrap_or_default();
            Some(format!("container {} (image {image}): {reason}: {message}{before}", status.name))
        })
    }

    /// Why seid, which runs, has ended a moment ago, unless somebody has ended it: one that ends again and again runs in between,
    /// and is not ready for that. Of sidecars more is known: they are asked.
    pub(super) fn relapse(&self, now: &Time) -> Option<String> {
        self.containers().filter(|status| status.name == container::SEID).find_map(|status| {
            let code = status.last_state.as_ref()?.terminated.as_ref()?.exit_code;
            if ON_REQUEST.contains(&code) {
                return None;
            }
            let since = status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?;
            let runs_for = Duration::try_from(now.0.duration_since(since.0)).unwrap_or_default();
            let why = self.ended_before(status)?;
            let image = self.image_of(&status.name).unwrap_or_default();
            let text = format!("container {} (image {image}): started again after {why}", status.name);
            (runs_for < PROVEN_AFTER).then_some(text)
        })
    }

    /// Why a container waits to be started again, if it has run.
    fn ended_before(&self, status: &SeenContainerStatus) -> Option<String> {
        let ended = status.last_state.as_ref()?.terminated.as_ref()?;
        let pod = self.metadata.name.as_deref().unwrap_or_default();
        let look = format!("`kubectl logs {pod} --container {} --previous` tells why", status.name);
        Some(ending(ended, &look))
    }

    /// The containers proper before those that only accompany them: the latter are ended once the former have.
    fn has_ended(&self) -> Option<String> {
        let statuses = self.status.as_ref()?;
        let proper_first = statuses.container_statuses.iter().chain(&statuses.init_container_statuses);
        proper_first.into_iter().find_map(|status| {
            let ended = status.state.as_ref()?.terminated.as_ref()?;
            (ended.exit_code != 0).then(|| format!("container {}: {}", status.name, ending(ended, "")))
        })
    }

    /// Whether a node was chosen for it.
    pub(super) fn is_scheduled(&self) -> bool {
        self.scheduled().is_some_and(|condition| condition.status == "True")
    }

    fn scheduled(&self) -> Option<&SeenPodCondition> {
        self.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == SCHEDULED)
    }

    fn is_unscheduled(&self) -> Option<String> {
        let scheduled = self.scheduled()?;
        (scheduled.status == "False").then(|| {
            let reason = scheduled.reason.as_deref().unwrap_or("Unschedulable");
            format!("{reason}: {}", scheduled.message.as_deref().unwrap_or_default())
        })
    }
}

const SCHEDULED: &str = "PodScheduled";

/// Codes of those who end because they were asked to.
const ON_REQUEST: [i32; 3] = [0, 130, 143];

/// How long a seid that had ended must run to be believed. One that cannot start ends within seconds.
const PROVEN_AFTER: Duration = Duration::from_secs(60);

/// How much of a container's last words is told. Kubernetes keeps up to 80 lines of its log.
const LAST_LINES: usize = 3;
const LAST_CHARACTERS: usize = 600;

/// How a container ended, with its last words, or what stands for them when it had none.
fn ending(ended: &ContainerStateTerminated, otherwise: &str) -> String {
    let reason = ended.reason.as_deref().unwrap_or("Error");
    let said = last_words(ended.message.as_deref().unwrap_or_default());
    let said = if said.is_empty() { otherwise } else { &said };
    format!("{reason}, exit code {}: {said}", ended.exit_code)
}

/// The end of what a container said, in one line.
fn last_words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ");
    let beyond = last.chars().count().saturating_sub(LAST_CHARACTERS);
    if beyond == 0 { last } else { format!("...{}", last.chars().skip(beyond).collect::<String>()) }
}
