//! Object storage client: an S3 bucket, or a local directory (`file://`).

mod download;
mod error;
mod upload;
mod writer;

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use api::names::env::sidecar::S3_VIRTUAL_HOST;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attribute, Certificate, ClientOptions, ObjectStore, ObjectStoreExt, PutOptions, PutPayload,
};
use tokio_util::task::TaskTracker;

pub use self::download::{Download, ObjectVersion};
pub use self::error::Error;
pub use self::upload::Upload;

use self::error::classify;
use self::writer::Writer;
use crate::roots;
use crate::settings::Bucket;

/// Timeout of one request, which transfers a few MiB on a slow link.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Timeout of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for one bucket.
#[derive(Clone, Debug)]
pub struct BucketClient {
    store: Arc<dyn ObjectStore>,
    location: String,
}

impl BucketClient {
    /// Creates a client. Credentials come from the environment or from the pod's identity.
    pub fn open(bucket: &Bucket) -> Result<Self, Error> {
        let failed = |error: object_store::Error| Error::Request {
            location: bucket.name.clone(),
            message: error.to_string(),
            hint: "check the bucket name and the AWS_* environment variables",
        };
        let store: Arc<dyn ObjectStore> = match bucket.name.strip_prefix("file://") {
            Some(dir) => Arc::new(LocalFileSystem::new_with_prefix(dir).map_err(failed)?),
            None => Arc::new(s3_client(bucket).map_err(failed)?),
        };
        let location = if bucket.name.starts_with("file://") {
            bucket.name.clone()
        } else {
            format!("s3://{}", bucket.name)
        };
        Ok(Self { store, location })
    }

    /// Returns the URL of the bucket, for messages.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    fn map_error(&self, key: &str) -> impl Fn(object_store::Error) -> Error + '_ {
        let key = key.to_owned();
        move |error| classify(&self.location, &key, &error)
    }

    /// Lists all objects below a prefix that ends with `/`, with their sizes.
    pub async fn list(&self, prefix: &str) -> Result<BTreeMap<String, u64>, Error> {
        let listed = self.store.list(Some(&Path::from(prefix)));
        let sizes = listed.map_ok(|object| (object.location.to_string(), object.size));
        sizes.try_collect().await.map_err(|error| self.map_error(prefix)(error))
    }

    /// Reads a small object into memory.
    pub async fn get(&self, key: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let response = self.store.get(&Path::from(key)).await.map_err(|error| self.map_error(key)(error))?;
        let mut chunks = response.into_stream();
        let mut content = Vec::new();
        while let Some(chunk) = chunks.try_next().await.map_err(|error| self.map_error(key)(error))? {
            if (content.len() + chunk.len()) as u64 > limit {
                return Err(self.too_large(key, limit));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// Downloads an object to a file and replaces the file.
    pub async fn download_to(
        &self,
        key: &str,
        path: &FilePath,
        limit: u64,
        threads: &TaskTracker,
    ) -> Result<(), Error> {
        let io = |error| Error::Io(path.display().to_string(), error);
        let response = self.store.get(&Path::from(key)).await.map_err(|error| self.map_error(key)(error))?;
        let mut chunks = response.into_stream();
        let mut file = Writer::new(std::fs::File::create(path).map_err(io)?, threads);
        let mut length = 0;
        while let Some(chunk) = chunks.try_next().await.map_err(|error| self.map_error(key)(error))? {
            length += chunk.len() as u64;
            if length > limit {
                return Err(self.too_large(key, limit));
            }
            file.write(chunk).await.map_err(io)?;
        }
        file.finish().await.map_err(io)
    }

    /// Writes a small object.
    pub async fn put(&self, key: &str, content: Vec<u8>) -> Result<(), Error> {
        let put = self.store.put(&Path::from(key), PutPayload::from(content)).await;
        put.map(drop).map_err(|error| self.map_error(key)(error))
    }

    /// Writes a JSON document.
    pub async fn put_json(&self, key: &str, content: Vec<u8>) -> Result<(), Error> {
        let mut options = PutOptions::default();
        // The local file system does not support content types.
        if !self.location.starts_with("file://") {
            options.attributes.insert(Attribute::ContentType, "application/json".into());
        }
        let put = self.store.put_opts(&Path::from(key), PutPayload::from(content), options).await;
        put.map(drop).map_err(|error| self.map_error(key)(error))
    }

    fn too_large(&self, key: &str, limit: u64) -> Error {
        Error::TooLarge { location: self.location.clone(), key: key.to_owned(), limit }
    }
}

fn s3_client(bucket: &Bucket) -> object_store::Result<object_store::aws::AmazonS3> {
    let mut options =
        ClientOptions::new().with_timeout(REQUEST_TIMEOUT).with_connect_timeout(CONNECT_TIMEOUT);
    for certificate in roots::bundled() {
        options = options.with_root_certificate(Certificate::from_der(certificate)?);
    }
    let env = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].iter().find_map(env);
    let is_plain = endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
    let is_virtual_hosted = env(&S3_VIRTUAL_HOST).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut builder = AmazonS3Builder::from_env()
        .with_client_options(options)
        .with_bucket_name(&bucket.name)
        .with_region(&bucket.region)
        .with_allow_http(is_plain);
    if let Some(endpoint) = endpoint.filter(|_| is_virtual_hosted) {
        builder = builder.with_endpoint(virtual_host_endpoint(&endpoint, &bucket.name));
    }
    builder.build()
}

/// Returns the virtual-host endpoint of a bucket. The client does not add the bucket name to a custom endpoint itself.
fn virtual_host_endpoint(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, rest)) if !rest.starts_with(&format!("{bucket}.")) => {
            format!("{scheme}://{bucket}.{rest}")
        }
        _ => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_host_endpoint_contains_bucket_name_once() {
        let endpoint = |endpoint| virtual_host_endpoint(endpoint, "snapshots");
        assert_eq!(endpoint("https://s3.example:9000"), "https://snapshots.s3.example:9000");
        assert_eq!(endpoint("https://snapshots.s3.example"), "https://snapshots.s3.example");
    }
}
