//! What is seen of a pod that checks a configuration.

use std::time::Duration;

use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use k8s_openapi::jiff::Timestamp;

use super::{START_WITHIN, Trouble, Wanted};

/// What is seen of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenPod {
    /// The hash of what it checks.
    pub hash: Option<String>,
    /// The fingerprint of what it checks.
    pub fingerprint: Option<String>,
    /// Which try it is, from 1.
    pub attempt: u32,
    /// How many pods make this try.
    pub of: usize,
    /// The node it runs on, if it is one of several.
    pub node: Option<String>,
    /// The value by which this try was asked for.
    pub retry: Option<String>,
    /// Whether it is being deleted.
    pub is_leaving: bool,
    /// Its phase.
    pub phase: String,
    /// Since when it should be running.
    pub begun: Option<Timestamp>,
    /// When its last container ended.
    pub finished: Option<Timestamp>,
    /// What it has found.
    pub result: Option<Reported>,
    /// The hash that it posted with its result.
    pub posted_hash: Option<String>,
    /// The id of the key in the KMS that it posted.
    pub remote_key_id: Option<String>,
    /// What it waits for.
    pub waiting: Option<Trouble>,
    /// How it ended, if in error.
    pub ended: Option<Trouble>,
}

/// A result that a pod posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Whether the check succeeded.
    pub succeeded: bool,
    /// Why not.
    pub message: String,
    /// When it was posted.
    pub at: Option<Timestamp>,
}

impl SeenPod {
    /// Looks at a pod.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let annotation =
            |name: &str| pod.metadata.annotations.as_ref().and_then(|all| all.get(name)).cloned();
        let status = pod.status.clone().unwrap_or_default();
        let condition = |name: &str| {
            let all = status.conditions.iter().flatten();
            all.into_iter().find(|condition| condition.type_ == name)
        };
        let message = |name: &str| condition(name).and_then(|condition| condition.message.clone());
        let result = condition(names::RESULT).map(|condition| Reported {
            succeeded: condition.status == "True",
            message: condition.message.clone().unwrap_or_default(),
            at: condition.last_transition_time.as_ref().map(|time| time.0),
        });
        let scheduled =
            condition("PodScheduled").and_then(|condition| condition.last_transition_time.clone());
        let begun = status.start_time.clone().or(scheduled).map(|time| time.0);
        Self {
            hash: annotation(names::HASH_ANNOTATION),
            fingerprint: annotation(names::FINGERPRINT_ANNOTATION),
            attempt: annotation(names::ATTEMPT_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(1),
            of: annotation(names::PODS_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(1),
            node: wanted_node(pod),
            retry: annotation(names::RETRY_ANNOTATION),
            is_leaving: pod.metadata.deletion_timestamp.is_some(),
            phase: status.phase.clone().unwrap_or_default(),
            begun: begun.or(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
            finished: finished(&status),
            posted_hash: message(names::CONFIG_HASH),
            remote_key_id: message(names::REMOTE_KEY_ID).filter(|id| !id.is_empty()),
            result,
            waiting: waiting(&status),
            ended: ended(&status),
        }
    }

    /// What is said of it, with its node.
    pub(super) fn says(&self, what: &str) -> String {
        self.node.as_ref().map_or_else(|| what.to_owned(), |node| format!("node {node}: {what}"))
    }

    /// Whether it checks what is wanted, and nothing that only looks like it.
    pub(super) fn checks(&self, wanted: &Wanted) -> bool {
        self.hash.as_ref() == Some(&wanted.hash)
            && self.posted_hash.as_ref().is_none_or(|posted| *posted == wanted.hash)
            && wanted.fingerprint.as_ref().is_none_or(|wanted| self.fingerprint.as_ref() == Some(wanted))
    }

    /// How it ended, if it ended and said nothing.
    pub(super) fn ended_without_result(&self) -> Option<Trouble> {
        if self.result.is_some() {
            return None;
        }
        let unknown =
            |reason: &str, message: &str| Trouble { reason: reason.into(), message: message.into() };
        match self.phase.as_str() {
            "Failed" => Some(self.ended.clone().unwrap_or_else(|| unknown("Unknown", "the pod failed"))),
            "Succeeded" => {
                Some(unknown("PodCompletedWithoutResult", "the pod ended without saying what it found"))
            }
            _ => None,
        }
    }

    /// When it was over with it.
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        self.result.as_ref().and_then(|result| result.at).or(self.finished)
    }

    /// What it waits for, if that takes too long.
    pub(super) fn late(&self, now: Timestamp) -> Option<Trouble> {
        let passed = Duration::try_from(now.duration_since(self.begun?)).unwrap_or_default();
        if passed <= START_WITHIN {
            return None;
        }
        let unknown = Trouble {
            reason: "PreflightTimeout".into(),
            message: format!("the pod has no result after {} s", START_WITHIN.as_secs()),
        };
        Some(self.waiting.clone().unwrap_or(unknown))
    }
}

/// The node that a pod was made for.
fn wanted_node(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    terms.first()?.match_fields.as_ref()?.first()?.values.as_ref()?.first().cloned()
}

/// Containers in the order in which they start. Plugins are init containers: what keeps them from starting keeps all others
/// waiting, which would only tell that they wait.
fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

fn waiting(status: &PodStatus) -> Option<Trouble> {
    containers(status).find_map(|one| {
        let waiting = one.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.clone().filter(|reason| !reason.is_empty())?;
        let why = waiting.message.clone().unwrap_or_else(|| reason.clone());
        Some(Trouble { reason, message: format!("container {} waits: {why}", one.name) })
    })
}

fn ended(status: &PodStatus) -> Option<Trouble> {
    let container = containers(status).find_map(|one| {
        let ended = one.state.as_ref()?.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
        let reason = ended.reason.clone().filter(|reason| !reason.is_empty()).unwrap_or("Error".into());
        let said = ended.message.as_deref().map(|said| format!(": {}", said.trim())).unwrap_or_default();
        let message = format!("container {} ended with {}{said}", one.name, ended.exit_code);
        Some(Trouble { reason, message })
    });
    let pod = || {
        let reason = status.reason.clone().filter(|reason| !reason.is_empty())?;
        let message = status.message.clone().unwrap_or_else(|| reason.clone());
        Some(Trouble { reason, message })
    };
    container.or_else(pod)
}

fn finished(status: &PodStatus) -> Option<Timestamp> {
    let ends = containers(status).filter_map(|one| {
        let ended = one.state.as_ref()?.terminated.as_ref()?;
        Some(ended.finished_at.as_ref()?.0)
    });
    ends.max()
}
