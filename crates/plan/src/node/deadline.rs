//! Deadlines of tasks. They do not run while nothing can act: while the node is paused, or no operator is active.

use std::time::Duration;

use api::condition::{self, Paused, Status};
use api::sei_node::SeiNodeStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;

use super::task::Step;

/// Returns the deadline of the current task. It is set when the task becomes current, and kept whatever the task waits
/// for. A deadline that passed before this operator was active gets one more interval.
pub(super) fn current(status: &SeiNodeStatus, step: Step, active_since: Option<&Time>, now: &Time) -> Time {
    // Only the current task can wait, and a completed task clears the field.
    let Some(waiting) = &status.waiting_for else { return after(now, step.limit()) };
    match active_since {
        Some(since) if waiting.deadline.0 <= since.0 => after(since, step.limit()),
        _ => waiting.deadline.clone(),
    }
}

/// Extends the deadline of the current task by the time for which the node was paused. Called once, when it resumes.
pub(super) fn resume(status: &mut SeiNodeStatus, now: &Time) {
    let Some(paused) =
        condition::find::<Paused>(&status.conditions).filter(|paused| paused.status == Status::True.as_str())
    else {
        return;
    };
    let duration = elapsed(&paused.last_transition_time, now);
    if let Some(waiting) = status.waiting_for.as_mut() {
        waiting.deadline = after(&waiting.deadline, duration);
    }
}

/// Returns the time that has passed since another one; zero if that is in the future.
#[must_use]
pub fn elapsed(since: &Time, now: &Time) -> Duration {
    Duration::try_from(now.0.duration_since(since.0)).unwrap_or_default()
}

/// Returns the time after a duration.
pub(crate) fn after(time: &Time, duration: Duration) -> Time {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    Time(time.0.saturating_add(duration).unwrap_or(time.0))
}
