//! Observed state of a preflight pod.

use std::time::Duration;

use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use k8s_openapi::jiff::Timestamp;

use super::{PreflightProblem, RESULT_TIMEOUT, RequestedCheck};

/// Observed preflight pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreflightPod {
    /// Hash of the configuration it checks.
    pub hash: Option<String>,
    /// Fingerprint of the configuration it checks.
    pub fingerprint: Option<String>,
    /// Attempt number, starting at 1.
    pub attempt: u32,
    /// Number of pods of this attempt.
    pub pod_count: usize,
    /// Node it is pinned to, if there is one pod per node.
    pub node: Option<String>,
    /// Retry annotation that requested this attempt.
    pub retry: Option<String>,
    /// Whether it has a deletion timestamp.
    pub is_terminating: bool,
    /// Phase.
    pub phase: String,
    /// Start, scheduling or creation time.
    pub started_at: Option<Timestamp>,
    /// Time at which its last container terminated.
    pub finished_at: Option<Timestamp>,
    /// Reported result.
    pub result: Option<PodResult>,
    /// Hash reported with the result.
    pub posted_hash: Option<String>,
    /// Reported ID of the KMS key.
    pub remote_key_id: Option<String>,
    /// Waiting container.
    pub waiting: Option<PreflightProblem>,
    /// Failed container or pod.
    pub failure: Option<PreflightProblem>,
}

/// Result reported by a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodResult {
    /// Whether the check succeeded.
    pub succeeded: bool,
    /// Failure message.
    pub message: String,
    /// Time of the report.
    pub reported_at: Option<Timestamp>,
}

impl PreflightPod {
    /// Reads the state of a pod.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Self {
        let annotation =
            |name: &str| pod.metadata.annotations.as_ref().and_then(|all| all.get(name)).cloned();
        let status = pod.status.clone().unwrap_or_default();
        let condition = |name: &str| {
            let all = status.conditions.iter().flatten();
            all.into_iter().find(|condition| condition.type_ == name)
        };
        let message = |name: &str| condition(name).and_then(|condition| condition.message.clone());
        let result = condition(names::RESULT).map(|condition| PodResult {
            succeeded: condition.status == "True",
            message: condition.message.clone().unwrap_or_default(),
            reported_at: condition.last_transition_time.as_ref().map(|time| time.0),
        });
        let scheduled =
            condition("PodScheduled").and_then(|condition| condition.last_transition_time.clone());
        let started_at = status.start_time.clone().or(scheduled).map(|time| time.0);
        Self {
            hash: annotation(names::HASH_ANNOTATION),
            fingerprint: annotation(names::FINGERPRINT_ANNOTATION),
            attempt: annotation(names::ATTEMPT_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(1),
            pod_count: annotation(names::PODS_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(1),
            node: pinned_node(pod),
            retry: annotation(names::RETRY_ANNOTATION),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            phase: status.phase.clone().unwrap_or_default(),
            started_at: started_at.or(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
            finished_at: finished(&status),
            posted_hash: message(names::CONFIG_HASH),
            remote_key_id: message(names::REMOTE_KEY_ID).filter(|id| !id.is_empty()),
            result,
            waiting: waiting(&status),
            failure: ended(&status),
        }
    }

    /// Prefixes a message with the node of the pod.
    pub(super) fn with_node(&self, message: &str) -> String {
        self.node.as_ref().map_or_else(|| message.to_owned(), |node| format!("node {node}: {message}"))
    }

    /// Reports whether the pod checks this configuration, by hash and fingerprint.
    pub(super) fn checks(&self, wanted: &RequestedCheck) -> bool {
        self.hash.as_ref() == Some(&wanted.hash)
            && self.posted_hash.as_ref().is_none_or(|posted| *posted == wanted.hash)
            && wanted.fingerprint.as_ref().is_none_or(|wanted| self.fingerprint.as_ref() == Some(wanted))
    }

    /// Returns the problem of a pod that terminated without a result.
    pub(super) fn ended_without_result(&self) -> Option<PreflightProblem> {
        if self.result.is_some() {
            return None;
        }
        let unknown =
            |reason: &str, message: &str| PreflightProblem { reason: reason.into(), message: message.into() };
        match self.phase.as_str() {
            "Failed" => Some(self.failure.clone().unwrap_or_else(|| unknown("Unknown", "the pod failed"))),
            "Succeeded" => {
                Some(unknown("PodCompletedWithoutResult", "the pod completed without reporting a result"))
            }
            _ => None,
        }
    }

    /// Returns the time of the result or termination.
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        self.result.as_ref().and_then(|result| result.reported_at).or(self.finished_at)
    }

    /// Returns the problem of a pod without a result after [`RESULT_TIMEOUT`].
    pub(super) fn overdue_problem(&self, now: Timestamp) -> Option<PreflightProblem> {
        let elapsed = Duration::try_from(now.duration_since(self.started_at?)).unwrap_or_default();
        if elapsed <= RESULT_TIMEOUT {
            return None;
        }
        let unknown = PreflightProblem {
            reason: "PreflightTimeout".into(),
            message: format!("the pod reported no result within {} s", RESULT_TIMEOUT.as_secs()),
        };
        Some(self.waiting.clone().unwrap_or(unknown))
    }
}

/// Returns the node that a pod is pinned to.
fn pinned_node(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    terms.first()?.match_fields.as_ref()?.first()?.values.as_ref()?.first().cloned()
}

/// Iterates over containers in start order. Plugins are init containers: if one does not start, the others only report that they
/// are waiting.
fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

fn waiting(status: &PodStatus) -> Option<PreflightProblem> {
    containers(status).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.clone().filter(|reason| !reason.is_empty())?;
        let why = waiting.message.clone().unwrap_or_else(|| reason.clone());
        Some(PreflightProblem { reason, message: format!("container {} is waiting: {why}", status.name) })
    })
}

fn ended(status: &PodStatus) -> Option<PreflightProblem> {
    let container = containers(status).find_map(|status| {
        let terminated = status.state.as_ref()?.terminated.as_ref().filter(|state| state.exit_code != 0)?;
        let reason = terminated.reason.clone().filter(|reason| !reason.is_empty()).unwrap_or("Error".into());
        let detail =
            terminated.message.as_deref().map(|text| format!(": {}", text.trim())).unwrap_or_default();
        let message = format!("container {} exited with code {}{detail}", status.name, terminated.exit_code);
        Some(PreflightProblem { reason, message })
    });
    let pod = || {
        let reason = status.reason.clone().filter(|reason| !reason.is_empty())?;
        let message = status.message.clone().unwrap_or_else(|| reason.clone());
        Some(PreflightProblem { reason, message })
    };
    container.or_else(pod)
}

fn finished(status: &PodStatus) -> Option<Timestamp> {
    let ends = containers(status).filter_map(|status| {
        let terminated = status.state.as_ref()?.terminated.as_ref()?;
        Some(terminated.finished_at.as_ref()?.0)
    });
    ends.max()
}
