//! A real S3 server (MinIO).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{ObjectStoreExt as _, PutPayload};

use crate::cluster::parts::Part;
use crate::cluster::site::Site;
use crate::error::{Error, IoContext, Result};
use crate::harness::wait;
use crate::process::probe;
use crate::process::{Process, Program};

const PORT: u16 = 9000;

/// Startup timeout.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running S3 server, reachable from this process, from nodes and from pods; stopped on drop.
#[derive(Debug)]
pub struct S3 {
    process: Process,
    data: PathBuf,
    site: Arc<Site>,
}

impl S3 {
    /// Access key ID.
    pub const ACCESS_KEY_ID: &str = "testbed";
    /// Secret access key. Not confidential: the server is reachable only from this machine, and only during a test.
    pub const SECRET_ACCESS_KEY: &str = "testbed-secret";
    /// Region of the server.
    pub const REGION: &str = "us-east-1";

    /// Starts the server on a site and returns when it is ready.
    pub async fn start(site: &Arc<Site>) -> Result<Self> {
        let program = Part::S3.ensure()?.join("bin/minio");
        let data = site.dir().join("s3");
        fs::create_dir_all(&data).context(|| format!("creating {}", data.display()))?;
        let process = Program::new("s3", program)
            .arg("server")
            .arg(&data)
            .args(["--address", &format!("{}:{PORT}", site.addresses().control_plane())])
            // Console listener, which would otherwise use a random port.
            .args(["--console-address", "127.0.0.1:9001"])
            .env("MINIO_ROOT_USER", Self::ACCESS_KEY_ID)
            .env("MINIO_ROOT_PASSWORD", Self::SECRET_ACCESS_KEY)
            .env("MINIO_BROWSER", "off")
            .env("MINIO_UPDATE", "off")
            .in_netns(site.netns())
            .start(site)?;
        let started = Self { process, data, site: site.clone() };
        wait::until("the S3 server to become ready", READY_WITHIN, || async {
            started.check_alive()?;
            probe::http_ok((started.site.addresses().control_plane(), PORT).into(), "/minio/health/ready")
                .await
        })
        .await?;
        Ok(started)
    }

    /// Returns the URL of the S3 API; buckets are addressed by path.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}:{PORT}", self.site.addresses().control_plane())
    }

    /// Creates an empty bucket. The server treats every directory in its data directory as a bucket.
    pub fn create_bucket(&self, name: &str) -> Result<()> {
        let dir = self.data.join(name);
        fs::create_dir(&dir).context(|| format!("creating bucket {name} ({})", dir.display()))
    }

    /// Returns a client of a bucket.
    pub fn bucket_client(&self, bucket: &str) -> Result<AmazonS3> {
        let store = AmazonS3Builder::new()
            .with_endpoint(self.endpoint())
            .with_allow_http(true)
            .with_region(Self::REGION)
            .with_bucket_name(bucket)
            .with_access_key_id(Self::ACCESS_KEY_ID)
            .with_secret_access_key(Self::SECRET_ACCESS_KEY)
            .build();
        store.map_err(|error| Error::Other(format!("creating a client of bucket {bucket}: {error}")))
    }

    /// Uploads an object to a bucket.
    pub async fn put(&self, bucket: &str, key: &str, content: impl Into<PutPayload>) -> Result<()> {
        let put = self.bucket_client(bucket)?.put(&key.into(), content.into()).await;
        put.map(drop).map_err(|error| Error::Other(format!("uploading {key} to bucket {bucket}: {error}")))
    }

    /// Returns the port of the S3 API.
    pub(crate) fn port(&self) -> u16 {
        PORT
    }

    /// Fails if the process has exited.
    pub fn check_alive(&self) -> Result<()> {
        self.process.check_alive()
    }
}
