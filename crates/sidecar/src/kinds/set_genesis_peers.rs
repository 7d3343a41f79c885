//! `set-genesis-peers`: makes the validators of a new chain each other's peers.

use std::time::Duration;

use api::sidecar_wire::TaskType;
use serde_json::json;

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work, discover_peers};
use crate::objects::{self, Objects};

/// More than any ceremony has.
const LONGEST: u64 = 1 << 20;

pub(super) const KIND: Kind = Kind {
    task: TaskType::SetGenesisPeers,
    changes: &[Resource::Config],
    limit: Limit::Within(Duration::from_secs(300)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let settings = work.node.settings();
    let own = work.node.id().map_err(Failure::new)?;
    let key = format!("{}/peers.json", settings.chain_id);
    let failed = |error: objects::Error| Failure::new(format_args!("set-genesis-peers: {error}"));
    let objects = Objects::of(&settings.genesis).map_err(failed)?;
    let text = objects.read(&key, LONGEST).await.map_err(failed)?;
    let peers = chain::genesis::others(&text, &own)
        .map_err(|error| Failure::new(format_args!("set-genesis-peers: {key}: {error}")))?;
    discover_peers::set(&work, &peers).await?;
    Ok(Some(json!({ "peers": peers.len() })))
}
