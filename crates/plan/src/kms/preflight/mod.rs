//! Whether a KMS configuration may be used: it is tried in a pod before a key is made for it. Two parties agree by a hash: one
//! asks for a configuration to be checked, the other says what it has proved.

mod candidate;
mod nodes;
mod seen;
mod workload;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

pub use self::candidate::candidate;
pub use self::nodes::usable;
pub use self::seen::{Reported, SeenPod};
pub use self::workload::{Place, Workload, pods, role, role_binding, service_account};

/// How long a pod may take until it has a result.
pub const START_WITHIN: Duration = Duration::from_secs(180);

/// How soon to look again while something is awaited.
pub const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The usual waits before a configuration that failed is tried again: an outage of the KMS ends without anybody changing the
/// configuration. The last one is that of all later tries.
pub const RETRY_AFTER: [Duration; 3] =
    [Duration::from_secs(60), Duration::from_secs(5 * 60), Duration::from_secs(15 * 60)];

/// A configuration that is to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its hash, as the operator's resource has it.
    pub hash: String,
    /// Its fingerprint, which is not met by chance. Absent: there is no pod whose fingerprint could be compared.
    pub fingerprint: Option<String>,
}

/// A result as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Whether the check succeeded.
    pub succeeded: bool,
    /// What was checked.
    pub hash: String,
}

/// Everything that is known.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// What is to be checked; nothing if no check is required.
    pub wanted: Option<&'a Wanted>,
    /// The result that is stored.
    pub stored: Option<&'a Stored>,
    /// The pods of the check.
    pub pods: &'a [SeenPod],
    /// The value by which another try is asked for.
    pub retry: Option<&'a str>,
    /// The value for which a try was last made, by this process.
    pub honoured: Option<&'a str>,
    /// The try that was decided on, and whose pods are not made yet: those before it had to go first.
    pub begun: Option<u32>,
    /// Since when a failure is known that no pod tells the time of.
    pub failed_since: Option<Timestamp>,
    /// Waits before each further try of what has failed; the last one is that of all later tries.
    pub retry_after: &'a [Duration],
    /// The time.
    pub now: Timestamp,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// Remove pods and Secret.
    CleanUp,
    /// Make the pods, as this try.
    Deploy {
        /// Which one, from 1.
        attempt: u32,
    },
}

/// What is wrong: a reason and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// A result that is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proved {
    /// Whether the check succeeded.
    pub succeeded: bool,
    /// Id of the key in the KMS, if the plugin gave one.
    pub remote_key_id: Option<String>,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub act: Act,
    /// What to store for the wanted hash.
    pub prove: Option<Proved>,
    /// What is wrong.
    pub degraded: Option<Trouble>,
    /// What is awaited.
    pub progressing: Option<String>,
    /// When to look again at the latest.
    pub again: Option<Duration>,
}

impl Decision {
    fn rest() -> Self {
        Self { act: Act::Nothing, prove: None, degraded: None, progressing: None, again: None }
    }

    fn act(act: Act) -> Self {
        Self { act, ..Self::rest() }
    }

    fn waiting(act: Act, what: impl Into<String>) -> Self {
        Self { progressing: Some(what.into()), again: Some(LOOK_AGAIN), ..Self::act(act) }
    }
}

/// Decides. The hash counts before anything else that a pod tells: what became of another configuration says nothing of this one.
#[must_use]
pub fn decide(situation: &Situation<'_>) -> Decision {
    let Situation { wanted, stored, pods, .. } = situation;
    let clean_up = || if pods.is_empty() { Act::Nothing } else { Act::CleanUp };
    let Some(wanted) = wanted else { return Decision::act(clean_up()) };
    let stored = stored.filter(|stored| stored.hash == wanted.hash);
    if stored.is_some_and(|stored| stored.succeeded) {
        return Decision::act(clean_up());
    }
    if pods.iter().any(|pod| pod.is_leaving) {
        return Decision::waiting(Act::Nothing, "waiting for the pods of an earlier check to end");
    }
    if pods.iter().any(|pod| !pod.checks(wanted)) {
        return Decision::waiting(Act::CleanUp, "the configuration has changed: the check begins anew");
    }
    if pods.is_empty() {
        return match (stored, situation.begun) {
            (_, Some(attempt)) => Decision::waiting(Act::Deploy { attempt }, "starting the check"),
            (Some(_), None) => failed_without_pod(situation),
            (None, None) => Decision::waiting(Act::Deploy { attempt: 1 }, "starting the check"),
        };
    }
    if pods.iter().any(|pod| pod.of > pods.len()) && failures(pods).is_empty() {
        // Not all were made, or somebody took one away: what the others find says nothing of its node.
        let attempt = pods.iter().map(|pod| pod.attempt).max().unwrap_or(1);
        return Decision::waiting(Act::Deploy { attempt }, "a pod of the check is missing: it begins anew");
    }
    judged(situation, stored.is_some())
}

/// A failure is stored, and nothing else of it is known any more.
fn failed_without_pod(situation: &Situation<'_>) -> Decision {
    let since = situation.failed_since.unwrap_or(situation.now);
    let pause = pause(situation, u32::MAX);
    let wait = left(since, pause, situation.now);
    if asked(situation, None) || wait.is_zero() {
        return Decision::waiting(Act::Deploy { attempt: 1 }, "trying the configuration again");
    }
    let message = format!("the check of this configuration failed; it is tried again after {pause:?}");
    Decision {
        degraded: Some(trouble("PreflightCheckFailed", message)),
        again: Some(wait),
        ..Decision::rest()
    }
}

/// What pods have found to be bad, with the pods.
fn failures(pods: &[SeenPod]) -> Vec<(&SeenPod, String)> {
    let failed = |pod: &SeenPod| match &pod.result {
        Some(Reported { succeeded: false, message, .. }) => Some(pod.says(message)),
        _ => None,
    };
    pods.iter().filter_map(|pod| Some((pod, failed(pod)?))).collect()
}

/// Judges pods that check what is wanted. What they posted counts before how they ended.
fn judged(situation: &Situation<'_>, is_stored: bool) -> Decision {
    let pods = situation.pods;
    let failures = failures(pods);
    if let Some((first, _)) = failures.first() {
        let id = failures.iter().find_map(|(pod, _)| pod.remote_key_id.clone());
        let prove = (!is_stored).then_some(Proved { succeeded: false, remote_key_id: id });
        let all: Vec<&str> = failures.iter().map(|(_, why)| why.as_str()).collect();
        return Decision { prove, ..tried(situation, first, "PreflightCheckFailed", &all.join("; ")) };
    }
    if let Some((pod, end)) = pods.iter().find_map(|pod| pod.ended_without_result().map(|end| (pod, end))) {
        return tried(situation, pod, &end.reason, &pod.says(&end.message));
    }
    if pods.iter().all(|pod| pod.result.is_some()) {
        let remote_key_id = pods.iter().find_map(|pod| pod.remote_key_id.clone());
        let prove = Some(Proved { succeeded: true, remote_key_id });
        return Decision { prove, ..Decision::act(Act::CleanUp) };
    }
    let waiting = Decision::waiting(Act::Nothing, "waiting for the result of the check");
    let late = pods.iter().filter(|pod| pod.result.is_none()).find_map(|pod| {
        let Trouble { reason, message } = pod.late(situation.now)?;
        Some(Trouble { reason, message: pod.says(&message) })
    });
    Decision { degraded: late, ..waiting }
}

/// A try that has failed. The pods are kept for people to look at until the next one begins.
fn tried(situation: &Situation<'_>, pod: &SeenPod, reason: &str, why: &str) -> Decision {
    let pause = pause(situation, pod.attempt);
    let since = pod.ended_at().or(situation.failed_since).unwrap_or(situation.now);
    let wait = left(since, pause, situation.now);
    let next = pod.attempt.saturating_add(1);
    // Not when the next one is due: a message that changed at every look would be written at every look.
    let message = format!("{why} (try {}; the next one after {pause:?})", pod.attempt);
    let degraded = Some(trouble(reason, message));
    if wait.is_zero() || asked(situation, Some(pod)) {
        let act = Act::Deploy { attempt: next };
        return Decision { degraded, ..Decision::waiting(act, "trying the configuration again") };
    }
    Decision { degraded, again: Some(wait), ..Decision::rest() }
}

/// How long to wait after a try.
fn pause(situation: &Situation<'_>, attempt: u32) -> Duration {
    let place = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    let waits = situation.retry_after;
    waits.get(place).or(waits.last()).copied().unwrap_or(RETRY_AFTER[RETRY_AFTER.len() - 1])
}

/// Whether somebody asks for another try than those that were made.
fn asked(situation: &Situation<'_>, pod: Option<&SeenPod>) -> bool {
    let Some(value) = situation.retry.filter(|value| !value.is_empty()) else { return false };
    let made = pod.map_or(situation.honoured, |pod| pod.retry.as_deref());
    made != Some(value)
}

fn left(since: Timestamp, pause: Duration, now: Timestamp) -> Duration {
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    pause.saturating_sub(passed)
}

fn trouble(reason: &str, message: String) -> Trouble {
    Trouble { reason: reason.into(), message }
}

#[cfg(test)]
mod tests;
