//! `snapshot-upload-once`: one round of uploads, and what became of it.

use api::sidecar_wire::TaskType;
use serde_json::json;

use super::super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use super::round::round;
use super::upload::outcome;

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::SnapshotUploadOnce,
    changes: &[Resource::Upload],
    limit: Limit::Upload,
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let chain = work.node.settings().chain_id.clone();
    match round(&work).await {
        Ok(done) => {
            work.node.metrics().uploaded(&chain, outcome(&done));
            Ok(Some(json!(done)))
        }
        Err(failure) => {
            work.node.metrics().uploaded(&chain, "error");
            Err(Failure { result: Some(json!({ "outcome": "error" })), ..failure })
        }
    }
}
