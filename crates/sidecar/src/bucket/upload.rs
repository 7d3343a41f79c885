//! Multipart upload of unknown size. An unfinished upload never becomes visible.

use hyper::body::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};

use super::{BucketClient, Error, classify};

/// The part size: it grows before the server's limit of 10,000 parts is reached.
const PART: usize = 8 << 20;
const LARGE_PART: usize = 16 << 20;
const LARGE_PART_FROM: usize = 5000;

/// An upload in progress.
pub struct Upload {
    client: BucketClient,
    key: String,
    parts: Option<Box<dyn MultipartUpload>>,
    buffer: Vec<u8>,
    sent: usize,
}

impl BucketClient {
    /// Starts an upload.
    pub async fn upload(&self, key: &str) -> Result<Upload, Error> {
        let parts =
            self.store.put_multipart(&Path::from(key)).await.map_err(|error| self.map_error(key)(error))?;
        Ok(Upload {
            client: self.clone(),
            key: key.to_owned(),
            parts: Some(parts),
            buffer: Vec::new(),
            sent: 0,
        })
    }
}

impl Upload {
    /// Appends bytes.
    pub async fn write(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(chunk);
        let size = if self.sent < LARGE_PART_FROM { PART } else { LARGE_PART };
        if self.buffer.len() >= size { self.send_part().await } else { Ok(()) }
    }

    async fn send_part(&mut self) -> Result<(), Error> {
        let Some(parts) = self.parts.as_mut() else { return Ok(()) };
        let part = PutPayload::from_bytes(Bytes::from(std::mem::take(&mut self.buffer)));
        self.sent += 1;
        let sent = parts.put_part(part).await;
        sent.map_err(|error| classify(&self.client.location, &self.key, &error))
    }

    /// Completes the upload.
    pub async fn finish(mut self) -> Result<(), Error> {
        if !self.buffer.is_empty() || self.sent == 0 {
            self.send_part().await?;
        }
        let Some(mut parts) = self.parts.take() else { return Ok(()) };
        match parts.complete().await {
            Ok(_) => Ok(()),
            Err(error) => {
                self.parts = Some(parts);
                Err(classify(&self.client.location, &self.key, &error))
            }
        }
    }
}

/// Aborts an unfinished upload: its parts cost money and are invisible.
impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(mut parts), Ok(runtime)) = (self.parts.take(), tokio::runtime::Handle::try_current()) {
            let key = self.key.clone();
            runtime.spawn(async move {
                if let Err(error) = parts.abort().await {
                    tracing::warn!(key, %error, "failed to abort multipart upload; its parts stay in the bucket");
                }
            });
        }
    }
}
