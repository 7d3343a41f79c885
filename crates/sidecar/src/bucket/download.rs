//! Resumable downloads of large objects in ranges.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};

use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::body::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;

use super::writer::Writer;
use super::{BucketClient, Error};
use crate::node::files;

/// The size of one range request.
const RANGE_BYTES: u64 = 4 << 20;

/// Concurrent range requests. Memory use is a small multiple of this times [`RANGE_BYTES`], including TLS and disk buffers.
const CONCURRENCY: usize = 3;

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectVersion {
    /// The object key.
    pub key: String,
    /// The size in bytes.
    pub size: u64,
    /// The ETag, or the modification time if the store has no ETags.
    pub tag: String,
}

/// The target of a download. A second file next to it records the object version it belongs to.
#[derive(Clone, Debug)]
pub struct Download {
    /// The file.
    pub file: PathBuf,
}

impl Download {
    fn version_file(&self) -> PathBuf {
        self.file.with_extension("tag")
    }

    /// Returns how many bytes were downloaded before; 0 if the file belongs to another version.
    fn resume_offset(&self, version: &ObjectVersion) -> u64 {
        let recorded = files::read(&self.version_file()).ok().flatten();
        let recorded = recorded.and_then(|text| serde_json::from_str::<ObjectVersion>(&text).ok());
        let length = std::fs::metadata(&self.file).map_or(0, |metadata| metadata.len());
        if recorded.as_ref() == Some(version) && length <= version.size { length } else { 0 }
    }

    /// Deletes the downloaded data.
    pub fn remove(&self) -> std::io::Result<()> {
        files::remove(&self.file)?;
        files::remove(&self.version_file())
    }
}

impl BucketClient {
    /// Returns the current version of an object.
    pub async fn head(&self, key: &str) -> Result<ObjectVersion, Error> {
        let metadata = self.store.head(&Path::from(key)).await.map_err(|error| self.map_error(key)(error))?;
        let tag = metadata.e_tag.unwrap_or_else(|| metadata.last_modified.to_rfc3339());
        Ok(ObjectVersion { key: key.to_owned(), size: metadata.size, tag })
    }

    /// Downloads an object, resuming an earlier attempt. Calls `on_progress` with the number of bytes on disk.
    pub async fn download(
        &self,
        version: &ObjectVersion,
        target: &Download,
        threads: &TaskTracker,
        on_progress: impl Fn(u64),
    ) -> Result<(), Error> {
        let io = |error| Error::Io(target.file.display().to_string(), error);
        let offset = target.resume_offset(version);
        let file = match offset {
            0 => {
                target.remove().map_err(io)?;
                let text = serde_json::to_vec(version).unwrap_or_default();
                files::write(&target.version_file(), &text, 0o644).map_err(io)?;
                File::create(&target.file).map_err(io)?
            }
            _ => OpenOptions::new().append(true).open(&target.file).map_err(io)?,
        };
        let mut file = Writer::new(file, threads);
        on_progress(offset);
        let starts =
            (0..).map(|index| offset + index * RANGE_BYTES).take_while(|start| *start < version.size);
        let ranges = starts.map(|start| start..(start + RANGE_BYTES).min(version.size));
        let mut chunks =
            stream::iter(ranges).map(|range| self.get_range(version, range)).buffered(CONCURRENCY);
        let mut length = offset;
        while let Some(chunk) = chunks.try_next().await? {
            // In order: the length of the file is the resume offset.
            let chunk_length = chunk.len() as u64;
            file.write(chunk).await.map_err(io)?;
            length += chunk_length;
            on_progress(length);
        }
        file.finish().await.map_err(io)?;
        match length == version.size {
            true => Ok(()),
            false => Err(Error::Io(
                FilePath::display(&target.file).to_string(),
                std::io::ErrorKind::UnexpectedEof.into(),
            )),
        }
    }

    /// Reads a range; fails if the object was replaced since the download started.
    async fn get_range(&self, version: &ObjectVersion, range: Range<u64>) -> Result<Bytes, Error> {
        let is_etag = version.tag.starts_with('"') || !version.tag.contains('T');
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: is_etag.then(|| version.tag.clone()),
            ..GetOptions::default()
        };
        let path = Path::from(version.key.as_str());
        let failed = self.map_error(&version.key);
        let got = self.store.get_opts(&path, options).await.map_err(&failed)?;
        got.bytes().await.map_err(&failed)
    }
}
