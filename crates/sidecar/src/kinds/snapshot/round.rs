//! One round of uploads: the newest snapshot but one, if it was not uploaded yet. The newest may still be written.

use std::io::{self, Write};

use hyper::body::Bytes;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::super::{Failure, Work};
use crate::archive;
use crate::node::{files, home};
use crate::objects::{self, Objects};

/// What the packer hands over at once.
const CHUNK: usize = 1 << 20;

/// What became of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Round {
    /// A snapshot was uploaded.
    Uploaded { height: u64, key: String },
    /// There was nothing to do.
    Noop { noop_reason: &'static str },
}

/// The snapshot that was uploaded last.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Last {
    last_uploaded_height: u64,
    last_uploaded_at: i64,
}

/// Does one round.
pub(super) async fn round(work: &Work) -> Result<Round, Failure> {
    let home = work.node.home();
    let snapshots = home.join(home::SNAPSHOTS);
    let folder = snapshots.clone();
    let heights = work.blocking(move || Ok(super::heights(&folder))).await?;
    let Some(height) = heights.len().checked_sub(2).map(|index| heights[index]) else {
        return Ok(Round::Noop { noop_reason: "fewer-than-2-snapshots" });
    };
    let state = home.join(home::LAST_UPLOAD);
    let last = files::read(&state).map_err(Failure::new)?;
    // One that cannot be read counts as none: to upload twice is harmless.
    let last: Last = last.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if last.last_uploaded_height >= height {
        return Ok(Round::Noop { noop_reason: "already-uploaded" });
    }
    let failed = |error: objects::Error| Failure::new(format_args!("snapshot-upload: {error}"));
    let settings = work.node.settings();
    let objects = Objects::of(&settings.snapshots).map_err(failed)?;
    let prefix = super::prefix(&settings.chain_id);
    let key = format!("{prefix}{height}.tar.gz");
    send(work, &objects, &key, vec![height.to_string(), "metadata.db".into()]).await?;
    // Each only after the one before: who reads the first finds the second.
    objects.write(&format!("{prefix}latest.txt"), height.to_string().into_bytes()).await.map_err(failed)?;
    let last = Last { last_uploaded_height: height, last_uploaded_at: Timestamp::now().as_second() };
    let text = serde_json::to_vec(&last).map_err(Failure::new)?;
    files::write(&state, &text, 0o644).map_err(Failure::new)?;
    Ok(Round::Uploaded { height, key })
}

/// Packs and uploads at once: no archive is ever on disk.
async fn send(work: &Work, objects: &Objects, key: &str, names: Vec<String>) -> Result<(), Failure> {
    let failed = |error: objects::Error| Failure::new(format_args!("snapshot-upload: {error}"));
    let (to, mut chunks) = mpsc::channel::<Bytes>(2);
    let folder = work.node.home().join(home::SNAPSHOTS);
    let packing = work.blocking(move || {
        let mut writer = Chunks { to, buffer: Vec::with_capacity(CHUNK) };
        archive::pack(&mut writer, &folder, &names)
            .map_err(|error| Failure::new(format_args!("snapshot-upload: packing: {error}")))
    });
    let sending = async {
        let mut upload = objects.upload(key).await.map_err(failed)?;
        while let Some(chunk) = chunks.recv().await {
            upload.write(&chunk).await.map_err(failed)?;
        }
        // Nobody hears the packer any more, should it hang on to a chunk.
        chunks.close();
        Ok::<_, Failure>(upload)
    };
    tokio::pin!(packing);
    tokio::pin!(sending);
    // Whichever fails first says why; the other ends with it. An archive that is not whole is never finished.
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

/// Hands over what is written, in chunks. Who does not listen any more ends the writing.
struct Chunks {
    to: mpsc::Sender<Bytes>,
    buffer: Vec<u8>,
}

impl Write for Chunks {
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
        self.to.blocking_send(chunk).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
