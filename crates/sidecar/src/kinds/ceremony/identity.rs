//! `generate-identity`: creates the node key, consensus key and genesis file for a new chain.

use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::{GenerateIdentity, TaskType};
use chain::config::Patchable;
use chain::genesis::Genesis;
use chain::identity::{ConsensusKey, INITIAL_VALIDATOR_STATE, NodeKey};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use super::{failed, random, read};
use crate::node::{config, files, home, marker};

const TASK: &str = "generate-identity";

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::GenerateIdentity,
    locks: &[Resource::Config, Resource::Genesis, Resource::Data],
    deadline: Deadline::After(Duration::from_secs(120)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: GenerateIdentity = ctx.params()?;
    let params_json = json!(params);
    let home = ctx.node.home().to_owned();
    if let Some(completed) = marker::IDENTITY.read(&home).map_err(failed(TASK))? {
        return Ok(Some(completed.skipped_result(&params_json)));
    }
    super::check_chain(&ctx, TASK, &params.chain_id)?;
    super::required(TASK, "moniker", &params.moniker)?;
    ctx.blocking(move || {
        let node_id = load_or_create_node_key(&home)?;
        let address = load_or_create_consensus_key(&home)?;
        let moniker = Map::from_iter([("moniker".to_owned(), Value::String(params.moniker))]);
        config::patch(&home, &[(Patchable::Config, moniker)]).map_err(failed(TASK))?;
        config::set_client_chain_id(&home, &params.chain_id).map_err(failed(TASK))?;
        ensure_genesis(&home, &params.chain_id)?;
        let result = json!({ "nodeId": node_id, "consensusAddress": address });
        marker::IDENTITY.write(&home, &params_json, &result).map_err(failed(TASK))?;
        Ok(Some(result))
    })
    .await
}

/// Returns the ID of the existing or newly created node key.
fn load_or_create_node_key(home: &Path) -> Result<String, TaskError> {
    let path = home.join(home::NODE_KEY);
    if let Some(file) = read(&path).map_err(failed(TASK))? {
        return NodeKey::parse(&file).map(|key| key.id()).map_err(failed(TASK));
    }
    let key = NodeKey::from_seed(&random()?);
    files::write(&path, key.render_file().expose(), 0o600).map_err(failed(TASK))?;
    Ok(key.id())
}

/// Returns the address of the existing or newly created consensus key. The signing state is written before the key: a key without
/// signing state may have signed before and could double-sign.
fn load_or_create_consensus_key(home: &Path) -> Result<String, TaskError> {
    let (path, state) = (home.join(home::CONSENSUS_KEY), home.join(home::VALIDATOR_STATE));
    if let Some(file) = read(&path).map_err(failed(TASK))? {
        if !state.exists() {
            return Err(TaskError::new(format_args!(
                "{TASK}: {} exists without {}: restore the signing state, or run reset-data if the key never signed",
                home::CONSENSUS_KEY,
                home::VALIDATOR_STATE
            )));
        }
        return ConsensusKey::parse(&file).map(|key| key.address()).map_err(failed(TASK));
    }
    let key = ConsensusKey::from_seed(&random()?);
    if !state.exists() {
        files::write(&state, INITIAL_VALIDATOR_STATE.as_bytes(), 0o600).map_err(failed(TASK))?;
    }
    files::write(&path, key.file().expose(), 0o600).map_err(failed(TASK))?;
    Ok(key.address())
}

/// Keeps the genesis file that `seid init` wrote, or creates one for a new chain.
fn ensure_genesis(home: &Path, chain_id: &str) -> Result<(), TaskError> {
    let path = home.join(home::GENESIS);
    if let Some(file) = files::read_bytes(&path).map_err(failed(TASK))? {
        let existing = Genesis::parse(&file).map_err(failed(TASK))?;
        return match existing.chain_id() == chain_id {
            true => Ok(()),
            false => Err(TaskError::new(format_args!(
                "{TASK}: {} belongs to chain {}, not {chain_id}",
                home::GENESIS,
                existing.chain_id()
            ))),
        };
    }
    let new = Genesis::new(chain_id, Timestamp::now()).map_err(failed(TASK))?;
    files::write(&path, new.file().as_bytes(), 0o644).map_err(failed(TASK))
}
