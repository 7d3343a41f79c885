//! `set-genesis-peers`: makes the validators of a new chain peers of each other.

use std::time::Duration;

use api::sidecar_wire::TaskType;
use serde_json::json;

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome, discover_peers};
use crate::bucket::{self, BucketClient};

/// The largest accepted peer list.
const MAX_BYTES: u64 = 1 << 20;

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::SetGenesisPeers,
    locks: &[Resource::Config],
    deadline: Deadline::After(Duration::from_secs(300)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let settings = ctx.node.settings();
    let own = ctx.node.id().map_err(TaskError::new)?;
    let key = format!("{}/peers.json", settings.chain_id);
    let failed = |error: bucket::Error| TaskError::new(format_args!("set-genesis-peers: {error}"));
    let store = BucketClient::open(&settings.genesis).map_err(failed)?;
    let text = store.get(&key, MAX_BYTES).await.map_err(failed)?;
    let peers = chain::genesis::peers_except(&text, &own)
        .map_err(|error| TaskError::new(format_args!("set-genesis-peers: {key}: {error}")))?;
    discover_peers::set_persistent_peers(&ctx, &peers).await?;
    Ok(Some(json!({ "peers": peers.len() })))
}
