//! One upload: the second-newest snapshot, unless it was uploaded before. seid may still be writing the newest one.

use std::io::{self, Write};

use hyper::body::Bytes;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::super::{TaskContext, TaskError};
use crate::archive;
use crate::bucket::{self, BucketClient};
use crate::node::{files, home};

/// Chunk size between the packing thread and the upload.
const CHUNK: usize = 1 << 20;

/// The outcome of an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum UploadOutcome {
    /// A snapshot was uploaded.
    Uploaded { height: u64, key: String },
    /// There was nothing to do.
    Noop { noop_reason: &'static str },
}

/// State file: the last uploaded snapshot.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UploadState {
    last_uploaded_height: u64,
    last_uploaded_at: i64,
}

/// Uploads the newest complete snapshot, which is the second-newest one, unless it was uploaded before.
pub(super) async fn upload_newest_complete(ctx: &TaskContext) -> Result<UploadOutcome, TaskError> {
    let home = ctx.node.home();
    let snapshots = home.join(home::SNAPSHOTS);
    let dir = snapshots.clone();
    let heights = ctx.blocking(move || Ok(super::heights(&dir))).await?;
    let Some(height) = heights.len().checked_sub(2).map(|index| heights[index]) else {
        return Ok(UploadOutcome::Noop { noop_reason: "fewer-than-2-snapshots" });
    };
    let state_file = home.join(home::LAST_UPLOAD);
    let previous = files::read(&state_file).map_err(TaskError::new)?;
    // An unreadable state file counts as missing: uploading twice is harmless.
    let previous: UploadState =
        previous.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if previous.last_uploaded_height >= height {
        return Ok(UploadOutcome::Noop { noop_reason: "already-uploaded" });
    }
    let failed = |error: bucket::Error| TaskError::new(format_args!("snapshot-upload: {error}"));
    let settings = ctx.node.settings();
    let store = BucketClient::open(&settings.snapshots).map_err(failed)?;
    let prefix = super::prefix(&settings.chain_id);
    let key = format!("{prefix}{height}.tar.gz");
    pack_and_upload(ctx, &store, &key, vec![height.to_string(), "metadata.db".into()]).await?;
    // In this order: a reader of latest.txt must find the archive.
    store.put(&format!("{prefix}latest.txt"), height.to_string().into_bytes()).await.map_err(failed)?;
    let state = UploadState { last_uploaded_height: height, last_uploaded_at: Timestamp::now().as_second() };
    let text = serde_json::to_vec(&state).map_err(TaskError::new)?;
    files::write(&state_file, &text, 0o644).map_err(TaskError::new)?;
    Ok(UploadOutcome::Uploaded { height, key })
}

/// Packs and uploads concurrently: the archive is never stored on disk.
async fn pack_and_upload(
    ctx: &TaskContext,
    store: &BucketClient,
    key: &str,
    names: Vec<String>,
) -> Result<(), TaskError> {
    let failed = |error: bucket::Error| TaskError::new(format_args!("snapshot-upload: {error}"));
    let (sender, mut chunks) = mpsc::channel::<Bytes>(2);
    let dir = ctx.node.home().join(home::SNAPSHOTS);
    let packing = ctx.blocking(move || {
        let mut writer = ChunkWriter { sender, buffer: Vec::with_capacity(CHUNK) };
        archive::pack(&mut writer, &dir, &names)
            .map_err(|error| TaskError::new(format_args!("snapshot-upload: packing: {error}")))
    });
    let sending = async {
        let mut upload = store.upload(key).await.map_err(failed)?;
        while let Some(chunk) = chunks.recv().await {
            upload.write(&chunk).await.map_err(failed)?;
        }
        // Unblocks a packing thread that still wants to send.
        chunks.close();
        Ok::<_, TaskError>(upload)
    };
    tokio::pin!(packing);
    tokio::pin!(sending);
    // The first failure is reported and ends the other side. An incomplete archive is never finished.
    let upload = tokio::select! {
        packed = &mut packing => {
            packed?;
            sending.await?
        }
        sent = &mut sending => {
            let upload = sent?;
            packing.await?;
            upload
        }
    };
    upload.finish().await.map_err(failed)
}

/// Sends written bytes in chunks. Writing fails once the receiver is gone.
struct ChunkWriter {
    sender: mpsc::Sender<Bytes>,
    buffer: Vec<u8>,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK)));
        self.sender.blocking_send(chunk).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
