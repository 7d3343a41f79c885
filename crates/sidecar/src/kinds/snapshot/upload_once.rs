//! `snapshot-upload-once`: uploads one snapshot and returns the outcome.

use api::sidecar_wire::TaskType;
use serde_json::json;

use super::super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use super::archive_upload::upload_newest_complete;
use super::upload::metric_outcome;

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::SnapshotUploadOnce,
    locks: &[Resource::Upload],
    deadline: Deadline::UploadTimeout,
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let chain = ctx.node.settings().chain_id.clone();
    match upload_newest_complete(&ctx).await {
        Ok(outcome) => {
            ctx.node.metrics().upload_finished(&chain, metric_outcome(&outcome));
            Ok(Some(json!(outcome)))
        }
        Err(error) => {
            ctx.node.metrics().upload_finished(&chain, "error");
            Err(TaskError { result: Some(json!({ "outcome": "error" })), ..error })
        }
    }
}
