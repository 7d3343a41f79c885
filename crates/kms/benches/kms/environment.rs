//! Environment of one measurement: a fresh control plane, objects that hold reports, and one plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use testbed::bench::Build;
use testbed::cluster::openshift::{self, FeatureSet};
use testbed::demo::kms_health;
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::harness::logs;
use testbed::harness::wait;
use testbed::{ControlPlane, Error, Site};

/// User name of the reporters.
pub const USER: &str = "reporter";

/// Poll interval for reports. Long, because each read loads the server, too.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout for a CRD to be served.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kind of the object that holds reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The operator resource that the peer supports. It holds at most 200 reports.
    KubeApiServer,
    /// KMSHealth.
    KmsHealth,
}

impl Object {
    /// Returns the reporter's `--target`.
    pub fn target(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kubeapiserver",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// Returns the reporter's `--publish`: the peer's format where the peer supports the kind.
    pub fn form(self) -> &'static str {
        match self {
            Self::KubeApiServer => "typed",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// Returns the API path of the kind, and the etcd key of the first object.
    pub fn paths(self) -> (&'static str, &'static str) {
        match self {
            Self::KubeApiServer => (
                "/apis/operator.openshift.io/v1/kubeapiservers",
                "/registry/operator.openshift.io/kubeapiservers/cluster",
            ),
            Self::KmsHealth => {
                ("/apis/outrigger.dev/v1alpha1/kmshealths", "/registry/outrigger.dev/kmshealths/cluster")
            }
        }
    }

    fn resource(self) -> ApiResource {
        match self {
            Self::KubeApiServer => openshift::resource("KubeAPIServer"),
            Self::KmsHealth => ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk("outrigger.dev", "v1alpha1", "KMSHealth"),
                "kmshealths",
            ),
        }
    }
}

/// Environment of one measurement, torn down on drop.
pub struct Environment {
    // Dropped in this order: dependents first.
    pub plugin: FakeKmsPlugin,
    pub plane: ControlPlane,
    pub client: Client,
    kubeconfig: PathBuf,
    sockets: PathBuf,
    objects: usize,
    pub site: Arc<Site>,
}

impl Environment {
    /// Starts an environment with one object and no reporters.
    pub async fn new(contender: &Build, measurement: &str, object: Object) -> Result<Self, Error> {
        Self::with(contender, measurement, object, 1).await
    }

    /// Starts an environment with several objects, for KMSHealth only.
    pub async fn with(
        contender: &Build,
        measurement: &str,
        object: Object,
        objects: usize,
    ) -> Result<Self, Error> {
        let site = Site::claim(logs::test_dir("bench-kms", &format!("{}-{measurement}", contender.name)))?;
        let plane = ControlPlane::builder(&site).start().await?;
        let client = plane.client().await?;
        match object {
            Object::KubeApiServer => {
                openshift::install(&plane, FeatureSet::TechPreview)?;
                openshift::create_singleton(&client, "KubeAPIServer").await?;
            }
            Object::KmsHealth => install_kms_health(&plane, &client, objects).await?,
        }
        let sockets = site.dir().join("kmsplugin");
        std::fs::create_dir_all(&sockets)
            .map_err(|source| Error::Io { what: format!("creating {}", sockets.display()), source })?;
        let plugin = FakeKmsPlugin::start("kms-1", &sockets)?;
        let kubeconfig = plane.user(USER, Some("system:masters"))?.write_kubeconfig(site.dir())?;
        Ok(Self { plugin, plane, client, kubeconfig, sockets, objects, site })
    }

    /// Returns the name of an object.
    pub fn object(&self, number: usize) -> String {
        name(number)
    }

    /// Returns how often the API server tried to store an object of this kind, by its own metrics.
    pub async fn store_attempts(&self, object: Object) -> Result<f64, Error> {
        let request = http::Request::get("/metrics").body(Vec::new());
        let request = request.map_err(|error| Error::Other(error.to_string()))?;
        let text = self.client.request_text(request).await?;
        let (path, _) = object.paths();
        let resource = path.rsplit('/').next().unwrap_or_default();
        let counted = |line: &&str| {
            line.starts_with("etcd_request_duration_seconds_count{")
                && line.contains("operation=\"update\"")
                && line.contains(resource)
        };
        Ok(text.lines().filter(counted).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Returns the directory of the plugin's socket.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Returns the kubeconfig of the reporters.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the number of Status calls: one per round of each reporter.
    pub fn cycles(&self) -> usize {
        usize::try_from(self.plugin.calls().status).unwrap_or(usize::MAX)
    }

    /// Waits until all objects together hold a number of reports, or for the timeout, and returns how many there are. A server that
    /// cannot store all of them is a result, too.
    pub async fn reported(
        &self,
        object: Object,
        reporters: usize,
        timeout: Duration,
    ) -> Result<usize, Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &object.resource());
        let start = Instant::now();
        loop {
            self.plane.check_alive()?;
            let mut found = 0;
            for number in 0..self.objects {
                found += reports(&api.get(&name(number)).await?.data);
            }
            if found >= reporters || start.elapsed() > timeout {
                return Ok(found);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// The first object has the name of OpenShift's.
fn name(number: usize) -> String {
    if number == 0 { openshift::NAME.to_owned() } else { format!("{}-{number}", openshift::NAME) }
}

fn reports(object: &Value) -> usize {
    let status = &object["status"];
    [&status["encryptionStatus"]["healthReports"], &status["healthReports"]]
        .into_iter()
        .filter_map(Value::as_array)
        .map(Vec::len)
        .sum()
}

async fn install_kms_health(plane: &ControlPlane, client: &Client, objects: usize) -> Result<(), Error> {
    kms_health::install_crd(plane)?;
    let kind = Object::KmsHealth.resource();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    for number in 0..objects {
        let object = DynamicObject::new(&name(number), &kind).data(serde_json::json!({ "spec": {} }));
        wait::until("the CRD KMSHealth", TIMEOUT, || async {
            api.create(&kube::api::PostParams::default(), &object).await.map(drop)
        })
        .await?;
    }
    Ok(())
}
