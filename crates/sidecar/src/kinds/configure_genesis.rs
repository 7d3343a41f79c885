//! `configure-genesis`: fetches the genesis file.

use std::time::Duration;

use api::sidecar_wire::{ConfigureGenesis, TaskType};
use chain::genesis::KNOWN;
use serde_json::json;

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use crate::node::{files, home, marker};
use crate::objects::{self, Objects};

/// More than any chain's.
const LONGEST: u64 = 512 << 20;

pub(super) const KIND: Kind = Kind {
    task: TaskType::ConfigureGenesis,
    changes: &[Resource::Genesis],
    limit: Limit::Within(Duration::from_secs(1800)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let params: ConfigureGenesis = work.params()?;
    let settings = work.node.settings();
    let given = params.expected_genesis_hash.clone().filter(|hash| !hash.is_empty());
    // A chain that everybody knows has one genesis, whatever a bucket holds.
    let known = KNOWN.iter().find(|known| known.chain_id == settings.chain_id);
    let expected = given.or_else(|| known.and_then(|known| known.genesis_hash).map(str::to_owned));
    if expected.as_deref().is_some_and(|hash| !is_hash(hash)) {
        return Err(Failure::new("expectedGenesisHash must be a SHA-256 in lower-case hexadecimal"));
    }
    let home = work.node.home().to_owned();
    let path = home.join(home::GENESIS);
    if marker::GENESIS.read(&home).map_err(Failure::new)?.is_some() {
        // The marker says that there is one; whether it is the right one, only the file can say.
        let there = work.blocking(move || files::hash(&path).map_err(Failure::new)).await?;
        return match expected.filter(|expected| *expected != there) {
            Some(expected) => Err(wrong(&expected, &there, "the file that is there")),
            None => Ok(Some(json!({ "skipped": "done already", "genesisHash": there }))),
        };
    }
    let key = format!("{}/genesis.json", settings.chain_id);
    let failed = |error: objects::Error| Failure::new(format_args!("configure-genesis: {error}"));
    let objects = Objects::of(&settings.genesis).map_err(failed)?;
    let part = home.join("config/.genesis.json.part");
    objects.save(&key, &part, LONGEST, &work.threads).await.map_err(failed)?;
    work.blocking(move || {
        let hash = files::hash(&part).map_err(Failure::new)?;
        if let Some(expected) = expected.filter(|expected| *expected != hash) {
            files::remove(&part).map_err(Failure::new)?;
            return Err(wrong(&expected, &hash, &key));
        }
        // In its place as a whole: a crash leaves no half of one.
        files::place(&part, &path).map_err(Failure::new)?;
        let result = json!({ "genesisHash": hash });
        marker::GENESIS.write(&home, &json!(params), &result).map_err(Failure::new)?;
        Ok(Some(result))
    })
    .await
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn wrong(expected: &str, found: &str, what: &str) -> Failure {
    Failure::new(format_args!(
        "genesis hash mismatch: {what} has {found}, and {expected} was expected; trying again does not help"
    ))
}
