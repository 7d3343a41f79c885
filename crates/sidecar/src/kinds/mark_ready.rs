//! `mark-ready`: lets seid start.

use std::time::Duration;

use api::sidecar_wire::TaskType;

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};

pub(super) const KIND: Kind = Kind {
    task: TaskType::MarkReady,
    changes: &[Resource::Readiness],
    limit: Limit::Within(Duration::from_secs(30)),
    waits: true,
    run: |work| -> Doing { Box::pin(run(work)) },
};

/// Why a release fails that is older than a hold.
pub const SUPERSEDED: &str = "superseded by hold";

/// A hold that was given later wins, also over a release that was slower.
async fn run(work: Work) -> Outcome {
    let hold = work.node.ledger().last_submitted(TaskType::MarkNotReady).await.map_err(Failure::new)?;
    if hold.is_some_and(|hold| hold >= work.execution.submitted_at) {
        return Err(Failure::new(SUPERSEDED));
    }
    work.node.set_ready(true);
    Ok(None)
}
