//! The world of one measurement: a control plane that nobody has used before, an object to report on, and one plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use testbed::bench::Build;
use testbed::cluster::openshift::{self, FeatureSet};
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::harness::logs;
use testbed::harness::wait;
use testbed::{ControlPlane, Error, Site};

/// As whom reporters ask the API server.
pub const USER: &str = "reporter";

/// How often the object is looked at: seldom, since that costs the server too.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How long a kind may take to be served.
const SOON: Duration = Duration::from_secs(60);

/// What is reported on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The operator resource that the peer knows. It has room for 200 reports.
    KubeApiServer,
    /// Our own kind.
    KmsHealth,
}

impl Object {
    /// How our reporter calls it.
    pub fn target(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kubeapiserver",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// How our reporter writes on it: as the peer does, where the peer can.
    pub fn form(self) -> &'static str {
        match self {
            Self::KubeApiServer => "typed",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// The path of all objects of this kind, and the key of the one in etcd.
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

/// The world of one measurement; it ends when dropped.
pub struct World {
    // Dropped in this order: who depends on the next ends first.
    pub plugin: KmsPlugin,
    pub plane: ControlPlane,
    pub client: Client,
    kubeconfig: PathBuf,
    sockets: PathBuf,
    objects: usize,
    pub site: Arc<Site>,
}

impl World {
    /// A world without reporters, and with one object.
    pub async fn new(contender: &Build, measurement: &str, object: Object) -> Result<Self, Error> {
        Self::with(contender, measurement, object, 1).await
    }

    /// The same with several objects, of our own kind only.
    pub async fn with(
        contender: &Build,
        measurement: &str,
        object: Object,
        objects: usize,
    ) -> Result<Self, Error> {
        let site = Site::claim(logs::folder("bench-kms", &format!("{}-{measurement}", contender.name)))?;
        let plane = ControlPlane::on(&site).start().await?;
        let client = plane.client().await?;
        match object {
            Object::KubeApiServer => {
                openshift::install(&plane, FeatureSet::TechPreview)?;
                openshift::create(&client, "KubeAPIServer").await?;
            }
            Object::KmsHealth => install_our_kind(&plane, &client, objects).await?,
        }
        let sockets = site.dir().join("kmsplugin");
        std::fs::create_dir_all(&sockets)
            .map_err(|source| Error::Io { what: format!("making {}", sockets.display()), source })?;
        let plugin = KmsPlugin::start("kms-1", &sockets)?;
        let kubeconfig = plane.user(USER, Some("system:masters"))?.write_kubeconfig(site.dir())?;
        Ok(Self { plugin, plane, client, kubeconfig, sockets, objects, site })
    }

    /// The name of an object.
    pub fn object(&self, number: usize) -> String {
        name(number)
    }

    /// How often the API server has tried to store an object of this kind, by its own count.
    pub async fn tries(&self, object: Object) -> Result<f64, Error> {
        let request = http::Request::get("/metrics").body(Vec::new());
        let request = request.map_err(|error| Error::Refused(error.to_string()))?;
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

    /// The folder of the plugin's socket.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// How reporters reach the API server.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// How often the plugin was asked how it is: once in each cycle of each reporter.
    pub fn cycles(&self) -> usize {
        usize::try_from(self.plugin.calls().status).unwrap_or(usize::MAX)
    }

    /// Waits until all objects together hold reports of so many nodes, and returns how many there are then or after this time: a server that
    /// cannot take all of them is a result, too.
    pub async fn reported(&self, object: Object, reporters: usize, within: Duration) -> Result<usize, Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &object.resource());
        let begin = Instant::now();
        loop {
            self.plane.check_alive()?;
            let mut found = 0;
            for number in 0..self.objects {
                found += reports(&api.get(&name(number)).await?.data);
            }
            if found >= reporters || begin.elapsed() > within {
                return Ok(found);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }
}

/// The first is called as those of OpenShift are.
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

async fn install_our_kind(plane: &ControlPlane, client: &Client, objects: usize) -> Result<(), Error> {
    let crd = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds/outrigger.dev_kmshealths.yaml");
    let output = plane
        .kubectl()?
        .args(["apply", "--server-side", "-f"])
        .arg(crd)
        .output()
        .map_err(|source| Error::Io { what: "starting kubectl".into(), source })?;
    if !output.status.success() {
        return Err(Error::Refused(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let kind = Object::KmsHealth.resource();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    for number in 0..objects {
        let object = DynamicObject::new(&name(number), &kind).data(serde_json::json!({ "spec": {} }));
        wait::until("the kind KMSHealth", SOON, || async {
            api.create(&kube::api::PostParams::default(), &object).await.map(drop)
        })
        .await?;
    }
    Ok(())
}
