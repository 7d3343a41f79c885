//! The world of one round: a control plane that nobody has used before, played kubelets, scripted sidecars.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ListParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use testbed::bench::Build;
use testbed::fakes::kubelet::KubeletPlayer;
use testbed::fakes::sidecars::Sidecars;
use testbed::harness::logs;
use testbed::harness::wait;
use testbed::{ControlPlane, Error, Site};

use crate::{contender, nodes};

/// Controllers that are asked to keep up with a thousand nodes: what is measured must not be their patience.
const PATIENCE: [&str; 5] = [
    "--kube-api-qps=2000",
    "--kube-api-burst=4000",
    "--concurrent-statefulset-syncs=20",
    "--concurrent-endpoint-syncs=10",
    "--concurrent-gc-syncs=10",
];

/// How long a kind may take to be served.
const SOON: Duration = Duration::from_secs(60);

/// The world of one round; it ends when dropped.
pub struct World {
    // Dropped in this order: who depends on the next ends first.
    _kubelets: KubeletPlayer,
    pub sidecars: Sidecars,
    pub plane: ControlPlane,
    pub client: Client,
    pub namespace: String,
    pub site: Arc<Site>,
}

impl World {
    /// A world without an operator.
    pub async fn new(contender: &Build) -> Result<Self, Error> {
        let site = Site::claim(logs::folder("bench-operator", contender.name))?;
        let mut plane = ControlPlane::on(&site).controllers();
        for flag in PATIENCE {
            plane = plane.controller_flag(flag);
        }
        let plane = plane.start().await?;
        install(&plane, &contender::kinds(contender)).await?;
        let namespace = plane.namespace("bench").await?;
        let client = plane.client().await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some("seid-node".into()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        accounts.create(&PostParams::default(), &account).await?;
        let sidecars = Sidecars::start().await?;
        let kubelets = KubeletPlayer::start(&plane, &sidecars, [&namespace]).await?;
        Ok(Self { _kubelets: kubelets, sidecars, plane, client, namespace, site })
    }
}

async fn install(plane: &ControlPlane, kinds: &Path) -> Result<(), Error> {
    let mut files: Vec<_> = std::fs::read_dir(kinds)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>())
        .map_err(|source| Error::Io { what: format!("reading {}", kinds.display()), source })?;
    // What else lies beside them is for other tools.
    files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sei.io_")));
    let mut kubectl = plane.kubectl()?;
    kubectl.args(["apply", "--server-side"]);
    for file in &files {
        kubectl.arg("-f").arg(file);
    }
    let output = kubectl.output().map_err(|source| Error::Io { what: "starting kubectl".into(), source })?;
    if !output.status.success() {
        return Err(Error::Refused(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let nodes = nodes::everywhere(&plane.client().await?);
    let one = ListParams::default().limit(1);
    wait::until("the kind SeiNode", SOON, || nodes.list(&one)).await.map(drop)
}
