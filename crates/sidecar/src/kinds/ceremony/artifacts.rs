//! `upload-genesis-artifacts`: gives the others of a new chain what they need of this node. Private keys are no part of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::sidecar_wire::{TaskType, UploadGenesisArtifacts};
use chain::gentx::Gentx;
use chain::identity::{NodeKey, public_identity};
use serde_json::json;

use super::super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use super::{failed, read};
use crate::node::{files, home, marker};
use crate::objects::Objects;

const TASK: &str = "upload-genesis-artifacts";

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::UploadGenesisArtifacts,
    changes: &[Resource::Genesis],
    limit: Limit::Within(Duration::from_secs(600)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    let params: UploadGenesisArtifacts = work.params()?;
    let given = json!(params);
    let home = work.node.home().to_owned();
    if let Some(done) = marker::ARTIFACTS.read(&home).map_err(failed(TASK))? {
        return Ok(Some(done.result(&given)));
    }
    super::required(TASK, "nodeName", &params.node_name)?;
    super::check_name(TASK, "nodeName", &params.node_name)?;
    let settings = work.node.settings();
    let (chain_id, folder) = (settings.chain_id.clone(), home.clone());
    let (gentx, node_id) = work.blocking(move || public(&folder, &chain_id)).await?;
    let objects = Objects::of(&settings.genesis).map_err(failed(TASK))?;
    let prefix = format!("{}/{}", settings.chain_id, params.node_name);
    objects.write_json(&format!("{prefix}/gentx.json"), gentx).await.map_err(failed(TASK))?;
    let identity = public_identity(&node_id).into_bytes();
    objects.write_json(&format!("{prefix}/identity.json"), identity).await.map_err(failed(TASK))?;
    let result = json!({ "prefix": prefix, "nodeId": node_id });
    work.blocking(move || {
        marker::ARTIFACTS.write(&home, &given, &result).map_err(failed(TASK))?;
        Ok(Some(result))
    })
    .await
}

/// What others may know: the declaration, and who the node is. The declaration is read before it is sent: whatever else may lie
/// in its place stays here.
fn public(home: &Path, chain_id: &str) -> Result<(Vec<u8>, String), Failure> {
    let key = read(&home.join(home::NODE_KEY)).map_err(failed(TASK))?;
    let key = key.ok_or_else(|| {
        Failure::new(format_args!("{TASK}: there is no {}: generate-identity makes it", home::NODE_KEY))
    })?;
    let node_id = NodeKey::parse(&key).map_err(failed(TASK))?.id();
    let path = declaration(home, &node_id)?;
    let file = files::read_bytes(&path).map_err(failed(TASK))?.unwrap_or_default();
    Gentx::parse(&file, chain_id)
        .map_err(|error| Failure::new(format_args!("{TASK}: {}: {error}", path.display())))?;
    Ok((file, node_id))
}

/// The node's own declaration, or the only one that there is: another program may have named it otherwise.
fn declaration(home: &Path, node_id: &str) -> Result<PathBuf, Failure> {
    let folder = home.join(home::GENTX);
    let own = folder.join(format!("gentx-{node_id}.json"));
    if own.exists() {
        return Ok(own);
    }
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = entries.filter(|path| path.extension().is_some_and(|end| end == "json"));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Failure::new(format_args!(
            "{TASK}: there is no declaration in {}: generate-gentx makes it",
            home::GENTX
        ))),
        (Some(_), Some(_)) => Err(Failure::new(format_args!(
            "{TASK}: several declarations are in {}, and none is of node {node_id}",
            home::GENTX
        ))),
    }
}
