//! Environment variables.

names! {
    /// Of the operator.
    operator: &str {
        /// Node pool of most nodes.
        NODEPOOL_NAME = "SEI_NODEPOOL_NAME";
        /// Node pool of archive nodes.
        NODEPOOL_ARCHIVE = "SEI_NODEPOOL_ARCHIVE";
        /// Key of the taint that node pods tolerate.
        TOLERATION_KEY = "SEI_TOLERATION_KEY";
        /// ServiceAccount of node pods.
        SERVICE_ACCOUNT = "SEI_SERVICE_ACCOUNT";
        /// Storage class of most nodes.
        STORAGE_CLASS_PERF = "SEI_STORAGE_CLASS_PERF";
        /// Storage class of nodes without a more specific one.
        STORAGE_CLASS_DEFAULT = "SEI_STORAGE_CLASS_DEFAULT";
        /// Storage class of archive nodes.
        STORAGE_CLASS_ARCHIVE = "SEI_STORAGE_CLASS_ARCHIVE";
        /// Volume size of most nodes.
        STORAGE_SIZE_DEFAULT = "SEI_STORAGE_SIZE_DEFAULT";
        /// Volume size of archive nodes.
        STORAGE_SIZE_ARCHIVE = "SEI_STORAGE_SIZE_ARCHIVE";
        /// CPU of seid.
        RESOURCE_CPU_DEFAULT = "SEI_RESOURCE_CPU_DEFAULT";
        /// Memory of seid.
        RESOURCE_MEM_DEFAULT = "SEI_RESOURCE_MEM_DEFAULT";
        /// CPU of seid on archive nodes.
        RESOURCE_CPU_ARCHIVE = "SEI_RESOURCE_CPU_ARCHIVE";
        /// Memory of seid on archive nodes.
        RESOURCE_MEM_ARCHIVE = "SEI_RESOURCE_MEM_ARCHIVE";
        /// S3 bucket of snapshots.
        SNAPSHOT_BUCKET = "SEI_SNAPSHOT_BUCKET";
        /// Region of the snapshot bucket.
        SNAPSHOT_REGION = "SEI_SNAPSHOT_REGION";
        /// S3 bucket of exported block results.
        RESULT_EXPORT_BUCKET = "SEI_RESULT_EXPORT_BUCKET";
        /// Region of the bucket of exported block results.
        RESULT_EXPORT_REGION = "SEI_RESULT_EXPORT_REGION";
        /// Key prefix of exported block results.
        RESULT_EXPORT_PREFIX = "SEI_RESULT_EXPORT_PREFIX";
        /// S3 bucket of genesis files.
        GENESIS_BUCKET = "SEI_GENESIS_BUCKET";
        /// Region of the genesis bucket.
        GENESIS_REGION = "SEI_GENESIS_REGION";
        /// Endpoint of an S3-compatible server other than AWS.
        S3_ENDPOINT = "OUTRIGGER_S3_ENDPOINT";
        /// Whether the server uses path-style requests.
        S3_PATH_STYLE = "OUTRIGGER_S3_PATH_STYLE";
        /// Secret with the S3 credentials.
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
        /// OTLP endpoint for traces.
        OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";
        /// Name of the operator's pod.
        POD_NAME = "POD_NAME";
        /// Namespace of the operator's pod.
        POD_NAMESPACE = "POD_NAMESPACE";
    }
}

names! {
    /// Of the sidecar.
    sidecar: &str {
        /// Chain ID.
        CHAIN_ID = "SEI_CHAIN_ID";
        /// Port to listen on.
        PORT = "SEI_SIDECAR_PORT";
        /// Where the API listens: `unix:PATH`, or unset for a TCP port.
        LISTEN = "OUTRIGGER_SIDECAR_LISTEN";
        /// Control directory of seid; unset to signal seid in a shared process namespace.
        SEID_CONTROL_DIR = "OUTRIGGER_SEID_CONTROL_DIR";
        /// Directory that only the sidecar mounts, for its record of accepted tasks.
        PRIVATE_DIR = "OUTRIGGER_SIDECAR_PRIVATE_DIR";
        /// Whether the node publishes snapshots.
        PUBLISH_SNAPSHOTS = "OUTRIGGER_PUBLISH_SNAPSHOTS";
        /// Home directory of the node.
        HOME = "SEI_HOME";
        /// S3 bucket of genesis files.
        GENESIS_BUCKET = "SEI_GENESIS_BUCKET";
        /// Region of the genesis bucket.
        GENESIS_REGION = "SEI_GENESIS_REGION";
        /// S3 bucket of snapshots.
        SNAPSHOT_BUCKET = "SEI_SNAPSHOT_BUCKET";
        /// Region of the snapshot bucket.
        SNAPSHOT_REGION = "SEI_SNAPSHOT_REGION";
        /// S3 bucket of exported block results.
        RESULT_EXPORT_BUCKET = "SEI_RESULT_EXPORT_BUCKET";
        /// Region of the bucket of exported block results.
        RESULT_EXPORT_REGION = "SEI_RESULT_EXPORT_REGION";
        /// Key prefix of exported block results.
        RESULT_EXPORT_PREFIX = "SEI_RESULT_EXPORT_PREFIX";
        /// S3 endpoint, in the variable that all AWS clients use.
        S3_ENDPOINT = "AWS_ENDPOINT_URL";
        /// Whether requests to a custom endpoint use virtual-hosted-style.
        S3_VIRTUAL_HOST = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST";
        /// S3 access key ID.
        S3_KEY_ID = "AWS_ACCESS_KEY_ID";
        /// S3 secret access key.
        S3_KEY = "AWS_SECRET_ACCESS_KEY";
        /// Session token of temporary S3 credentials.
        S3_SESSION_TOKEN = "AWS_SESSION_TOKEN";
        /// How callers are authenticated.
        AUTHN_MODE = "SEI_SIDECAR_AUTHN_MODE";
        /// Interval of snapshot uploads.
        SNAPSHOT_UPLOAD_INTERVAL = "SEI_SNAPSHOT_UPLOAD_INTERVAL";
        /// Timeout of a snapshot upload.
        SNAPSHOT_UPLOAD_TIMEOUT = "SEI_SNAPSHOT_UPLOAD_TIMEOUT";
        /// Value of [`AUTHN_MODE`]: listen on loopback only, and require the proxy's header.
        AUTHN_MODE_TRUSTED_HEADER = "trusted-header";
        /// Value of [`AUTHN_MODE`]: requests are not authenticated.
        AUTHN_MODE_UNAUTHENTICATED = "unauthenticated";
    }
}
