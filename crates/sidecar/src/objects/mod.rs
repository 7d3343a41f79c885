//! Objects: in a bucket of S3, or in a folder.

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

pub use self::download::{Tag, Wanted};
pub use self::error::Error;
pub use self::upload::Upload;

use self::error::classify;
use self::writer::Writer;
use crate::roots;
use crate::settings::Bucket;

/// One request: a part of a few megabytes, on a slow line.
const REQUEST_WITHIN: Duration = Duration::from_secs(300);

/// To reach a server.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A place for objects.
#[derive(Clone, Debug)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    place: String,
}

impl Objects {
    /// The place that settings name. Credentials come from the environment, or from the pod's identity.
    pub fn of(bucket: &Bucket) -> Result<Self, Error> {
        let refused = |why: object_store::Error| Error::Place {
            place: bucket.name.clone(),
            why: why.to_string(),
            hint: "look at the bucket's name and at AWS_* in the environment",
        };
        let store: Arc<dyn ObjectStore> = match bucket.name.strip_prefix("file://") {
            Some(folder) => Arc::new(LocalFileSystem::new_with_prefix(folder).map_err(refused)?),
            None => Arc::new(s3(bucket).map_err(refused)?),
        };
        let place = if bucket.name.starts_with("file://") {
            bucket.name.clone()
        } else {
            format!("s3://{}", bucket.name)
        };
        Ok(Self { store, place })
    }

    /// Where it is, for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    fn failed(&self, key: &str) -> impl Fn(object_store::Error) -> Error + '_ {
        let key = key.to_owned();
        move |error| classify(&self.place, &key, &error)
    }

    /// All objects below a key that ends with `/`, each with its size.
    pub async fn list(&self, prefix: &str) -> Result<BTreeMap<String, u64>, Error> {
        let listed = self.store.list(Some(&Path::from(prefix)));
        let sizes = listed.map_ok(|object| (object.location.to_string(), object.size));
        sizes.try_collect().await.map_err(|error| self.failed(prefix)(error))
    }

    /// A small object.
    pub async fn read(&self, key: &str, most: u64) -> Result<Vec<u8>, Error> {
        let got = self.store.get(&Path::from(key)).await.map_err(|error| self.failed(key)(error))?;
        let mut chunks = got.into_stream();
        let mut content = Vec::new();
        while let Some(chunk) = chunks.try_next().await.map_err(|error| self.failed(key)(error))? {
            if (content.len() + chunk.len()) as u64 > most {
                return Err(self.too_large(key, most));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// Puts an object into a file, which is made anew.
    pub async fn save(
        &self,
        key: &str,
        path: &FilePath,
        most: u64,
        threads: &TaskTracker,
    ) -> Result<(), Error> {
        let io = |error| Error::Io(path.display().to_string(), error);
        let got = self.store.get(&Path::from(key)).await.map_err(|error| self.failed(key)(error))?;
        let mut chunks = got.into_stream();
        let mut file = Writer::new(std::fs::File::create(path).map_err(io)?, threads);
        let mut length = 0;
        while let Some(chunk) = chunks.try_next().await.map_err(|error| self.failed(key)(error))? {
            length += chunk.len() as u64;
            if length > most {
                return Err(self.too_large(key, most));
            }
            file.write(chunk).await.map_err(io)?;
        }
        file.finish().await.map_err(io)
    }

    /// Writes a small object.
    pub async fn write(&self, key: &str, content: Vec<u8>) -> Result<(), Error> {
        let put = self.store.put(&Path::from(key), PutPayload::from(content)).await;
        put.map(drop).map_err(|error| self.failed(key)(error))
    }

    /// Writes a document of JSON.
    pub async fn write_json(&self, key: &str, content: Vec<u8>) -> Result<(), Error> {
        let mut options = PutOptions::default();
        // A folder has no place for the type.
        if !self.place.starts_with("file://") {
            options.attributes.insert(Attribute::ContentType, "application/json".into());
        }
        let put = self.store.put_opts(&Path::from(key), PutPayload::from(content), options).await;
        put.map(drop).map_err(|error| self.failed(key)(error))
    }

    fn too_large(&self, key: &str, most: u64) -> Error {
        Error::TooLarge { place: self.place.clone(), key: key.to_owned(), most }
    }
}

fn s3(bucket: &Bucket) -> object_store::Result<object_store::aws::AmazonS3> {
    let mut options = ClientOptions::new().with_timeout(REQUEST_WITHIN).with_connect_timeout(CONNECT_WITHIN);
    for authority in roots::built_in() {
        options = options.with_root_certificate(Certificate::from_der(authority)?);
    }
    let given = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].iter().find_map(given);
    let is_plain = endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
    let by_host = given(&S3_VIRTUAL_HOST).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut builder = AmazonS3Builder::from_env()
        .with_client_options(options)
        .with_bucket_name(&bucket.name)
        .with_region(&bucket.region)
        .with_allow_http(is_plain);
    if let Some(endpoint) = endpoint.filter(|_| by_host) {
        builder = builder.with_endpoint(host_of_bucket(&endpoint, &bucket.name));
    }
    builder.build()
}

/// The address of a bucket that has a host name of its own. The client takes what it is given for that address.
fn host_of_bucket(endpoint: &str, bucket: &str) -> String {
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
    fn a_bucket_may_have_a_host_name_of_its_own() {
        let of = |endpoint| host_of_bucket(endpoint, "snapshots");
        assert_eq!(of("https://s3.example:9000"), "https://snapshots.s3.example:9000");
        assert_eq!(of("https://snapshots.s3.example"), "https://snapshots.s3.example");
    }
}
