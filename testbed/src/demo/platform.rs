//! A cluster like that of a user of the operator: a node pool with volumes and a real seid image, S3, cert-manager, and the
//! genesis of a chain. Manifests are the files in `examples`.

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

/// Namespace of the nodes in `examples`.
pub const NAMESPACE: &str = "sei";

/// Chain ID of the nodes in `examples`.
pub const CHAIN: &str = "example-1";

/// Validator of the chain.
pub const VALIDATOR: &str = "validator";

/// Full node of the chain.
pub const FULL_NODE: &str = "full-node";

/// Node that uploads snapshots.
pub const PUBLISHER: &str = "publisher";

/// Node that is restored from a snapshot.
pub const RESTORED: &str = "restored";

/// Namespace and name of the ServiceAccount of the operator in `examples`.
pub const OPERATOR: (&str, &str) = ("outrigger-system", "outrigger-operator");

/// User name of the operator.
pub const OPERATOR_USER: &str = "system:serviceaccount:outrigger-system:outrigger-operator";

/// User agent of the operator: attackers in tests use its tokens with clients of their own.
pub const OPERATOR_AGENT: &str = concat!("outrigger-operator/", env!("CARGO_PKG_VERSION"));

/// Bucket of genesis files in `examples/platform`.
pub const GENESIS_BUCKET: &str = "sei-genesis";

/// Bucket of snapshots.
pub const SNAPSHOT_BUCKET: &str = "sei-snapshots";

/// Node pool in `examples/platform`.
const POOL: Pool = Pool { name: "sei-node", label: scheduling::NODE_POOL, taint: "sei.io/workload" };

/// Number of nodes in the pool, and of volumes on each.
const POOL_NODES: usize = 2;
const VOLUMES_PER_NODE: usize = 8;

/// Image of seid.
pub const SEID: &str = "outrigger.dev/testbed-seid:dev";

/// Another name of the same image, for edits.
pub const SEID_ALIAS: &str = "outrigger.dev/testbed-seid:again";

/// Images in `examples`, and their replacements in the testbed.
const LOCAL_IMAGES: [(&str, &str); 4] = [
    (concat!("outrigger.dev/outrigger:", env!("CARGO_PKG_VERSION")), "outrigger.dev/outrigger:dev"),
    (
        concat!("outrigger.dev/kube-rbac-proxy:", env!("CARGO_PKG_VERSION")),
        "outrigger.dev/kube-rbac-proxy:dev",
    ),
    ("images.example/cosmos-exporter:v1", "outrigger.dev/testbed-cosmos-exporter:dev"),
    ("images.example/seid:v6.3.0", SEID),
];

/// A running platform; stopped on drop.
#[derive(Debug)]
pub struct Platform {
    // Drop order: each field depends on the ones after it.
    cert_manager: CertManager,
    s3: S3,
    chain: NewChain,
    cluster: Cluster,
}

impl Platform {
    /// Starts a platform on a site and returns when it is ready. The operator is not installed.
    pub async fn start(site: &Arc<Site>) -> Result<Self> {
        Self::with_control_plane(ControlPlane::builder(site).controllers().scheduler().start().await?).await
    }

    /// Starts a platform on a running control plane, which must have controllers and a scheduler.
    pub async fn with_control_plane(plane: ControlPlane) -> Result<Self> {
        let site = plane.site().clone();
        let images = [Image::outrigger()?, Image::cosmos_exporter()?, Image::seid("dev")?];
        let [ours, exporter, seid] = &images;
        let pool = (0..POOL_NODES).map(|_| {
            let node = Node::builder(&plane).pool(POOL).image(ours).image(exporter);
            node.image_as(seid, SEID_ALIAS).start()
        });
        let (dns, cert_manager, s3, other, pool) = tokio::try_join!(
            Dns::start(&plane),
            CertManager::start(&plane),
            S3::start(&site),
            Node::builder(&plane).image(ours).start(),
            futures_util::future::try_join_all(pool),
        )?;
        storage::create_volumes(&plane, &pool, VOLUMES_PER_NODE).await?;
        for bucket in [GENESIS_BUCKET, SNAPSHOT_BUCKET] {
            s3.create_bucket(bucket)?;
        }
        let chain = NewChain::new(CHAIN, &[VALIDATOR])?;
        s3.put(GENESIS_BUCKET, &format!("{CHAIN}/genesis.json"), chain.genesis().to_owned()).await?;
        let nodes = std::iter::once(other).chain(pool).collect();
        Ok(Self { cert_manager, s3, chain, cluster: Cluster::from_parts(plane, dns, nodes) })
    }

    /// Returns the cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the control plane.
    #[must_use]
    pub fn plane(&self) -> &ControlPlane {
        self.cluster.plane()
    }

    /// Returns the S3 server.
    #[must_use]
    pub fn s3(&self) -> &S3 {
        &self.s3
    }

    /// Installs the operator and the namespace of the nodes; idempotent.
    pub fn install(&self) -> Result<()> {
        self.apply_folder("../deploy/crds")?;
        // The operator starts, and SeiNodes can be applied, only after that.
        let established = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "seinodes.sei.io"];
        kubectl::run(self.plane(), &established, None)?;
        self.apply_folder("one-machine")?;
        self.apply_folder("nodes")?;
        kubectl::apply(self.plane(), &self.object_store())?;
        kubectl::apply(self.plane(), &self.chain.secrets(NAMESPACE))
    }

    /// Applies a kustomization, relative to `examples`.
    pub fn apply_folder(&self, name: &str) -> Result<()> {
        let manifests = kubectl::run(self.plane(), &["kustomize", &example(name)], None)?;
        kubectl::apply(self.plane(), &with_local_images(&manifests))
    }

    /// Applies a file in `examples`.
    pub fn apply_file(&self, name: &str) -> Result<()> {
        kubectl::apply(self.plane(), &manifest(name)?)
    }

    /// Fails if a process of the platform has exited.
    pub fn check_alive(&self) -> Result<()> {
        self.cert_manager.check_alive()?;
        self.s3.check_alive()?;
        self.cluster.check_alive()
    }

    /// Returns manifests of a Service for the S3 server and of its credentials.
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

/// Returns the Secret with S3 credentials for the nodes of a namespace.
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

/// Returns the environment variables of the operator in `examples`, with their values.
pub fn operator_settings() -> Result<Vec<(String, String)>> {
    let mut settings = BTreeMap::new();
    for file in ["../deploy/operator/settings.env", "platform/platform.env", "one-machine/one-machine.env"] {
        let text = manifest(file)?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        settings
            .extend(lines.filter_map(|line| line.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())));
    }
    Ok(settings.into_iter().collect())
}

/// Replaces the images in `examples` by those of the testbed.
#[must_use]
pub fn with_local_images(text: &str) -> String {
    LOCAL_IMAGES.iter().fold(text.to_owned(), |text, (published, local)| text.replace(published, local))
}

/// Returns a file in `examples`, with the images of the testbed.
pub fn manifest(name: &str) -> Result<String> {
    let path = example(name);
    let read = std::fs::read_to_string(&path);
    let text = read.map_err(|source| Error::Io { what: format!("reading {path}"), source })?;
    Ok(with_local_images(&text))
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).display().to_string()
}
