//! `generate-identity`: makes the keys of a node of a new chain.

use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::{GenerateIdentity, TaskType};
use chain::config::Patchable;
use chain::genesis::Genesis;
use chain::identity::{ConsensusKey, NodeKey, UNUSED_VALIDATOR_STATE};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use super::{failed, random, read};
use crate::node::{config, files, home, marker};

const TASK: &str = "generate-identity";

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::GenerateIdentity,
    changes: &[Resource::Config, Resource::Genesis, Resource::Data],
    limit: Limit::Within(Duration::from_secs(120)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let params: GenerateIdentity = work.params()?;
    let given = json!(params);
    let home = work.node.home().to_owned();
    if let Some(done) = marker::IDENTITY.read(&home).map_err(failed(TASK))? {
        return Ok(Some(done.result(&given)));
    }
    super::check_chain(&work, TASK, &params.chain_id)?;
    super::required(TASK, "moniker", &params.moniker)?;
    work.blocking(move || {
        let node_id = node_key(&home)?;
        let address = consensus_key(&home)?;
        let moniker = Map::from_iter([("moniker".to_owned(), Value::String(params.moniker))]);
        config::patch(&home, &[(Patchable::Config, moniker)]).map_err(failed(TASK))?;
        config::name_chain(&home, &params.chain_id).map_err(failed(TASK))?;
        genesis(&home, &params.chain_id)?;
        let result = json!({ "nodeId": node_id, "consensusAddress": address });
        marker::IDENTITY.write(&home, &given, &result).map_err(failed(TASK))?;
        Ok(Some(result))
    })
    .await
}

/// The key by which peers know the node: the one that is there, or a new one.
fn node_key(home: &Path) -> Result<String, Failure> {
    let path = home.join(home::NODE_KEY);
    if let Some(file) = read(&path).map_err(failed(TASK))? {
        return NodeKey::parse(&file).map(|key| key.id()).map_err(failed(TASK));
    }
    let key = NodeKey::from_seed(&random()?);
    files::write(&path, key.file().expose(), 0o600).map_err(failed(TASK))?;
    Ok(key.id())
}

/// The key that the node signs blocks with: the one that is there, or a new one. What it has signed is written before it: a key
/// that is there without it may have signed, and would sign a height twice.
fn consensus_key(home: &Path) -> Result<String, Failure> {
    let (path, state) = (home.join(home::CONSENSUS_KEY), home.join(home::VALIDATOR_STATE));
    if let Some(file) = read(&path).map_err(failed(TASK))? {
        if !state.exists() {
            return Err(Failure::new(format_args!(
                "{TASK}: {} is there and {} is not: restore what it has signed, or reset-data if it never signed",
                home::CONSENSUS_KEY,
                home::VALIDATOR_STATE
            )));
        }
        return ConsensusKey::parse(&file).map(|key| key.address()).map_err(failed(TASK));
    }
    let key = ConsensusKey::from_seed(&random()?);
    if !state.exists() {
        files::write(&state, UNUSED_VALIDATOR_STATE.as_bytes(), 0o600).map_err(failed(TASK))?;
    }
    files::write(&path, key.file().expose(), 0o600).map_err(failed(TASK))?;
    Ok(key.address())
}

/// The genesis file that `seid init` wrote, or the one of a new chain.
fn genesis(home: &Path, chain_id: &str) -> Result<(), Failure> {
    let path = home.join(home::GENESIS);
    if let Some(file) = files::read_bytes(&path).map_err(failed(TASK))? {
        let there = Genesis::parse(&file).map_err(failed(TASK))?;
        return match there.chain_id() == chain_id {
            true => Ok(()),
            false => Err(Failure::new(format_args!(
                "{TASK}: {} is of chain {}, and not of {chain_id}",
                home::GENESIS,
                there.chain_id()
            ))),
        };
    }
    let new = Genesis::new(chain_id, Timestamp::now()).map_err(failed(TASK))?;
    files::write(&path, new.file().as_bytes(), 0o644).map_err(failed(TASK))
}
