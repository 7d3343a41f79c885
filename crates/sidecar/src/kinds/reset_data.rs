//! `reset-data`: deletes the chain's data, so that the node begins from nothing.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use api::sidecar_wire::TaskType;
use chain::identity::UNUSED_VALIDATOR_STATE;
use serde_json::json;

use super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use crate::node::{files, home, marker, rpc};

pub(super) const KIND: Kind = Kind {
    task: TaskType::ResetData,
    changes: &[Resource::Process, Resource::Data],
    limit: Limit::Within(Duration::from_secs(3600)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

async fn run(work: Work) -> Outcome {
    if rpc::status(&work.node.settings().node_rpc, rpc::QUICK).await.is_ok() {
        return Err(Failure::new("seid runs: its RPC answers; stop it first"));
    }
    let on_thread = work.clone();
    let wiped = work.blocking(move || wipe(&on_thread)).await?;
    Ok(Some(json!({ "wipedBytes": wiped })))
}

fn wipe(work: &Work) -> Result<i64, Failure> {
    let home = work.node.home();
    let data = home.join(home::DATA);
    let failed = |error: io::Error| Failure::new(format_args!("{}: {error}", data.display()));
    // What it held is only told; that it cannot be measured stops nothing.
    let held = size(&data).map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    for entry in files::entries(&data).map_err(failed)? {
        work.check()?;
        files::clear(&entry.path()).map_err(failed)?;
    }
    make(&data).map_err(failed)?;
    files::write(&home.join(home::VALIDATOR_STATE), UNUSED_VALIDATOR_STATE.as_bytes(), 0o600)
        .map_err(failed)?;
    marker::STATE_SYNC.remove(home).map_err(failed)?;
    Ok(held)
}

fn make(data: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o750).create(data)
}

/// The bytes of all files; links are not followed.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in files::entries(folder)? {
        let about = entry.metadata()?;
        bytes += if about.is_dir() {
            size(&entry.path())?
        } else if about.is_file() {
            about.len()
        } else {
            0
        };
    }
    Ok(bytes)
}
