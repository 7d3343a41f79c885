//! The environment of one round: a new control plane, fake kubelets and scripted sidecars.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ListParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use testbed::bench::Build;
use testbed::fakes::kubelet::FakeKubelet;
use testbed::fakes::sidecars::FakeSidecars;
use testbed::harness::logs;
use testbed::harness::wait;
use testbed::{ControlPlane, Error, Site};

use crate::{candidate, nodes};

/// Flags that let the controller manager keep up with a thousand nodes, so that it is not the bottleneck.
const CONTROLLER_FLAGS: [&str; 5] = [
    "--kube-api-qps=2000",
    "--kube-api-burst=4000",
    "--concurrent-statefulset-syncs=20",
    "--concurrent-endpoint-syncs=10",
    "--concurrent-gc-syncs=10",
];

/// The ServiceAccount of the pods, and for tokens.
pub const SERVICE_ACCOUNT: &str = "seid-node";

/// How long a CRD may take to be served.
const CRD_TIMEOUT: Duration = Duration::from_secs(60);

/// The environment of one round; it stops when dropped.
pub struct Environment {
    // Fields are dropped in this order: each depends on the ones below.
    _kubelets: FakeKubelet,
    pub sidecars: FakeSidecars,
    pub plane: ControlPlane,
    pub client: Client,
    pub namespace: String,
    pub site: Arc<Site>,
}

impl Environment {
    /// Starts an environment without an operator.
    pub async fn new(candidate: &Build) -> Result<Self, Error> {
        let site = Site::claim(logs::test_dir("bench-operator", candidate.name))?;
        let mut plane = ControlPlane::builder(&site).controllers();
        for flag in CONTROLLER_FLAGS {
            plane = plane.controller_flag(flag);
        }
        let plane = plane.start().await?;
        install(&plane, &candidate::crd_dir(candidate)).await?;
        let namespace = plane.namespace("bench").await?;
        let client = plane.client().await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some(SERVICE_ACCOUNT.into()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        accounts.create(&PostParams::default(), &account).await?;
        let sidecars = FakeSidecars::start().await?;
        let kubelets = FakeKubelet::start(&plane, &sidecars, [&namespace]).await?;
        Ok(Self { _kubelets: kubelets, sidecars, plane, client, namespace, site })
    }
}

async fn install(plane: &ControlPlane, crds: &Path) -> Result<(), Error> {
    let mut files: Vec<_> = std::fs::read_dir(crds)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>())
        .map_err(|source| Error::Io { what: format!("reading {}", crds.display()), source })?;
    // Skips the CRDs of other controllers.
    files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sei.io_")));
    let mut kubectl = plane.kubectl()?;
    kubectl.args(["apply", "--server-side"]);
    for file in &files {
        kubectl.arg("-f").arg(file);
    }
    let output = kubectl.output().map_err(|source| Error::Io { what: "starting kubectl".into(), source })?;
    if !output.status.success() {
        return Err(Error::Other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let nodes = nodes::all_namespaces(&plane.client().await?);
    let one = ListParams::default().limit(1);
    wait::until("the SeiNode CRD", CRD_TIMEOUT, || nodes.list(&one)).await.map(drop)
}
