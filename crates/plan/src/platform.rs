//! The settings of the platform that nodes run on. All values are validated when the operator starts.

use std::collections::BTreeMap;
use std::time::Duration;

pub use api::sei_node::SidecarIsolation;

/// The settings of the platform that nodes run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Node pool of all kinds except archives.
    pub nodepool: String,
    /// Node pool of archives.
    pub nodepool_archive: String,
    /// Label of Kubernetes nodes that holds the node pool; none if pods are not restricted to their node pool.
    pub nodepool_label: Option<String>,
    /// Key of the taint on the node pools.
    pub toleration_key: String,
    /// ServiceAccount of node pods.
    pub service_account: String,
    /// Volumes of all kinds except archives.
    pub storage: Storage,
    /// Volumes of archives.
    pub storage_archive: Storage,
    /// Resource requests of seid for all kinds except archives.
    pub resources: Resources,
    /// Resource requests of seid for archives.
    pub resources_archive: Resources,
    /// Bucket of snapshots.
    pub snapshot_bucket: Bucket,
    /// Bucket of genesis files.
    pub genesis_bucket: Bucket,
    /// Where sidecars export block results to, if they may.
    pub result_export: Option<ResultExport>,
    /// The object store of all buckets.
    pub object_store: ObjectStore,
    /// Default image of the sidecar.
    pub sidecar_image: String,
    /// Default isolation of the containers of a pod.
    pub sidecar_isolation: SidecarIsolation,
    /// Image of the proxy.
    pub proxy_image: String,
    /// Whether Secrets and claims must be labeled with the node that uses them.
    pub strict_references: bool,
    /// Image of the exporter.
    pub exporter_image: String,
    /// How long the height of a node must not change, while its chain moves, until the node counts as halted.
    pub chain_halt_timeout: Duration,
    /// Pods that may reach sidecars: the operator itself, and configured clients.
    pub sidecar_clients: Vec<SidecarClient>,
    /// Destinations that pods of nodes may connect to besides name servers, peers and each other; empty for all destinations.
    pub node_egress: Vec<EgressTarget>,
}

/// The storage class and size of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The storage class.
    pub class: String,
    /// The size, as a quantity.
    pub size: String,
}

/// Resource requests of a container, as quantities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// CPU.
    pub cpu: String,
    /// Memory.
    pub memory: String,
}

/// A bucket of an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The name.
    pub name: String,
    /// The region.
    pub region: String,
}

/// The destination of exported block results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultExport {
    /// The bucket.
    pub bucket: Bucket,
    /// The key prefix, if there is one.
    pub prefix: Option<String>,
}

/// An object store. The default is AWS S3 with the identity of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStore {
    /// The endpoint, if it is not AWS S3.
    pub endpoint: Option<Endpoint>,
    /// The Secret with the credentials, in the namespace of each node; none for the identity of the pod.
    pub credentials: Option<String>,
}

/// The endpoint of an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL.
    pub url: String,
    /// Whether the bucket is in the path instead of the host name.
    pub is_path_style: bool,
}

/// Pods that may reach sidecars: those with all of these labels in this namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarClient {
    /// The namespace.
    pub namespace: String,
    /// The labels; empty for every pod of the namespace.
    pub labels: BTreeMap<String, String>,
}

/// A destination outside of the nodes' namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressTarget {
    /// The addresses, in CIDR notation.
    pub cidr: String,
    /// The TCP port; none for all ports.
    pub port: Option<u16>,
}
