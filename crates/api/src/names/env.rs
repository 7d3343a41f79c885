//! Environment variables.

names! {
    /// Of the operator.
    operator: &str {
        /// Pool of machines for most nodes.
        NODEPOOL_NAME = "SEI_NODEPOOL_NAME";
        /// Pool of machines for archives.
        NODEPOOL_ARCHIVE = "SEI_NODEPOOL_ARCHIVE";
        /// Key of the taint on machines for nodes.
        TOLERATION_KEY = "SEI_TOLERATION_KEY";
        /// ServiceAccount of node pods.
        SERVICE_ACCOUNT = "SEI_SERVICE_ACCOUNT";
        /// Storage class of most nodes.
        STORAGE_CLASS_PERF = "SEI_STORAGE_CLASS_PERF";
        /// Storage class of kinds that have none of their own.
        STORAGE_CLASS_DEFAULT = "SEI_STORAGE_CLASS_DEFAULT";
        /// Storage class of archives.
        STORAGE_CLASS_ARCHIVE = "SEI_STORAGE_CLASS_ARCHIVE";
        /// Volume size of most nodes.
        STORAGE_SIZE_DEFAULT = "SEI_STORAGE_SIZE_DEFAULT";
        /// Volume size of archives.
        STORAGE_SIZE_ARCHIVE = "SEI_STORAGE_SIZE_ARCHIVE";
        /// CPU of seid.
        RESOURCE_CPU_DEFAULT = "SEI_RESOURCE_CPU_DEFAULT";
        /// Memory of seid.
        RESOURCE_MEM_DEFAULT = "SEI_RESOURCE_MEM_DEFAULT";
        /// CPU of an archive's seid.
        RESOURCE_CPU_ARCHIVE = "SEI_RESOURCE_CPU_ARCHIVE";
        /// Memory of an archive's seid.
        RESOURCE_MEM_ARCHIVE = "SEI_RESOURCE_MEM_ARCHIVE";
        /// Bucket of snapshots.
        SNAPSHOT_BUCKET = "SEI_SNAPSHOT_BUCKET";
        /// Region of the bucket of snapshots.
        SNAPSHOT_REGION = "SEI_SNAPSHOT_REGION";
        /// Bucket of replay results.
        RESULT_EXPORT_BUCKET = "SEI_RESULT_EXPORT_BUCKET";
        /// Region of the bucket of replay results.
        RESULT_EXPORT_REGION = "SEI_RESULT_EXPORT_REGION";
        /// Prefix of replay results.
        RESULT_EXPORT_PREFIX = "SEI_RESULT_EXPORT_PREFIX";
        /// Bucket of genesis files.
        GENESIS_BUCKET = "SEI_GENESIS_BUCKET";
        /// Region of the bucket of genesis files.
        GENESIS_REGION = "SEI_GENESIS_REGION";
        /// Address of the buckets' server, when it is not AWS's.
        S3_ENDPOINT = "OUTRIGGER_S3_ENDPOINT";
        /// Whether that server finds a bucket by the path.
        S3_PATH_STYLE = "OUTRIGGER_S3_PATH_STYLE";
        /// Secret with the buckets' credentials.
        S3_CREDENTIALS_SECRET = "OUTRIGGER_S3_CREDENTIALS_SECRET";
        /// Gateway of published fleets.
        GATEWAY_NAME = "SEI_GATEWAY_NAME";
        /// Namespace of the gateway.
        GATEWAY_NAMESPACE = "SEI_GATEWAY_NAMESPACE";
        /// Domain of published fleets.
        GATEWAY_DOMAIN = "SEI_GATEWAY_DOMAIN";
        /// Public domain of published fleets.
        GATEWAY_PUBLIC_DOMAIN = "SEI_GATEWAY_PUBLIC_DOMAIN";
        /// Image of the sidecar.
        SIDECAR_IMAGE = "SEI_SIDECAR_IMAGE";
        /// Image of the proxy.
        PROXY_IMAGE = "SEI_KUBE_RBAC_PROXY_IMAGE";
        /// Image of the exporter.
        EXPORTER_IMAGE = "SEI_COSMOS_EXPORTER_IMAGE";
        /// Where traces and metrics are sent.
        OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";
        /// The operator's own pod.
        POD_NAME = "POD_NAME";
        /// The namespace of the operator's own pod.
        POD_NAMESPACE = "POD_NAMESPACE";
    }
}

names! {
    /// Of the sidecar.
    sidecar: &str {
        /// The chain.
        CHAIN_ID = "SEI_CHAIN_ID";
        /// The port to listen on.
        PORT = "SEI_SIDECAR_PORT";
        /// The node's home.
        HOME = "SEI_HOME";
        /// Bucket of genesis files.
        GENESIS_BUCKET = "SEI_GENESIS_BUCKET";
        /// Region of the bucket of genesis files.
        GENESIS_REGION = "SEI_GENESIS_REGION";
        /// Bucket of snapshots.
        SNAPSHOT_BUCKET = "SEI_SNAPSHOT_BUCKET";
        /// Region of the bucket of snapshots.
        SNAPSHOT_REGION = "SEI_SNAPSHOT_REGION";
        /// Address of the buckets' server, as every AWS client reads it.
        S3_ENDPOINT = "AWS_ENDPOINT_URL";
        /// Whether buckets are named in the host name, with a server that is not AWS's.
        S3_VIRTUAL_HOST = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST";
        /// Name of the key of the buckets.
        S3_KEY_ID = "AWS_ACCESS_KEY_ID";
        /// The key of the buckets.
        S3_KEY = "AWS_SECRET_ACCESS_KEY";
        /// What goes with a key that is valid for a while.
        S3_SESSION_TOKEN = "AWS_SESSION_TOKEN";
        /// How callers are authenticated.
        AUTHN_MODE = "SEI_SIDECAR_AUTHN_MODE";
        /// Time between two uploads of snapshots.
        SNAPSHOT_UPLOAD_INTERVAL = "SEI_SNAPSHOT_UPLOAD_INTERVAL";
        /// Longest time that one upload may take.
        SNAPSHOT_UPLOAD_TIMEOUT = "SEI_SNAPSHOT_UPLOAD_TIMEOUT";
        /// Kind of keyring.
        KEYRING_BACKEND = "SEI_KEYRING_BACKEND";
        /// Folder of the keyring.
        KEYRING_DIR = "SEI_KEYRING_DIR";
        /// Passphrase of the keyring.
        KEYRING_PASSPHRASE = "SEI_KEYRING_PASSPHRASE";
        /// Value of [`AUTHN_MODE`]: listen on loopback only, and require the proxy's header.
        AUTHN_MODE_TRUSTED_HEADER = "trusted-header";
        /// Value of [`AUTHN_MODE`]: everybody may do everything.
        AUTHN_MODE_UNAUTHENTICATED = "unauthenticated";
    }
}
