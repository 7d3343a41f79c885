//! `reset-data`: deletes the chain data so that the node syncs from scratch.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::{ResetData, TaskType};
use chain::identity::INITIAL_VALIDATOR_STATE;
use serde_json::json;

use super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::node::{files, home, marker, rpc, signing};

pub(super) const KIND: Kind = Kind {
    task_type: TaskType::ResetData,
    locks: &[Resource::Process, Resource::Data],
    deadline: Deadline::After(Duration::from_secs(3600)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: ResetData = ctx.params()?;
    if !params.confirm_validator_reset
        && let Some(evidence) = signing::find_evidence(ctx.node.home())
    {
        return Err(TaskError::new(format_args!(
            "this node signs blocks ({evidence}), and a reset deletes the record of its last signature, so that it may sign twice: \
             set confirmValidatorReset to true only if its key is not used anymore or the chain starts again from genesis"
        )));
    }
    if ctx.node.seid().find().map_err(TaskError::new)?.is_some() {
        return Err(TaskError::new("seid is running: stop it first"));
    }
    if rpc::status(&ctx.node.settings().node_rpc, rpc::PROBE_TIMEOUT).await.is_ok() {
        return Err(TaskError::new("seid is running (its RPC responds): stop it first"));
    }
    let thread_ctx = ctx.clone();
    let wiped = ctx.blocking(move || wipe(&thread_ctx)).await?;
    Ok(Some(json!({ "wipedBytes": wiped })))
}

fn wipe(ctx: &TaskContext) -> Result<i64, TaskError> {
    let home = ctx.node.home();
    let data = home.join(home::DATA);
    let failed = |error: io::Error| TaskError::new(format_args!("{}: {error}", data.display()));
    // Informational only: a failure to measure does not stop the reset.
    let wiped = dir_size(&data).map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    for entry in files::entries(&data).map_err(failed)? {
        ctx.check_cancelled()?;
        files::remove_all(&entry.path()).map_err(failed)?;
    }
    create_data_dir(&data).map_err(failed)?;
    files::write(&home.join(home::VALIDATOR_STATE), INITIAL_VALIDATOR_STATE.as_bytes(), 0o600)
        .map_err(failed)?;
    marker::STATE_SYNC.remove(home).map_err(failed)?;
    Ok(wiped)
}

fn create_data_dir(data: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o750).create(data)
}

/// Returns the total size of all files; does not follow links.
fn dir_size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in files::entries(dir)? {
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            dir_size(&entry.path())?
        } else if metadata.is_file() {
            metadata.len()
        } else {
            0
        };
    }
    Ok(bytes)
}
