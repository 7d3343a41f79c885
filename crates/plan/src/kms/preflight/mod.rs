//! Preflight check of a KMS configuration: pods try it before a key is created for it. The operator requests a check by the hash of
//! the configuration, and the controller stores the result for that hash.

mod candidate;
mod nodes;
mod pod;
mod workload;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

pub use self::candidate::build_candidate;
pub use self::nodes::schedulable_nodes;
pub use self::pod::{PodResult, PreflightPod};
pub use self::workload::{
    PreflightPodConfig, PreflightWorkload, render_pods, render_role, render_role_binding,
    render_service_account,
};

/// Time within which a pod must report a result.
pub const RESULT_TIMEOUT: Duration = Duration::from_secs(180);

/// Requeue delay while waiting.
pub const REQUEUE_AFTER: Duration = Duration::from_secs(30);

/// Default delays before a failed configuration is checked again, because a KMS outage ends without a configuration change. The last
/// delay applies to all further attempts.
pub const RETRY_AFTER: [Duration; 3] =
    [Duration::from_secs(60), Duration::from_secs(5 * 60), Duration::from_secs(15 * 60)];

/// Configuration to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedCheck {
    /// Hash in the operator resource.
    pub hash: String,
    /// Collision-resistant fingerprint. `None`: there is no pod to compare it with.
    pub fingerprint: Option<String>,
}

/// Stored result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResult {
    /// Whether the check succeeded.
    pub succeeded: bool,
    /// Hash of the checked configuration.
    pub hash: String,
}

/// Observed state.
#[derive(Clone, Debug)]
pub struct PreflightInput<'a> {
    /// Configuration to check; `None` if no check is required.
    pub requested: Option<&'a RequestedCheck>,
    /// Stored result.
    pub stored: Option<&'a StoredResult>,
    /// Pods of the check.
    pub pods: &'a [PreflightPod],
    /// Value of the retry annotation.
    pub retry: Option<&'a str>,
    /// Value of the retry annotation that this process last handled.
    pub handled_retry: Option<&'a str>,
    /// Attempt whose pods are not created yet, because the pods of the previous attempt had to be deleted first.
    pub pending_attempt: Option<u32>,
    /// Time at which a failure was first observed, if no pod has its time.
    pub failed_since: Option<Timestamp>,
    /// Delays before each retry; the last one applies to all further attempts.
    pub retry_after: &'a [Duration],
    /// Current time.
    pub now: Timestamp,
}

/// Action on the pods of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreflightAction {
    /// No action.
    Nothing,
    /// Delete pods and Secret.
    CleanUp,
    /// Create the pods of an attempt.
    Deploy {
        /// Attempt number, starting at 1.
        attempt: u32,
    },
}

/// Reason and message of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightProblem {
    /// CamelCase reason.
    pub reason: String,
    /// Message.
    pub message: String,
}

/// Result to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// Whether the check succeeded.
    pub succeeded: bool,
    /// ID of the KMS key, if the plugin returned one.
    pub remote_key_id: Option<String>,
}

/// Decision of one reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Action.
    pub action: PreflightAction,
    /// Result to store for the hash.
    pub result: Option<CheckResult>,
    /// Problem to report in the degraded condition.
    pub degraded: Option<PreflightProblem>,
    /// Message of the progressing condition.
    pub progressing: Option<String>,
    /// Requeue delay.
    pub requeue_after: Option<Duration>,
}

impl Decision {
    fn idle() -> Self {
        Self {
            action: PreflightAction::Nothing,
            result: None,
            degraded: None,
            progressing: None,
            requeue_after: None,
        }
    }

    fn act(action: PreflightAction) -> Self {
        Self { action, ..Self::idle() }
    }

    fn waiting(action: PreflightAction, what: impl Into<String>) -> Self {
        Self { progressing: Some(what.into()), requeue_after: Some(REQUEUE_AFTER), ..Self::act(action) }
    }
}

/// Decides what to do next. Pods are matched by hash first, because the result of another configuration is irrelevant.
#[must_use]
pub fn decide(input: &PreflightInput<'_>) -> Decision {
    let PreflightInput { requested, stored, pods, .. } = input;
    let clean_up = || if pods.is_empty() { PreflightAction::Nothing } else { PreflightAction::CleanUp };
    let Some(requested) = requested else { return Decision::act(clean_up()) };
    let stored = stored.filter(|stored| stored.hash == requested.hash);
    if stored.is_some_and(|stored| stored.succeeded) {
        return Decision::act(clean_up());
    }
    if pods.iter().any(|pod| pod.is_terminating) {
        return Decision::waiting(
            PreflightAction::Nothing,
            "waiting for the pods of a previous check to terminate",
        );
    }
    if pods.iter().any(|pod| !pod.checks(requested)) {
        return Decision::waiting(
            PreflightAction::CleanUp,
            "the configuration changed: restarting the check",
        );
    }
    if pods.is_empty() {
        return match (stored, input.pending_attempt) {
            (_, Some(attempt)) => {
                Decision::waiting(PreflightAction::Deploy { attempt }, "starting the check")
            }
            (Some(_), None) => failed_without_pod(input),
            (None, None) => Decision::waiting(PreflightAction::Deploy { attempt: 1 }, "starting the check"),
        };
    }
    if pods.iter().any(|pod| pod.pod_count > pods.len()) && failures(pods).is_empty() {
        // A pod was not created or was deleted. The other pods do not cover its node.
        let attempt = pods.iter().map(|pod| pod.attempt).max().unwrap_or(1);
        return Decision::waiting(
            PreflightAction::Deploy { attempt },
            "a pod of the check is missing: restarting the check",
        );
    }
    evaluate_pods(input, stored.is_some())
}

/// Decides after a stored failure whose pods no longer exist.
fn failed_without_pod(input: &PreflightInput<'_>) -> Decision {
    let since = input.failed_since.unwrap_or(input.now);
    let delay = retry_delay(input, u32::MAX);
    let wait = remaining(since, delay, input.now);
    if retry_requested(input, None) || wait.is_zero() {
        return Decision::waiting(PreflightAction::Deploy { attempt: 1 }, "retrying the check");
    }
    let message = format!("the check of this configuration failed; next attempt after {delay:?}");
    Decision {
        degraded: Some(problem("PreflightCheckFailed", message)),
        requeue_after: Some(wait),
        ..Decision::idle()
    }
}

/// Returns the pods that reported a failure, with their messages.
fn failures(pods: &[PreflightPod]) -> Vec<(&PreflightPod, String)> {
    let failed = |pod: &PreflightPod| match &pod.result {
        Some(PodResult { succeeded: false, message, .. }) => Some(pod.with_node(message)),
        _ => None,
    };
    pods.iter().filter_map(|pod| Some((pod, failed(pod)?))).collect()
}

/// Evaluates the pods of the current configuration. A reported result takes precedence over the exit status.
fn evaluate_pods(input: &PreflightInput<'_>, is_stored: bool) -> Decision {
    let pods = input.pods;
    let failures = failures(pods);
    if let Some((first, _)) = failures.first() {
        let id = failures.iter().find_map(|(pod, _)| pod.remote_key_id.clone());
        let result = (!is_stored).then_some(CheckResult { succeeded: false, remote_key_id: id });
        let all: Vec<&str> = failures.iter().map(|(_, why)| why.as_str()).collect();
        return Decision {
            result,
            ..after_failed_attempt(input, first, "PreflightCheckFailed", &all.join("; "))
        };
    }
    if let Some((pod, end)) = pods.iter().find_map(|pod| pod.ended_without_result().map(|end| (pod, end))) {
        return after_failed_attempt(input, pod, &end.reason, &pod.with_node(&end.message));
    }
    if pods.iter().all(|pod| pod.result.is_some()) {
        let remote_key_id = pods.iter().find_map(|pod| pod.remote_key_id.clone());
        let result = Some(CheckResult { succeeded: true, remote_key_id });
        return Decision { result, ..Decision::act(PreflightAction::CleanUp) };
    }
    let waiting = Decision::waiting(PreflightAction::Nothing, "waiting for the result of the check");
    let late = pods.iter().filter(|pod| pod.result.is_none()).find_map(|pod| {
        let PreflightProblem { reason, message } = pod.overdue_problem(input.now)?;
        Some(PreflightProblem { reason, message: pod.with_node(&message) })
    });
    Decision { degraded: late, ..waiting }
}

/// Decides after a failed attempt. Its pods are kept for inspection until the next attempt.
fn after_failed_attempt(input: &PreflightInput<'_>, pod: &PreflightPod, reason: &str, why: &str) -> Decision {
    let delay = retry_delay(input, pod.attempt);
    let since = pod.ended_at().or(input.failed_since).unwrap_or(input.now);
    let wait = remaining(since, delay, input.now);
    let next = pod.attempt.saturating_add(1);
    // The delay, not the remaining time: a message that changes with every reconcile would cause a write each time.
    let message = format!("{why} (attempt {}; next attempt after {delay:?})", pod.attempt);
    let degraded = Some(problem(reason, message));
    if wait.is_zero() || retry_requested(input, Some(pod)) {
        let act = PreflightAction::Deploy { attempt: next };
        return Decision { degraded, ..Decision::waiting(act, "retrying the check") };
    }
    Decision { degraded, requeue_after: Some(wait), ..Decision::idle() }
}

/// Returns the delay after an attempt.
fn retry_delay(input: &PreflightInput<'_>, attempt: u32) -> Duration {
    let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    let delays = input.retry_after;
    delays.get(index).or(delays.last()).copied().unwrap_or(RETRY_AFTER[RETRY_AFTER.len() - 1])
}

/// Reports whether the retry annotation requests another attempt.
fn retry_requested(input: &PreflightInput<'_>, pod: Option<&PreflightPod>) -> bool {
    let Some(value) = input.retry.filter(|value| !value.is_empty()) else { return false };
    let handled = pod.map_or(input.handled_retry, |pod| pod.retry.as_deref());
    handled != Some(value)
}

fn remaining(since: Timestamp, delay: Duration, now: Timestamp) -> Duration {
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    delay.saturating_sub(elapsed)
}

fn problem(reason: &str, message: String) -> PreflightProblem {
    PreflightProblem { reason: reason.into(), message }
}

#[cfg(test)]
mod tests;
