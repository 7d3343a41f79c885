//! `snapshot-restore`: fetches a snapshot. Killed in the middle, it goes on where it was.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::sidecar_wire::{SnapshotRestore, TaskType};
use serde::Serialize;
use serde_json::json;

use super::super::{Doing, Failure, Kind, Limit, Outcome, Resource, Work};
use super::index;
use crate::archive::{self, Limits, UnpackError};
use crate::node::{files, home, marker};
use crate::objects::{self, Objects, Tag, Wanted};

pub(in crate::kinds) const KIND: Kind = Kind {
    task: TaskType::SnapshotRestore,
    changes: &[Resource::Data],
    limit: Limit::Within(Duration::from_secs(48 * 3600)),
    waits: false,
    run: |work| -> Doing { Box::pin(run(work)) },
};

/// More than any snapshot has.
const ENTRIES: u64 = 1_000_000;

/// What the volume keeps for everything else.
const RESERVE: u64 = 64 << 20;

/// Where an archive is unpacked before its content is put in its place.
const STAGING: &str = "data/.snapshot-restore";

/// The list of snapshots in an archive.
const LIST: &str = "metadata.db";

/// How far it is.
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

async fn run(work: Work) -> Outcome {
    let params: SnapshotRestore = work.params()?;
    let target =
        u64::try_from(params.target_height).map_err(|_| Failure::new("targetHeight must not be negative"))?;
    let given = json!({ "targetHeight": target });
    let home = work.node.home().to_owned();
    if let Some(done) = marker::SNAPSHOT.read(&home).map_err(Failure::new)? {
        // A kill right after the marker has left what was fetched, which is as large as the snapshot.
        work.blocking(move || forget(&home.join(home::TMP), None).map_err(Failure::new)).await?;
        return Ok(Some(done.result(&given)));
    }
    let failed = |error: objects::Error| Failure::new(format_args!("snapshot-restore: {error}"));
    let settings = work.node.settings();
    let objects = Objects::of(&settings.snapshots).map_err(failed)?;
    let prefix = super::prefix(&settings.chain_id);
    let keys = objects.list(&prefix).await.map_err(failed)?;
    let (height, key) = super::choose(keys.keys(), &prefix, target).ok_or_else(|| {
        let capped = if target == 0 { String::new() } else { format!(" at or below height {target}") };
        Failure::new(format_args!("no snapshot{capped} in {}/{prefix}", objects.place()))
    })?;
    let tag = objects.tag(&key).await.map_err(failed)?;
    let to = download_file(&home, height).map_err(Failure::new)?;
    let mut progress = fetch(&work, &objects, &tag, &to, height).await?;
    let on_thread = work.clone();
    let unpacked = {
        let (to, home, mut progress) = (to.clone(), home.clone(), progress.clone());
        work.blocking(move || unpack(&on_thread, &home, &to, &mut progress)).await?
    };
    progress.unpacked_bytes = unpacked.bytes;
    progress.entries = unpacked.entries;
    let result = json!(progress);
    work.blocking(move || {
        let done = (|| {
            files::write(&home.join(home::SNAPSHOT_HEIGHT), height.to_string().as_bytes(), 0o644)?;
            marker::SNAPSHOT.write(&home, &given, &result)?;
            to.remove()
        })();
        done.map_err(Failure::new).map(|()| Some(result))
    })
    .await
}

/// The file of a download. Those of other snapshots are of no use any more.
fn download_file(home: &Path, height: u64) -> io::Result<Wanted> {
    let folder = home.join(home::TMP);
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("snapshot-{height}.tar.gz"));
    forget(&folder, Some(height))?;
    Ok(Wanted { file })
}

/// Removes downloads, but for those of one height.
fn forget(folder: &Path, keep: Option<u64>) -> io::Result<()> {
    let kept = keep.map(|height| format!("snapshot-{height}."));
    for entry in files::entries(folder)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_kept = kept.as_ref().is_some_and(|kept| name.starts_with(kept));
        if name.starts_with("snapshot-") && !is_kept {
            files::remove(&entry.path())?;
        }
    }
    Ok(())
}

async fn fetch(
    work: &Work,
    objects: &Objects,
    tag: &Tag,
    to: &Wanted,
    height: u64,
) -> Result<Progress, Failure> {
    let begin = Progress {
        height,
        key: tag.key.clone(),
        size: tag.size,
        resumed_from: 0,
        downloaded: 0,
        unpacked_bytes: 0,
        entries: 0,
    };
    let seen = Mutex::new(None);
    let told = |length: u64| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, _) = *seen.get_or_insert((length, length));
        *seen = Some((first, length));
        work.execution.progress.set(&Progress { resumed_from: first, downloaded: length, ..begin.clone() });
    };
    let failed = |error: objects::Error| Failure::new(format_args!("snapshot-restore: {error}"));
    objects.fetch(tag, to, &work.threads, told).await.map_err(failed)?;
    let (first, length) = seen.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap_or_default();
    Ok(Progress { resumed_from: first, downloaded: length, ..begin })
}

fn unpack(
    work: &Work,
    home: &Path,
    from: &Wanted,
    progress: &mut Progress,
) -> Result<archive::Unpacked, Failure> {
    let staging = home.join(STAGING);
    let io = |error: io::Error| Failure::new(format_args!("snapshot-restore: {error}"));
    files::clear(&staging).map_err(io)?;
    fs::create_dir_all(&staging).map_err(io)?;
    let limits = Limits {
        bytes: room(&staging, work.node.settings().snapshot_max_bytes).map_err(io)?,
        entries: ENTRIES,
    };
    let file = File::open(&from.file).map_err(io)?;
    let mut last = 0;
    let unpacked = archive::unpack(file, &staging, limits, &mut |done| {
        // Now and then: it is made for every chunk otherwise.
        if done.bytes - last > 16 << 20 {
            last = done.bytes;
            (progress.unpacked_bytes, progress.entries) = (done.bytes, done.entries);
            work.execution.progress.set(progress);
        }
        !work.execution.token.is_cancelled()
    });
    let unpacked = match unpacked {
        Ok(unpacked) => unpacked,
        Err(error) => {
            files::clear(&staging).map_err(io)?;
            if matches!(error, UnpackError::Damaged(_)) {
                // What was fetched is not what was uploaded: the next try fetches it anew.
                from.remove().map_err(io)?;
            }
            return Err(Failure::new(format_args!("snapshot-restore: {}: {error}", progress.key)));
        }
    };
    let struck = index::strike_missing(&staging.join(LIST), &staging).map_err(io)?;
    if struck > 0 {
        tracing::info!(struck, key = progress.key, "its list named snapshots that are not in the archive");
    }
    place(&staging, &home.join(home::SNAPSHOTS)).map_err(io)?;
    Ok(unpacked)
}

/// How many bytes may be unpacked: what is allowed, or what the volume has left.
fn room(folder: &Path, most: u64) -> io::Result<u64> {
    let volume = rustix::fs::statvfs(folder)?;
    Ok((volume.f_bavail * volume.f_frsize).saturating_sub(RESERVE).min(most))
}

/// Puts what was unpacked in its place, one rename for each.
fn place(staging: &Path, snapshots: &Path) -> io::Result<()> {
    fs::create_dir_all(snapshots)?;
    for entry in fs::read_dir(staging)? {
        let entry = entry?;
        let to: PathBuf = snapshots.join(entry.file_name());
        files::clear(&to)?;
        fs::rename(entry.path(), &to)?;
    }
    files::sync_folder(snapshots)?;
    files::clear(staging)
}
