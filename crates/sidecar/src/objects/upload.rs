//! An upload whose size nobody knows yet. What was not finished is never seen.

use hyper::body::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};

use super::{Error, Objects, classify};

/// The size of a part: at first, and when there are so many that the server's limit of ten thousand comes near.
const PART: usize = 8 << 20;
const LARGE_PART: usize = 16 << 20;
const LARGE_FROM: usize = 5000;

/// An upload that is under way.
pub struct Upload {
    objects: Objects,
    key: String,
    parts: Option<Box<dyn MultipartUpload>>,
    buffer: Vec<u8>,
    sent: usize,
}

impl Objects {
    /// Begins an upload.
    pub async fn upload(&self, key: &str) -> Result<Upload, Error> {
        let parts =
            self.store.put_multipart(&Path::from(key)).await.map_err(|error| self.failed(key)(error))?;
        Ok(Upload {
            objects: self.clone(),
            key: key.to_owned(),
            parts: Some(parts),
            buffer: Vec::new(),
            sent: 0,
        })
    }
}

impl Upload {
    /// Adds to it.
    pub async fn write(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(chunk);
        let size = if self.sent < LARGE_FROM { PART } else { LARGE_PART };
        if self.buffer.len() >= size { self.send().await } else { Ok(()) }
    }

    async fn send(&mut self) -> Result<(), Error> {
        let Some(parts) = self.parts.as_mut() else { return Ok(()) };
        let part = PutPayload::from_bytes(Bytes::from(std::mem::take(&mut self.buffer)));
        self.sent += 1;
        let sent = parts.put_part(part).await;
        sent.map_err(|error| classify(&self.objects.place, &self.key, &error))
    }

    /// Makes it an object.
    pub async fn finish(mut self) -> Result<(), Error> {
        if !self.buffer.is_empty() || self.sent == 0 {
            self.send().await?;
        }
        let Some(mut parts) = self.parts.take() else { return Ok(()) };
        match parts.complete().await {
            Ok(_) => Ok(()),
            Err(error) => {
                self.parts = Some(parts);
                Err(classify(&self.objects.place, &self.key, &error))
            }
        }
    }
}

/// Parts of what was not finished are removed: they cost money, and nobody sees them.
impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(mut parts), Ok(runtime)) = (self.parts.take(), tokio::runtime::Handle::try_current()) {
            let key = self.key.clone();
            runtime.spawn(async move {
                if let Err(error) = parts.abort().await {
                    tracing::warn!(key, %error, "parts of an upload that was given up stay in the bucket");
                }
            });
        }
    }
}
