//! `mark-not-ready`: holds seid back when it next starts.

use std::time::Duration;

use api::sidecar_wire::TaskType;

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};

pub(super) const KIND: Kind = Kind {
    task: TaskType::MarkNotReady,
    changes: &[Resource::Readiness],
    limit: Limit::Within(Duration::from_secs(30)),
    waits: true,
    run: |work| -> Doing { Box::pin(run(work)) },
};

/// Releases go first: one that is left would be done again after a crash, and end the hold. If they cannot be deleted, nothing
/// changes.
async fn run(work: Work) -> Outcome {
    work.node.ledger().delete_kind(TaskType::MarkReady).await.map_err(Failure::new)?;
    work.node.set_ready(false);
    Ok(None)
}
