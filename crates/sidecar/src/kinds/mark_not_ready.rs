//! `mark-not-ready`: prevents the next start of seid (a hold).

use std::time::Duration;

use api::sidecar_wire::TaskType;

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::MarkNotReady,
    locks: &[Resource::Readiness],
    deadline: Deadline::After(Duration::from_secs(30)),
    mostly_waits: true,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

/// Deletes all releases (`mark-ready`) first: a remaining one would run again after a crash and end the hold. If they cannot be
/// deleted, the task fails and nothing changes.
async fn run(ctx: TaskContext) -> TaskOutcome {
    ctx.node.ledger().delete_type(TaskType::MarkReady).await.map_err(TaskError::new)?;
    ctx.node.set_ready(false);
    Ok(None)
}
