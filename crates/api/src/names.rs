//! Names that others rely on: dashboards, policies, scripts, and objects that exist already. Each is written here once;
//! `tests/names.golden` freezes them all, because changing one breaks somebody.

/// Declares a module of names together with the list of them that the golden test reads.
macro_rules! names {
    ($(#[$doc:meta])* $module:ident: $type:ty { $($(#[$name_doc:meta])* $name:ident = $value:expr;)* }) => {
        $(#[$doc])*
        pub mod $module {
            $($(#[$name_doc])* pub const $name: $type = $value;)*

            /// All of them.
            pub const ALL: &[(&str, $type)] = &[$((stringify!($name), $name)),*];
        }
    };
}

names! {
    /// API groups and versions.
    group: &str {
        /// The group of nodes and fleets.
        SEI = "sei.io";
        /// The group of what is our own.
        OUTRIGGER = "outrigger.dev";
        /// The version of all of them.
        VERSION = "v1alpha1";
        /// The resource that a caller of a sidecar must have rights on; its name is the node's.
        TASK_RESOURCE = "seinodetasks";
    }
}

names! {
    /// Finalizers.
    finalizer: &str {
        /// On every node.
        NODE = "sei.io/seinode-finalizer";
        /// On every fleet.
        FLEET = "sei.io/seinodedeployment-finalizer";
    }
}

names! {
    /// Field managers of server-side apply, which are also the components that events come from.
    manager: &str {
        /// Everything that belongs to a node.
        NODE = "seinode-controller";
        /// Everything that belongs to a fleet.
        FLEET = "seinodedeployment-controller";
        /// The KMS reporter; the lower-case hexadecimal SHA-256 of the node's name follows.
        KMS_REPORTER_PREFIX = "kms-health-reporter-";
        /// The rollup of KMS reports.
        KMS_AGGREGATOR = "outrigger-kms-aggregator";
    }
}

names! {
    /// Leases.
    lease: &str {
        /// Held by the operator that acts.
        OPERATOR = "bc1f5b0a.sei.io";
        /// Held by the aggregator of KMS reports that acts. One that writes on a ClusterOperator has a Lease of its own: a hyphen and
        /// that name follow.
        KMS_AGGREGATOR = "outrigger-kms-aggregator";
        /// Held by the preflight controller that acts, in the namespace of its API servers.
        KMS_PREFLIGHT = "outrigger-kms-preflight";
    }
}

names! {
    /// Labels.
    label: &str {
        /// The node that an object belongs to. The only label that selects, because selectors cannot change.
        NODE = "sei.io/node";
        /// The chain.
        CHAIN = "sei.io/chain";
        /// What kind of node it is: a value of [`super::role`].
        ROLE = "sei.io/role";
        /// What an object is for, where it is not the node itself.
        COMPONENT = "sei.io/component";
        /// The fleet that a node belongs to.
        FLEET = "sei.io/nodedeployment";
        /// Which node of its fleet it is, from 0.
        FLEET_ORDINAL = "sei.io/nodedeployment-ordinal";
        /// The revision of the fleet's template that a node was made from.
        REVISION = "sei.io/revision";
    }
}

names! {
    /// Values of labels.
    role: &str {
        /// A full node.
        FULL_NODE = "node";
        /// An archive.
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
        /// Keeps Karpenter from moving a pod.
        DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt";
        /// Who manages an object of a fleet.
        MANAGED_BY = "sei.io/managed-by";
        /// Value of [`MANAGED_BY`].
        MANAGED_BY_FLEET = "seinodedeployment";
        /// Hash of the proxy's configuration in the pod template: a change replaces the pod.
        PROXY_CONFIG_HASH = "outrigger.dev/proxy-config-hash";
        /// Hash of what seid's configuration is made from, in the pod template: a change replaces the pod.
        CONFIG_HASH = "outrigger.dev/config-hash";
        /// Who issues the certificate of the sidecar, in the pod template: who is not trusted any more is served by no pod.
        TLS_ISSUER = "outrigger.dev/sidecar-tls-issuer";
        /// Hash of what was last applied to an object: it tells what somebody else has changed since.
        APPLIED_HASH = "outrigger.dev/applied-hash";
        /// Lets an object go although its cleanup cannot be done.
        SKIP_FINALIZER = "outrigger.dev/skip-finalizer";
    }
}

names! {
    /// Label of a node that says which pool of machines it is in.
    scheduling: &str {
        /// Karpenter's label for the pool of a machine.
        NODE_POOL = "karpenter.sh/nodepool";
    }
}

names! {
    /// Containers of a node's pod.
    container: &str {
        /// Makes the node's home once.
        SEID_INIT = "seid-init";
        /// The sidecar.
        SIDECAR = "sei-sidecar";
        /// The authorizing proxy before the sidecar.
        PROXY = "kube-rbac-proxy";
        /// The chain.
        SEID = "seid";
        /// Metrics of the chain.
        EXPORTER = "cosmos-exporter";
    }
}

names! {
    /// Volumes of a node's pod.
    volume: &str {
        /// The chain's data.
        DATA = "data";
        /// Scratch space of the sidecar.
        SIDECAR_TMP = "sidecar-tmp";
        /// The proxy's configuration.
        PROXY_CONFIG = "rbac-proxy-config";
        /// The proxy's certificate.
        SIDECAR_TLS = "sidecar-tls";
        /// The key that signs blocks.
        SIGNING_KEY = "signing-key";
        /// The key that identifies the node.
        NODE_KEY = "node-key";
        /// The operating account's keys.
        OPERATOR_KEYRING = "operator-keyring";
    }
}

names! {
    /// Paths in containers.
    path: &str {
        /// The node's home.
        DATA = "/.sei";
        /// Scratch space of the sidecar.
        TMP = "/tmp";
        /// The proxy's configuration.
        PROXY_CONFIG = "/etc/kube-rbac-proxy";
        /// The proxy's certificate.
        TLS = "/etc/tls";
        /// The key that signs blocks.
        SIGNING_KEY = "/.sei/config/priv_validator_key.json";
        /// The key that identifies the node.
        NODE_KEY = "/.sei/config/node_key.json";
        /// The operating account's keys.
        OPERATOR_KEYRING = "/.sei/keyring-file";
    }
}

names! {
    /// Keys in Secrets and ConfigMaps.
    data_key: &str {
        /// The key that signs blocks.
        SIGNING_KEY = "priv_validator_key.json";
        /// The key that identifies the node.
        NODE_KEY = "node_key.json";
        /// The proxy's configuration.
        PROXY_CONFIG = "config.yaml";
        /// A certificate.
        TLS_CERTIFICATE = "tls.crt";
        /// A certificate's key.
        TLS_KEY = "tls.key";
    }
}

names! {
    /// Ports of a node's pod.
    port: i32 {
        /// EVM JSON-RPC by HTTP.
        EVM_RPC = 8545;
        /// EVM JSON-RPC by WebSocket.
        EVM_WS = 8546;
        /// gRPC.
        GRPC = 9090;
        /// REST.
        REST = 1317;
        /// Peers.
        P2P = 26656;
        /// Tendermint RPC.
        RPC = 26657;
        /// Metrics of seid.
        METRICS = 26660;
        /// The sidecar, unless the spec says otherwise.
        SIDECAR = 7777;
        /// The proxy before the sidecar.
        PROXY = 8443;
        /// Metrics of the chain.
        EXPORTER = 9300;
    }
}

names! {
    /// Names of ports.
    port_name: &str {
        /// EVM JSON-RPC by HTTP.
        EVM_RPC = "evm-rpc";
        /// EVM JSON-RPC by HTTP, on the Service of a fleet.
        EVM_HTTP = "evm-http";
        /// EVM JSON-RPC by WebSocket.
        EVM_WS = "evm-ws";
        /// gRPC.
        GRPC = "grpc";
        /// REST.
        REST = "rest";
        /// Peers.
        P2P = "p2p";
        /// Tendermint RPC.
        RPC = "rpc";
        /// Metrics of seid.
        METRICS = "metrics";
        /// The sidecar.
        SIDECAR = "sidecar";
        /// The proxy before the sidecar.
        PROXY = "api";
        /// Metrics of the chain.
        EXPORTER = "cosmos-metrics";
    }
}

names! {
    /// Identities of processes in pods.
    process_id: i64 {
        /// User and group of everything that we run.
        NON_ROOT = 65532;
    }
}

pub mod env;
pub mod kms;
pub mod object;
pub mod task;
