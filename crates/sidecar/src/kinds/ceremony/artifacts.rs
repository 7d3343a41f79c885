//! `upload-genesis-artifacts`: uploads what the other validators of a new chain need from this node. Never private keys.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::sidecar_wire::{TaskType, UploadGenesisArtifacts};
use chain::gentx::Gentx;
use chain::identity::{NodeKey, render_public_identity};
use serde_json::json;

use super::super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use super::{failed, read};
use crate::bucket::BucketClient;
use crate::node::{files, home, marker};

const TASK: &str = "upload-genesis-artifacts";

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::UploadGenesisArtifacts,
    locks: &[Resource::Genesis],
    deadline: Deadline::After(Duration::from_secs(600)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: UploadGenesisArtifacts = ctx.params()?;
    let params_json = json!(params);
    let home = ctx.node.home().to_owned();
    if let Some(completed) = marker::ARTIFACTS.read(&home).map_err(failed(TASK))? {
        return Ok(Some(completed.skipped_result(&params_json)));
    }
    super::required(TASK, "nodeName", &params.node_name)?;
    super::check_name(TASK, "nodeName", &params.node_name)?;
    let settings = ctx.node.settings();
    let (chain_id, dir) = (settings.chain_id.clone(), home.clone());
    let (gentx, node_id) = ctx.blocking(move || public_artifacts(&dir, &chain_id)).await?;
    let store = BucketClient::open(&settings.genesis).map_err(failed(TASK))?;
    let prefix = format!("{}/{}", settings.chain_id, params.node_name);
    store.put_json(&format!("{prefix}/gentx.json"), gentx).await.map_err(failed(TASK))?;
    let identity = render_public_identity(&node_id).into_bytes();
    store.put_json(&format!("{prefix}/identity.json"), identity).await.map_err(failed(TASK))?;
    let result = json!({ "prefix": prefix, "nodeId": node_id });
    ctx.blocking(move || {
        marker::ARTIFACTS.write(&home, &params_json, &result).map_err(failed(TASK))?;
        Ok(Some(result))
    })
    .await
}

/// Returns the gentx and the node ID. The gentx is parsed before it is uploaded: any other content in that file never leaves the
/// node.
fn public_artifacts(home: &Path, chain_id: &str) -> Result<(Vec<u8>, String), TaskError> {
    let key = read(&home.join(home::NODE_KEY)).map_err(failed(TASK))?;
    let key = key.ok_or_else(|| {
        TaskError::new(format_args!("{TASK}: {} not found: run generate-identity first", home::NODE_KEY))
    })?;
    let node_id = NodeKey::parse(&key).map_err(failed(TASK))?.id();
    let path = gentx_file(home, &node_id)?;
    let file = files::read_bytes(&path).map_err(failed(TASK))?.unwrap_or_default();
    Gentx::parse(&file, chain_id)
        .map_err(|error| TaskError::new(format_args!("{TASK}: {}: {error}", path.display())))?;
    Ok((file, node_id))
}

/// Returns the path of the node's gentx, or of the only gentx there is: another program may have used another file name.
fn gentx_file(home: &Path, node_id: &str) -> Result<PathBuf, TaskError> {
    let dir = home.join(home::GENTX);
    let own = dir.join(format!("gentx-{node_id}.json"));
    if own.exists() {
        return Ok(own);
    }
    let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = entries.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        (None, _) => {
            Err(TaskError::new(format_args!("{TASK}: no gentx in {}: run generate-gentx first", home::GENTX)))
        }
        (Some(_), Some(_)) => Err(TaskError::new(format_args!(
            "{TASK}: several gentx files in {}, none for node {node_id}",
            home::GENTX
        ))),
    }
}
