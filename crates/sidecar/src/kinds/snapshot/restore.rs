//! `snapshot-restore`: downloads and unpacks a snapshot. A restart resumes an interrupted download.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use api::sidecar_wire::{SnapshotRestore, TaskType};
use runtime::sync::lock;
use serde::Serialize;
use serde_json::json;

use super::super::{Deadline, Kind, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use super::pruner;
use crate::archive::{self, Limits, UnpackError};
use crate::bucket::{self, BucketClient, Download, ObjectVersion};
use crate::node::{files, home, marker};

pub(in crate::kinds) const KIND: Kind = Kind {
    task_type: TaskType::SnapshotRestore,
    locks: &[Resource::Data],
    deadline: Deadline::After(Duration::from_secs(48 * 3600)),
    mostly_waits: false,
    run: |ctx| -> TaskFuture { Box::pin(run(ctx)) },
};

/// The maximum number of archive entries.
const MAX_ENTRIES: u64 = 1_000_000;

/// Bytes of the volume that unpacking must leave free.
const RESERVED_BYTES: u64 = 64 << 20;

/// Unpack directory; its content is moved to the snapshot directory at the end.
const STAGING: &str = "data/.snapshot-restore";

/// The snapshot metadata database in an archive.
const METADATA_DB: &str = "metadata.db";

/// Progress, and finally the result.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    height: u64,
    key: String,
    size: u64,
    resumed_from: u64,
    downloaded: u64,
    unpacked_bytes: u64,
    entries: u64,
}

async fn run(ctx: TaskContext) -> TaskOutcome {
    let params: SnapshotRestore = ctx.params()?;
    let target = u64::try_from(params.target_height)
        .map_err(|_| TaskError::new("targetHeight must not be negative"))?;
    let params_json = json!({ "targetHeight": target });
    let home = ctx.node.home().to_owned();
    if let Some(completed) = marker::SNAPSHOT.read(&home).map_err(TaskError::new)? {
        // A crash right after the marker was written leaves the downloaded archive, which is as large as the snapshot.
        ctx.blocking(move || remove_downloads(&home.join(home::TMP), None).map_err(TaskError::new)).await?;
        return Ok(Some(completed.skipped_result(&params_json)));
    }
    let failed = |error: bucket::Error| TaskError::new(format_args!("snapshot-restore: {error}"));
    let settings = ctx.node.settings();
    let store = BucketClient::open(&settings.snapshots).map_err(failed)?;
    let prefix = super::prefix(&settings.chain_id);
    let keys = store.list(&prefix).await.map_err(failed)?;
    let (height, key) = super::newest_at_or_below(keys.keys(), &prefix, target).ok_or_else(|| {
        let limit = if target == 0 { String::new() } else { format!(" at or below height {target}") };
        TaskError::new(format_args!("no snapshot{limit} in {}/{prefix}", store.location()))
    })?;
    let version = store.head(&key).await.map_err(failed)?;
    let target = download_target(&home, height).map_err(TaskError::new)?;
    let mut progress = download(&ctx, &store, &version, &target, height).await?;
    let thread_ctx = ctx.clone();
    let unpacked = {
        let (target, home, mut progress) = (target.clone(), home.clone(), progress.clone());
        ctx.blocking(move || unpack(&thread_ctx, &home, &target, &mut progress)).await?
    };
    progress.unpacked_bytes = unpacked.bytes;
    progress.entries = unpacked.entries;
    let result = json!(progress);
    ctx.blocking(move || {
        let finish = || {
            files::write(&home.join(home::SNAPSHOT_HEIGHT), height.to_string().as_bytes(), 0o644)?;
            marker::SNAPSHOT.write(&home, &params_json, &result)?;
            target.remove()
        };
        finish().map_err(TaskError::new).map(|()| Some(result))
    })
    .await
}

/// Returns the download target and removes the downloads of other snapshots.
fn download_target(home: &Path, height: u64) -> io::Result<Download> {
    let dir = home.join(home::TMP);
    fs::create_dir_all(&dir)?;
    let file = dir.join(format!("snapshot-{height}.tar.gz"));
    remove_downloads(&dir, Some(height))?;
    Ok(Download { file })
}

/// Removes downloads, except those of one height.
fn remove_downloads(dir: &Path, keep: Option<u64>) -> io::Result<()> {
    let kept_prefix = keep.map(|height| format!("snapshot-{height}."));
    for entry in files::entries(dir)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_kept = kept_prefix.as_ref().is_some_and(|kept| name.starts_with(kept));
        if name.starts_with("snapshot-") && !is_kept {
            files::remove(&entry.path())?;
        }
    }
    Ok(())
}

async fn download(
    ctx: &TaskContext,
    store: &BucketClient,
    version: &ObjectVersion,
    target: &Download,
    height: u64,
) -> Result<Progress, TaskError> {
    let initial = Progress {
        height,
        key: version.key.clone(),
        size: version.size,
        resumed_from: 0,
        downloaded: 0,
        unpacked_bytes: 0,
        entries: 0,
    };
    let offsets = Mutex::new(None);
    let on_progress = |length: u64| {
        let mut offsets = lock(&offsets);
        let (first, _) = *offsets.get_or_insert((length, length));
        *offsets = Some((first, length));
        ctx.execution.progress.set(&Progress { resumed_from: first, downloaded: length, ..initial.clone() });
    };
    let failed = |error: bucket::Error| TaskError::new(format_args!("snapshot-restore: {error}"));
    store.download(version, target, &ctx.threads, on_progress).await.map_err(failed)?;
    let (first, length) = lock(&offsets).unwrap_or_default();
    Ok(Progress { resumed_from: first, downloaded: length, ..initial })
}

fn unpack(
    ctx: &TaskContext,
    home: &Path,
    archive: &Download,
    progress: &mut Progress,
) -> Result<archive::Unpacked, TaskError> {
    let staging = home.join(STAGING);
    let io = |error: io::Error| TaskError::new(format_args!("snapshot-restore: {error}"));
    files::remove_all(&staging).map_err(io)?;
    fs::create_dir_all(&staging).map_err(io)?;
    let limits = Limits {
        bytes: available_bytes(&staging, ctx.node.settings().snapshot_max_bytes).map_err(io)?,
        entries: MAX_ENTRIES,
    };
    let file = File::open(&archive.file).map_err(io)?;
    let mut last = 0;
    let unpacked = archive::unpack(file, &staging, limits, &mut |done| {
        // Throttled: the callback runs for every chunk.
        if done.bytes - last > 16 << 20 {
            last = done.bytes;
            (progress.unpacked_bytes, progress.entries) = (done.bytes, done.entries);
            ctx.execution.progress.set(progress);
        }
        !ctx.execution.token.is_cancelled()
    });
    let unpacked = match unpacked {
        Ok(unpacked) => unpacked,
        Err(error) => {
            files::remove_all(&staging).map_err(io)?;
            if matches!(error, UnpackError::Corrupt(_)) {
                // The download is corrupt: the next attempt downloads it again.
                archive.remove().map_err(io)?;
            }
            return Err(TaskError::new(format_args!("snapshot-restore: {}: {error}", progress.key)));
        }
    };
    let pruned = match pruner::prune(&staging.join(METADATA_DB), &staging) {
        Ok(pruned) => pruned,
        Err(error) => {
            files::remove_all(&staging).map_err(io)?;
            return Err(TaskError::new(format_args!("snapshot-restore: {}: {error}", progress.key)));
        }
    };
    if pruned > 0 {
        tracing::info!(pruned, key = progress.key, "removed metadata of snapshots missing from the archive");
    }
    move_into_place(&staging, &home.join(home::SNAPSHOTS)).map_err(io)?;
    Ok(unpacked)
}

/// Returns how many bytes may be unpacked: the limit, or the free space of the volume if that is less.
fn available_bytes(dir: &Path, limit: u64) -> io::Result<u64> {
    let volume = rustix::fs::statvfs(dir)?;
    Ok((volume.f_bavail * volume.f_frsize).saturating_sub(RESERVED_BYTES).min(limit))
}

/// Moves the unpacked entries into the snapshot directory, one rename each.
fn move_into_place(staging: &Path, snapshots: &Path) -> io::Result<()> {
    fs::create_dir_all(snapshots)?;
    for entry in fs::read_dir(staging)? {
        let entry = entry?;
        let target: PathBuf = snapshots.join(entry.file_name());
        files::remove_all(&target)?;
        fs::rename(entry.path(), &target)?;
    }
    files::sync_dir(snapshots)?;
    files::remove_all(staging)
}
