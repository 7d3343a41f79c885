//! `snapshot-upload`: uploads snapshots periodically until it is cancelled. Each upload has a timeout.

use api::sidecar_wire::TaskType;

use super::super::{Deadline, Kind, Resource, TaskContext, TaskFuture, TaskOutcome};
use super::archive_upload::{UploadOutcome, upload_newest_complete};

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::SnapshotUpload,
    locks: &[],
    deadline: Deadline::Never,
    mostly_waits: true,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let settings = ctx.node.settings();
    loop {
        let uploaded = tokio::time::timeout(settings.snapshot_upload_timeout, async {
            let _guard = ctx.node.lock(Resource::Upload).await;
            upload_newest_complete(&ctx).await
        });
        match uploaded.await {
            Ok(Ok(outcome)) => {
                ctx.execution.progress.set(&outcome);
                ctx.node.metrics().upload_finished(&settings.chain_id, metric_outcome(&outcome));
            }
            Ok(Err(error)) => {
                tracing::warn!(id = ctx.execution.id, %error, "snapshot upload failed; retrying at the next interval");
                ctx.node.metrics().upload_finished(&settings.chain_id, "error");
            }
            Err(_) => {
                tracing::warn!(
                    id = ctx.execution.id,
                    "snapshot upload timed out; retrying at the next interval"
                );
                ctx.node.metrics().upload_finished(&settings.chain_id, "error");
            }
        }
        tokio::time::sleep(settings.snapshot_upload_interval).await;
    }
}

/// Returns the value of the `outcome` label.
pub(super) fn metric_outcome(outcome: &UploadOutcome) -> &'static str {
    match outcome {
        UploadOutcome::Uploaded { .. } => "success",
        UploadOutcome::Noop { .. } => "skipped",
    }
}
