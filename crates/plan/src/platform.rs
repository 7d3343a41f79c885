//! What the operator was told about the platform that nodes run on. Every value was checked at the start of the process.

use std::collections::BTreeMap;

/// The platform that nodes run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Pool of machines for most nodes.
    pub nodepool: String,
    /// Pool of machines for archives.
    pub nodepool_archive: String,
    /// Key of the taint on machines for nodes.
    pub toleration_key: String,
    /// ServiceAccount of node pods.
    pub service_account: String,
    /// Volumes of most nodes.
    pub storage: Storage,
    /// Volumes of archives.
    pub storage_archive: Storage,
    /// What seid of most nodes asks for.
    pub resources: Resources,
    /// What seid of archives asks for.
    pub resources_archive: Resources,
    /// Where snapshots are.
    pub snapshot_bucket: Bucket,
    /// Where genesis files are.
    pub genesis_bucket: Bucket,
    /// The server of both buckets.
    pub object_store: ObjectStore,
    /// The sidecar's image, unless a node names another.
    pub sidecar_image: String,
    /// The proxy's image.
    pub proxy_image: String,
    /// The audience that tokens must be for which proxies are shown; none for the API server's own.
    pub proxy_token_audience: Option<String>,
    /// The exporter's image.
    pub exporter_image: String,
    /// Who may speak to sidecars: the operator itself, and whom it was told to let through.
    pub sidecar_clients: Vec<Client>,
}

/// A kind of volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Its class.
    pub class: String,
    /// Its size, as a quantity.
    pub size: String,
}

/// What a container asks for, as quantities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Processors.
    pub cpu: String,
    /// Memory.
    pub memory: String,
}

/// A bucket of an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// Its region.
    pub region: String,
}

/// A server of buckets. Without anything it is AWS's own, with the pod's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStore {
    /// Where it is, when it is not AWS's own.
    pub endpoint: Option<Endpoint>,
    /// The Secret with its credentials, in the namespace of each node; none for the pod's identity.
    pub credentials: Option<String>,
}

/// Where a server of buckets is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub url: String,
    /// Whether a bucket is named in the path, and not in the host name.
    pub is_path_style: bool,
}

/// Pods that may speak to sidecars: those with all of these labels, in this namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The namespace.
    pub namespace: String,
    /// The labels; none for every pod of the namespace.
    pub labels: BTreeMap<String, String>,
}
