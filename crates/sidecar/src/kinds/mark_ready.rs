//! `mark-ready`: allows seid to start (a release).

use std::time::Duration;

use api::sidecar_wire::TaskType;

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::MarkReady,
    locks: &[Resource::Readiness],
    deadline: Deadline::After(Duration::from_secs(30)),
    mostly_waits: true,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

/// The error of a release that is older than a hold.
pub const SUPERSEDED: &str = "superseded by hold";

/// Fails if a hold was submitted later, even if this release was delayed.
async fn run(ctx: TaskContext) -> TaskOutcome {
    let hold = ctx.node.ledger().last_submitted(TaskType::MarkNotReady).await.map_err(TaskError::new)?;
    if hold.is_some_and(|hold| hold >= ctx.execution.submitted_at) {
        return Err(TaskError::new(SUPERSEDED));
    }
    ctx.node.set_ready(true);
    Ok(None)
}
