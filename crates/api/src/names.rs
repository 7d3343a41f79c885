//! Names that are part of the interface: dashboards, policies, scripts and existing objects depend on them. Each is defined here
//! once, and `tests/names.golden` freezes them.

/// Declares a module of names, and a list of them for the golden test.
macro_rules! names {
    ($(#[$doc:meta])* $module:ident: $type:ty { $($(#[$name_doc:meta])* $name:ident = $value:expr;)* }) => {
        $(#[$doc])*
        pub mod $module {
            $($(#[$name_doc])* pub const $name: $type = $value;)*

            /// All names of this module.
            pub const ALL: &[(&str, $type)] = &[$((stringify!($name), $name)),*];
        }
    };
}

names! {
    /// API groups and versions.
    group: &str {
        /// Group of nodes and fleets.
        SEI = "sei.io";
        /// Group of all other kinds.
        OUTRIGGER = "outrigger.dev";
        /// Version of all kinds.
        VERSION = "v1alpha1";
        /// Resource that callers of a sidecar need permissions on. The resource name is the node's name.
        TASK_RESOURCE = "seinodetasks";
    }
}

names! {
    /// Finalizers.
    finalizer: &str {
        /// Set on every node.
        NODE = "sei.io/seinode-finalizer";
        /// Set on every fleet.
        FLEET = "sei.io/seinodedeployment-finalizer";
    }
}

names! {
    /// Field managers of server-side apply, also used as reporting controllers of events.
    manager: &str {
        /// Controller of nodes.
        NODE = "seinode-controller";
        /// Controller of fleets.
        FLEET = "seinodedeployment-controller";
        /// KMS reporter; the lower-case hexadecimal SHA-256 of the node's name follows.
        KMS_REPORTER_PREFIX = "kms-health-reporter-";
        /// KMS aggregator.
        KMS_AGGREGATOR = "outrigger-kms-aggregator";
    }
}

names! {
    /// Leases.
    lease: &str {
        /// Lease of the operator.
        OPERATOR = "bc1f5b0a.sei.io";
        /// Lease of the KMS aggregator. An aggregator that writes to a ClusterOperator has its own Lease: a hyphen and the name of
        /// the ClusterOperator follow.
        KMS_AGGREGATOR = "outrigger-kms-aggregator";
        /// Lease of the KMS preflight controller, in the namespace of its API servers.
        KMS_PREFLIGHT = "outrigger-kms-preflight";
    }
}

names! {
    /// Labels.
    label: &str {
        /// Node that an object belongs to. Selectors use only this label, because they are immutable.
        NODE = "sei.io/node";
        /// Chain ID.
        CHAIN = "sei.io/chain";
        /// Kind of the node: a value of [`super::role`].
        ROLE = "sei.io/role";
        /// Component of an object that does not belong to the node's main pod.
        COMPONENT = "sei.io/component";
        /// Node whose data volume a PersistentVolumeClaim holds, on claims that outlive their node.
        RETAINED_BY = "sei.io/retained-by";
        /// On retained claims: the node was set up, so that its data must not be bootstrapped again.
        SET_UP = "sei.io/set-up";
        /// Fleet that a node belongs to.
        FLEET = "sei.io/nodedeployment";
        /// Ordinal of a node in its fleet, starting at 0.
        FLEET_ORDINAL = "sei.io/nodedeployment-ordinal";
        /// Revision of the fleet's template that a node was created from.
        REVISION = "sei.io/revision";
        /// With the value `true` on a namespace, its pods may scrape the metrics of the operator.
        SCRAPE = "outrigger.dev/scrape";
    }
}

names! {
    /// Values of labels.
    role: &str {
        /// A full node.
        FULL_NODE = "node";
        /// An archive node.
        ARCHIVE = "archive";
        /// A replayer.
        REPLAYER = "replayer";
        /// A validator.
        VALIDATOR = "validator";
        /// The component of a bootstrap pod.
        BOOTSTRAP_COMPONENT = "bootstrap";
    }
}

names! {
    /// Annotations.
    annotation: &str {
        /// Prevents Karpenter from disrupting a pod.
        DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt";
        /// Manager of an object of a fleet.
        MANAGED_BY = "sei.io/managed-by";
        /// Value of [`MANAGED_BY`].
        MANAGED_BY_FLEET = "seinodedeployment";
        /// Hash of the proxy's configuration, in the pod template: a change replaces the pod.
        PROXY_CONFIG_HASH = "outrigger.dev/proxy-config-hash";
        /// Hash of the inputs of seid's configuration, in the pod template: a change replaces the pod.
        CONFIG_HASH = "outrigger.dev/config-hash";
        /// Issuer of the sidecar's certificate, in the pod template: no pod keeps serving a certificate of a previous issuer.
        TLS_ISSUER = "outrigger.dev/sidecar-tls-issuer";
        /// Hash of the desired object that was last applied, for drift detection.
        APPLIED_HASH = "outrigger.dev/applied-hash";
        /// Removes the finalizer of an object even if its cleanup fails.
        SKIP_FINALIZER = "outrigger.dev/skip-finalizer";
        /// With the value `true`, the pod of a validator may be evicted: its machine can be drained.
        ALLOW_EVICTION = "outrigger.dev/allow-eviction";
        /// Any new value retries a failed plan at once.
        RETRY = "outrigger.dev/retry";
        /// Revision of a fleet's template that its nodes keep until the annotation is removed.
        ROLLBACK_TO = "outrigger.dev/rollback-to";
        /// With the value `true`, no further node of a fleet is updated.
        ROLLOUT_PAUSED = "outrigger.dev/rollout-paused";
        /// Time at which a node was last written with a revision of its fleet.
        REVISION_APPLIED_AT = "outrigger.dev/revision-applied-at";
        /// UID of the fleet that a node belongs to. A node that outlives its fleet has no owner reference.
        FLEET_UID = "outrigger.dev/fleet-uid";
        /// With the value `true` on a fleet, it takes over nodes with its label that have no owner and equal the template.
        ADOPT_NODES = "outrigger.dev/adopt-nodes";
        /// With the value `true` on a node, its fleet does not update it.
        HOLD = "outrigger.dev/hold";
        /// With the value `true` on a validator, its fleet may remove it when it is scaled down.
        ALLOW_REMOVAL = "outrigger.dev/allow-removal";
        /// Audience of the tokens that the proxy of a pod accepts, on the pod.
        SIDECAR_AUDIENCE = "outrigger.dev/sidecar-audience";
        /// Containers of a pod to which the webhook of EKS adds no AWS credentials, comma-separated.
        EKS_SKIP_CONTAINERS = "eks.amazonaws.com/skip-containers";
    }
}

names! {
    /// Labels of Kubernetes nodes, for scheduling.
    scheduling: &str {
        /// Karpenter's label with the node pool.
        NODE_POOL = "karpenter.sh/nodepool";
        /// Label with the host name.
        HOST_NAME = "kubernetes.io/hostname";
    }
}

names! {
    /// Containers of a node's pod.
    container: &str {
        /// Init container that creates the node's home directory.
        SEID_INIT = "seid-init";
        /// The sidecar.
        SIDECAR = "sei-sidecar";
        /// The authorizing proxy in front of the sidecar.
        PROXY = "kube-rbac-proxy";
        /// seid.
        SEID = "seid";
        /// The exporter of chain metrics.
        EXPORTER = "cosmos-exporter";
    }
}

names! {
    /// Volumes of a node's pod.
    volume: &str {
        /// Chain data.
        DATA = "data";
        /// Scratch space of the sidecar.
        SIDECAR_TMP = "sidecar-tmp";
        /// Scratch space of the exporter.
        EXPORTER_TMP = "exporter-tmp";
        /// Configuration of the proxy.
        PROXY_CONFIG = "rbac-proxy-config";
        /// Certificate of the proxy.
        SIDECAR_TLS = "sidecar-tls";
        /// Signing key.
        SIGNING_KEY = "signing-key";
        /// Node key.
        NODE_KEY = "node-key";
        /// Socket of the sidecar's API, shared by sidecar and proxy only.
        SIDECAR_SOCKET = "sidecar-socket";
        /// Control directory of seid, shared by sidecar and seid only.
        SEID_CONTROL = "seid-control";
        /// ServiceAccount token of the proxy.
        PROXY_TOKEN = "proxy-token";
    }
}

names! {
    /// Paths in containers.
    path: &str {
        /// Home directory of the node.
        DATA = "/.sei";
        /// Scratch space of the sidecar, and of the exporter.
        TMP = "/tmp";
        /// Configuration of the proxy.
        PROXY_CONFIG = "/etc/kube-rbac-proxy";
        /// Certificate of the proxy.
        TLS = "/etc/tls";
        /// Signing key.
        SIGNING_KEY = "/.sei/config/priv_validator_key.json";
        /// Node key.
        NODE_KEY = "/.sei/config/node_key.json";
        /// Directory with the socket of the sidecar's API.
        SIDECAR_SOCKET_DIR = "/run/sei-sidecar";
        /// Socket of the sidecar's API.
        SIDECAR_SOCKET = "/run/sei-sidecar/api.sock";
        /// Control directory of seid.
        SEID_CONTROL = "/run/seid-control";
        /// Where clients of the API server expect a ServiceAccount token.
        SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
    }
}

names! {
    /// Keys in Secrets and ConfigMaps.
    data_key: &str {
        /// Signing key.
        SIGNING_KEY = "priv_validator_key.json";
        /// Node key.
        NODE_KEY = "node_key.json";
        /// Configuration of the proxy in shared pods, and in pods of upstream.
        PROXY_CONFIG = "config.yaml";
        /// Configuration of the proxy in isolated pods: it authorizes tasks by their kind.
        PROXY_CONFIG_BY_KIND = "config-by-kind.yaml";
        /// Certificate.
        TLS_CERTIFICATE = "tls.crt";
        /// Private key of the certificate.
        TLS_KEY = "tls.key";
    }
}

names! {
    /// Ports of a node's pod.
    port: i32 {
        /// EVM JSON-RPC over HTTP.
        EVM_RPC = 8545;
        /// EVM JSON-RPC over WebSocket.
        EVM_WS = 8546;
        /// gRPC.
        GRPC = 9090;
        /// REST.
        REST = 1317;
        /// Peer-to-peer network.
        P2P = 26656;
        /// Tendermint RPC.
        RPC = 26657;
        /// Metrics of seid.
        METRICS = 26660;
        /// Default port of the sidecar.
        SIDECAR = 7777;
        /// The proxy in front of the sidecar.
        PROXY = 8443;
        /// The exporter of chain metrics.
        EXPORTER = 9300;
    }
}

names! {
    /// Names of ports.
    port_name: &str {
        /// EVM JSON-RPC over HTTP.
        EVM_RPC = "evm-rpc";
        /// EVM JSON-RPC over HTTP, on the Service of a fleet.
        EVM_HTTP = "evm-http";
        /// EVM JSON-RPC over WebSocket.
        EVM_WS = "evm-ws";
        /// gRPC.
        GRPC = "grpc";
        /// REST.
        REST = "rest";
        /// Peer-to-peer network.
        P2P = "p2p";
        /// Tendermint RPC.
        RPC = "rpc";
        /// Metrics of seid.
        METRICS = "metrics";
        /// The sidecar.
        SIDECAR = "sidecar";
        /// The proxy in front of the sidecar.
        PROXY = "api";
        /// The exporter of chain metrics.
        EXPORTER = "cosmos-metrics";
    }
}

names! {
    /// User and group IDs of containers.
    process_id: i64 {
        /// User and group of all containers.
        NON_ROOT = 65532;
    }
}

pub mod env;
pub mod kms;
pub mod object;
pub mod task;
