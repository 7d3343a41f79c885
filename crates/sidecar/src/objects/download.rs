//! Large objects, in parts: what is there already is not fetched again.

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
use super::{Error, Objects};
use crate::node::files;

/// The size of one part.
const PART: u64 = 4 << 20;

/// Parts that are fetched at once; with what TLS and the disk hold, a few times this many megabytes.
const AT_ONCE: usize = 3;

/// Which object a file is a part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tag {
    /// Its key.
    pub key: String,
    /// Its size.
    pub size: u64,
    /// What changes with its content.
    pub tag: String,
}

/// A download: the file, and beside it which object it is a part of.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The file.
    pub file: PathBuf,
}

impl Wanted {
    fn note(&self) -> PathBuf {
        self.file.with_extension("tag")
    }

    /// How much of the object is there. A file of another object is worth nothing.
    fn there(&self, tag: &Tag) -> u64 {
        let noted = files::read(&self.note()).ok().flatten();
        let same = noted.and_then(|text| serde_json::from_str::<Tag>(&text).ok()).as_ref() == Some(tag);
        let length = std::fs::metadata(&self.file).map_or(0, |about| about.len());
        if same && length <= tag.size { length } else { 0 }
    }

    /// Forgets what was fetched.
    pub fn remove(&self) -> std::io::Result<()> {
        files::remove(&self.file)?;
        files::remove(&self.note())
    }
}

impl Objects {
    /// What an object is.
    pub async fn tag(&self, key: &str) -> Result<Tag, Error> {
        let about = self.store.head(&Path::from(key)).await.map_err(|error| self.failed(key)(error))?;
        let tag = about.e_tag.unwrap_or_else(|| about.last_modified.to_rfc3339());
        Ok(Tag { key: key.to_owned(), size: about.size, tag })
    }

    /// Fetches an object, from where an earlier try has come to. `seen` is told how much is there.
    pub async fn fetch(
        &self,
        tag: &Tag,
        to: &Wanted,
        threads: &TaskTracker,
        seen: impl Fn(u64),
    ) -> Result<(), Error> {
        let io = |error| Error::Io(to.file.display().to_string(), error);
        let from = to.there(tag);
        let file = match from {
            0 => {
                to.remove().map_err(io)?;
                let text = serde_json::to_vec(tag).unwrap_or_default();
                files::write(&to.note(), &text, 0o644).map_err(io)?;
                File::create(&to.file).map_err(io)?
            }
            _ => OpenOptions::new().append(true).open(&to.file).map_err(io)?,
        };
        let mut file = Writer::new(file, threads);
        seen(from);
        let starts = (0..).map(|part| from + part * PART).take_while(|start| *start < tag.size);
        let ranges = starts.map(|start| start..(start + PART).min(tag.size));
        let mut parts = stream::iter(ranges).map(|range| self.part(tag, range)).buffered(AT_ONCE);
        let mut length = from;
        while let Some(part) = parts.try_next().await? {
            // In order: the file's length says how much is there.
            let more = part.len() as u64;
            file.write(part).await.map_err(io)?;
            length += more;
            seen(length);
        }
        file.finish().await.map_err(io)?;
        match length == tag.size {
            true => Ok(()),
            false => Err(Error::Io(
                FilePath::display(&to.file).to_string(),
                std::io::ErrorKind::UnexpectedEof.into(),
            )),
        }
    }

    /// One part, of the object as it was when the download began.
    async fn part(&self, tag: &Tag, range: Range<u64>) -> Result<Bytes, Error> {
        let is_etag = tag.tag.starts_with('"') || !tag.tag.contains('T');
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: is_etag.then(|| tag.tag.clone()),
            ..GetOptions::default()
        };
        let path = Path::from(tag.key.as_str());
        let failed = self.failed(&tag.key);
        let got = self.store.get_opts(&path, options).await.map_err(&failed)?;
        got.bytes().await.map_err(&failed)
    }
}
