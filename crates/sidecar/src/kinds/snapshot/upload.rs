//! `snapshot-upload`: uploads snapshots for as long as the node lives. Each round has a limit.

use api::sidecar_wire::TaskType;

use super::super::{Doing, Kind, Limit, Outcome, Resource, Work};
use super::round::{Round, round};

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::SnapshotUpload,
    changes: &[],
    limit: Limit::Endless,
    waits: true,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let settings = work.node.settings();
    loop {
        let uploaded = tokio::time::timeout(settings.snapshot_upload_timeout, async {
            let _turn = work.node.turn(Resource::Upload).await;
            round(&work).await
        });
        match uploaded.await {
            Ok(Ok(done)) => {
                work.execution.progress.set(&done);
                work.node.metrics().uploaded(&settings.chain_id, outcome(&done));
            }
            Ok(Err(error)) => {
                tracing::warn!(id = work.execution.id, %error, "this round of uploads failed: the next comes");
                work.node.metrics().uploaded(&settings.chain_id, "error");
            }
            Err(_) => {
                tracing::warn!(id = work.execution.id, "this round of uploads took too long: the next comes");
                work.node.metrics().uploaded(&settings.chain_id, "error");
            }
        }
        tokio::time::sleep(settings.snapshot_upload_interval).await;
    }
}

/// The word of a metric.
pub(super) fn outcome(done: &Round) -> &'static str {
    match done {
        Round::Uploaded { .. } => "success",
        Round::Noop { .. } => "skipped",
    }
}
