//! A real S3 server.

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

/// How long it may take to serve.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running S3 server, reachable from this process, from nodes and from pods; it ends when dropped.
#[derive(Debug)]
pub struct S3 {
    process: Process,
    data: PathBuf,
    site: Arc<Site>,
}

impl S3 {
    /// The access key id.
    pub const ACCESS_KEY_ID: &str = "testbed";
    /// The secret access key: a secret of a server that only this machine can reach, and only while a test runs.
    pub const SECRET_ACCESS_KEY: &str = "testbed-secret";
    /// The region it answers for.
    pub const REGION: &str = "us-east-1";

    /// Starts it on a site and returns when it serves.
    pub async fn on(site: &Arc<Site>) -> Result<Self> {
        let program = Part::S3.ensure()?.join("bin/minio");
        let data = site.dir().join("s3");
        fs::create_dir_all(&data).context(|| format!("making {}", data.display()))?;
        let process = Program::new("s3", program)
            .arg("server")
            .arg(&data)
            .args(["--address", &format!("{}:{PORT}", site.addresses().control_plane())])
            // A second listener, which it would otherwise put on a port of its choice.
            .args(["--console-address", "127.0.0.1:9001"])
            .env("MINIO_ROOT_USER", Self::ACCESS_KEY_ID)
            .env("MINIO_ROOT_PASSWORD", Self::SECRET_ACCESS_KEY)
            .env("MINIO_BROWSER", "off")
            .env("MINIO_UPDATE", "off")
            .in_netns(site.netns())
            .start(site)?;
        let started = Self { process, data, site: site.clone() };
        wait::until("a ready S3 server", READY_WITHIN, || async {
            started.check_alive()?;
            probe::http_ok((started.site.addresses().control_plane(), PORT).into(), "/minio/health/ready")
                .await
        })
        .await?;
        Ok(started)
    }

    /// The address of the S3 API; buckets are in the path.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}:{PORT}", self.site.addresses().control_plane())
    }

    /// Makes an empty bucket. The server takes every folder of its disk for one.
    pub fn bucket(&self, name: &str) -> Result<()> {
        let folder = self.data.join(name);
        fs::create_dir(&folder).context(|| format!("making the bucket {name} ({})", folder.display()))
    }

    /// Everything that a bucket holds, as its users see it.
    pub fn objects(&self, bucket: &str) -> Result<AmazonS3> {
        let store = AmazonS3Builder::new()
            .with_endpoint(self.endpoint())
            .with_allow_http(true)
            .with_region(Self::REGION)
            .with_bucket_name(bucket)
            .with_access_key_id(Self::ACCESS_KEY_ID)
            .with_secret_access_key(Self::SECRET_ACCESS_KEY)
            .build();
        store.map_err(|error| Error::Refused(format!("a client of the bucket {bucket}: {error}")))
    }

    /// Puts an object into a bucket.
    pub async fn put(&self, bucket: &str, key: &str, content: impl Into<PutPayload>) -> Result<()> {
        let put = self.objects(bucket)?.put(&key.into(), content.into()).await;
        put.map(drop).map_err(|error| Error::Refused(format!("putting {key} into {bucket}: {error}")))
    }

    /// Where pods find it by address.
    pub(crate) fn port(&self) -> u16 {
        PORT
    }

    /// Fails when it has ended by itself.
    pub fn check_alive(&self) -> Result<()> {
        self.process.check_alive()
    }
}
