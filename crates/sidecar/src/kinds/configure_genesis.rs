//! `configure-genesis`: downloads the genesis file.

use std::time::Duration;

use api::sidecar_wire::{ConfigureGenesis, TaskType};
use chain::genesis::KNOWN_CHAINS;
use serde_json::json;

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::bucket::{self, BucketClient};
use crate::node::{files, home, marker};

/// The largest accepted genesis file.
const MAX_BYTES: u64 = 512 << 20;

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::ConfigureGenesis,
    locks: &[Resource::Genesis],
    deadline: Deadline::After(Duration::from_secs(1800)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: ConfigureGenesis = ctx.params()?;
    let settings = ctx.node.settings();
    let requested = params.expected_genesis_hash.clone().filter(|hash| !hash.is_empty());
    // A well-known chain has one genesis, whatever the bucket holds.
    let known = KNOWN_CHAINS.iter().find(|known| known.chain_id == settings.chain_id);
    let expected = requested.or_else(|| known.and_then(|known| known.genesis_hash).map(str::to_owned));
    if expected.as_deref().is_some_and(|hash| !is_hash(hash)) {
        return Err(TaskError::new("expectedGenesisHash must be a SHA-256 in lower-case hexadecimal"));
    }
    let home = ctx.node.home().to_owned();
    let path = home.join(home::GENESIS);
    if marker::GENESIS.read(&home).map_err(TaskError::new)?.is_some() {
        // The marker only proves that a file was placed; its hash proves that it is the right one.
        let existing = ctx.blocking(move || files::hash(&path).map_err(TaskError::new)).await?;
        return match expected.filter(|expected| *expected != existing) {
            Some(expected) => Err(hash_mismatch(&expected, &existing, "the existing file")),
            None => Ok(Some(json!({ "skipped": "already done", "genesisHash": existing }))),
        };
    }
    let key = format!("{}/genesis.json", settings.chain_id);
    let failed = |error: bucket::Error| TaskError::new(format_args!("configure-genesis: {error}"));
    let store = BucketClient::open(&settings.genesis).map_err(failed)?;
    let part = home.join("config/.genesis.json.part");
    store.download_to(&key, &part, MAX_BYTES, &ctx.threads).await.map_err(failed)?;
    ctx.blocking(move || {
        let hash = files::hash(&part).map_err(TaskError::new)?;
        if let Some(expected) = expected.filter(|expected| *expected != hash) {
            files::remove(&part).map_err(TaskError::new)?;
            return Err(hash_mismatch(&expected, &hash, &key));
        }
        // Renamed into place: a crash never leaves a partial file.
        files::commit(&part, &path).map_err(TaskError::new)?;
        let result = json!({ "genesisHash": hash });
        marker::GENESIS.write(&home, &json!(params), &result).map_err(TaskError::new)?;
        Ok(Some(result))
    })
    .await
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn hash_mismatch(expected: &str, found: &str, file: &str) -> TaskError {
    TaskError::new(format_args!(
        "genesis hash mismatch: {file} has {found}, expected {expected}; retrying does not help"
    ))
}
