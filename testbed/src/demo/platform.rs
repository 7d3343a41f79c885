//! A cluster as users of the operator have one: machines for nodes of chains with volumes and a real seid, a store of objects,
//! cert-manager, and a chain that waits for its validator. What is installed on it are the files of `examples`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use api::names::scheduling;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::cert_manager::CertManager;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::dns::Dns;
use crate::cluster::image::Image;
use crate::cluster::kubectl;
use crate::cluster::node::{Node, Pool};
use crate::cluster::s3::S3;
use crate::cluster::site::Site;
use crate::cluster::storage;
use crate::demo::new_chain::NewChain;
use crate::error::{Error, Result};

/// The namespace of the nodes in `examples`.
pub const NAMESPACE: &str = "sei";

/// The chain of the nodes in `examples`.
pub const CHAIN: &str = "example-1";

/// Its validator.
pub const VALIDATOR: &str = "validator";

/// A node that follows it.
pub const FULL_NODE: &str = "full-node";

/// A node that makes snapshots of it.
pub const PUBLISHER: &str = "publisher";

/// A node that begins with one of them.
pub const RESTORED: &str = "restored";

/// The namespace and the name of the operator's account, installed as `examples` does it.
pub const OPERATOR: (&str, &str) = ("outrigger-system", "outrigger-operator");

/// Who the operator is to the API server.
pub const OPERATOR_USER: &str = "system:serviceaccount:outrigger-system:outrigger-operator";

/// The bucket of genesis files, as the example of a platform names it.
pub const GENESIS_BUCKET: &str = "sei-genesis";

/// The bucket of snapshots.
pub const SNAPSHOT_BUCKET: &str = "sei-snapshots";

/// The machines for nodes, as the example of a platform names them.
const POOL: Pool = Pool { name: "sei-node", label: scheduling::NODE_POOL, taint: "sei.io/workload" };

/// How many machines are in the pool, and how many volumes each has.
const MACHINES: usize = 2;
const VOLUMES: usize = 4;

/// The image of seid.
pub const SEID: &str = "outrigger.dev/testbed-seid:dev";

/// The same by another name, for edits.
pub const SEID_AGAIN: &str = "outrigger.dev/testbed-seid:again";

/// Images that files of `examples` name, and those that stand in for them here.
const STAND_INS: [(&str, &str); 4] = [
    (concat!("outrigger.dev/outrigger:", env!("CARGO_PKG_VERSION")), "outrigger.dev/outrigger:dev"),
    (
        concat!("outrigger.dev/kube-rbac-proxy:", env!("CARGO_PKG_VERSION")),
        "outrigger.dev/kube-rbac-proxy:dev",
    ),
    ("images.example/cosmos-exporter:v1", "outrigger.dev/testbed-cosmos-exporter:dev"),
    ("images.example/seid:v6.3.0", SEID),
];

/// A running platform; it ends when dropped.
#[derive(Debug)]
pub struct Platform {
    // Dropped in this order: who depends on the next ends first.
    cert_manager: CertManager,
    s3: S3,
    chain: NewChain,
    cluster: Cluster,
}

impl Platform {
    /// Starts a platform on a site, and returns when everything of it is ready. Nothing is installed on it yet.
    pub async fn on(site: &Arc<Site>) -> Result<Self> {
        Self::of(ControlPlane::on(site).controllers().scheduler().start().await?).await
    }

    /// Starts everything else of a platform beside a control plane with controllers and a scheduler.
    pub async fn of(plane: ControlPlane) -> Result<Self> {
        let site = plane.site().clone();
        let images = [Image::outrigger()?, Image::cosmos_exporter()?, Image::seid("dev")?];
        let [ours, exporter, seid] = &images;
        let machines = (0..MACHINES).map(|_| {
            let node = Node::on(&plane).pool(POOL).image(ours).image(exporter);
            node.image_as(seid, SEID_AGAIN).start()
        });
        let (dns, cert_manager, s3, other, pool) = tokio::try_join!(
            Dns::on(&plane),
            CertManager::on(&plane),
            S3::on(&site),
            Node::on(&plane).image(ours).start(),
            futures_util::future::try_join_all(machines),
        )?;
        storage::provide(&plane, &pool, VOLUMES).await?;
        for bucket in [GENESIS_BUCKET, SNAPSHOT_BUCKET] {
            s3.bucket(bucket)?;
        }
        let chain = NewChain::of_one(CHAIN, VALIDATOR)?;
        s3.put(GENESIS_BUCKET, &format!("{CHAIN}/genesis.json"), chain.genesis().to_owned()).await?;
        let nodes = std::iter::once(other).chain(pool).collect();
        Ok(Self { cert_manager, s3, chain, cluster: Cluster::of(plane, dns, nodes) })
    }

    /// Its cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Its control plane.
    #[must_use]
    pub fn plane(&self) -> &ControlPlane {
        self.cluster.plane()
    }

    /// Its store of objects.
    #[must_use]
    pub fn s3(&self) -> &S3 {
        &self.s3
    }

    /// Installs the operator and the namespace for nodes, or finds that they are.
    pub fn install(&self) -> Result<()> {
        self.apply_folder("one-machine")?;
        // Until then nobody can say SeiNode.
        let known = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "seinodes.sei.io"];
        kubectl::run(self.plane(), &known, None)?;
        self.apply_folder("nodes")?;
        kubectl::apply(self.plane(), &self.object_store())?;
        kubectl::apply(self.plane(), &self.chain.secrets(NAMESPACE, VALIDATOR))
    }

    /// Applies a kustomization of `examples`.
    pub fn apply_folder(&self, name: &str) -> Result<()> {
        let manifests = kubectl::run(self.plane(), &["kustomize", &example(name)], None)?;
        kubectl::apply(self.plane(), &with_stand_ins(&manifests))
    }

    /// Applies a file of `examples`.
    pub fn apply_file(&self, name: &str) -> Result<()> {
        kubectl::apply(self.plane(), &manifest(name)?)
    }

    /// Fails when anything of it has ended by itself.
    pub fn check_alive(&self) -> Result<()> {
        self.cert_manager.check_alive()?;
        self.s3.check_alive()?;
        self.cluster.check_alive()
    }

    /// The server of objects under a name of the cluster, and who may use it.
    fn object_store(&self) -> String {
        let (namespace, name) = ("object-store", "s3");
        let metadata = json!({ "name": name, "namespace": namespace });
        let port = self.s3.port();
        let items = [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": { "ports": [{ "port": port }] },
            }),
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": { "name": name, "namespace": namespace, "labels": { "kubernetes.io/service-name": name } },
                "addressType": "IPv4",
                "endpoints": [{ "addresses": [self.plane().site().addresses().control_plane()] }],
                "ports": [{ "port": port }],
            }),
            object_store_credentials(NAMESPACE),
        ];
        json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
    }
}

/// The Secret by which the nodes of a namespace may use the store of objects.
#[must_use]
pub fn object_store_credentials(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "object-store", "namespace": namespace },
        "stringData": {
            "AWS_ACCESS_KEY_ID": S3::ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": S3::SECRET_ACCESS_KEY,
        },
    })
}

/// The settings of the operator in `examples`, each with its variable.
pub fn settings() -> Result<Vec<(String, String)>> {
    let mut settings = BTreeMap::new();
    for file in ["../deploy/operator/settings.env", "platform/platform.env", "one-machine/one-machine.env"] {
        let text = manifest(file)?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        settings
            .extend(lines.filter_map(|line| line.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())));
    }
    Ok(settings.into_iter().collect())
}

/// Text with the images that are here in the places of those that `examples` name.
#[must_use]
pub fn with_stand_ins(text: &str) -> String {
    STAND_INS.iter().fold(text.to_owned(), |text, (theirs, here)| text.replace(theirs, here))
}

/// A file of `examples`, with images that are here.
pub fn manifest(name: &str) -> Result<String> {
    let path = example(name);
    let read = std::fs::read_to_string(&path);
    let text = read.map_err(|source| Error::Io { what: format!("reading {path}"), source })?;
    Ok(with_stand_ins(&text))
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).display().to_string()
}
