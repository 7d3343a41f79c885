//! Command-line arguments of the operator. Values are taken as text and validated together, so that one start reports all
//! invalid settings.

use api::names::env::operator as env;
use runtime::settings::{ADMIN_ADDRESS, LeaseArgs};

/// Settings of the operator. Each is a flag or an environment variable.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) platform: PlatformArgs,
    #[command(flatten)]
    pub(super) process: ProcessArgs,
    #[command(flatten)]
    pub(super) sidecar: SidecarArgs,
    #[command(flatten)]
    pub(super) lease: LeaseArgs,
    #[command(flatten)]
    pub(super) upstream: UpstreamArgs,
    #[command(flatten)]
    pub(super) removed: RemovedArgs,
}

/// The platform that nodes run on.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Platform")]
pub(super) struct PlatformArgs {
    /// Karpenter NodePool for all nodes except archive nodes
    #[arg(long, env = env::NODEPOOL_NAME, value_name = "NAME")]
    pub(super) nodepool_name: Option<String>,
    /// Karpenter NodePool for archive nodes
    #[arg(long, env = env::NODEPOOL_ARCHIVE, value_name = "NAME")]
    pub(super) nodepool_archive: Option<String>,
    /// Label of Kubernetes nodes that must hold the name of the NodePool, or `none` to let pods run outside of a NodePool. A change
    /// applies to a running node with its next update
    #[arg(
        long,
        env = "OUTRIGGER_NODEPOOL_LABEL",
        value_name = "KEY",
        default_value = api::names::scheduling::NODE_POOL
    )]
    pub(super) nodepool_label: String,
    /// Taint key that node pods tolerate
    #[arg(long, env = env::TOLERATION_KEY, value_name = "KEY")]
    pub(super) toleration_key: Option<String>,
    /// ServiceAccount of node pods
    #[arg(long, env = env::SERVICE_ACCOUNT, value_name = "NAME")]
    pub(super) service_account: Option<String>,
    /// StorageClass for all nodes except archive nodes
    #[arg(long, env = env::STORAGE_CLASS_PERF, value_name = "NAME")]
    pub(super) storage_class_perf: Option<String>,
    /// StorageClass for archive nodes
    #[arg(long, env = env::STORAGE_CLASS_ARCHIVE, value_name = "NAME")]
    pub(super) storage_class_archive: Option<String>,
    /// Volume size for all nodes except archive nodes
    #[arg(long, env = env::STORAGE_SIZE_DEFAULT, value_name = "QUANTITY")]
    pub(super) storage_size_default: Option<String>,
    /// Volume size for archive nodes
    #[arg(long, env = env::STORAGE_SIZE_ARCHIVE, value_name = "QUANTITY")]
    pub(super) storage_size_archive: Option<String>,
    /// CPU request of seid
    #[arg(long, env = env::RESOURCE_CPU_DEFAULT, value_name = "QUANTITY")]
    pub(super) resource_cpu_default: Option<String>,
    /// Memory request of seid
    #[arg(long, env = env::RESOURCE_MEM_DEFAULT, value_name = "QUANTITY")]
    pub(super) resource_mem_default: Option<String>,
    /// CPU request of seid on archive nodes
    #[arg(long, env = env::RESOURCE_CPU_ARCHIVE, value_name = "QUANTITY")]
    pub(super) resource_cpu_archive: Option<String>,
    /// Memory request of seid on archive nodes
    #[arg(long, env = env::RESOURCE_MEM_ARCHIVE, value_name = "QUANTITY")]
    pub(super) resource_mem_archive: Option<String>,
    /// S3 bucket of snapshots
    #[arg(long, env = env::SNAPSHOT_BUCKET, value_name = "NAME")]
    pub(super) snapshot_bucket: Option<String>,
    /// Region of the snapshot bucket
    #[arg(long, env = env::SNAPSHOT_REGION, value_name = "REGION")]
    pub(super) snapshot_region: Option<String>,
    /// S3 bucket of genesis files
    #[arg(long, env = env::GENESIS_BUCKET, value_name = "NAME")]
    pub(super) genesis_bucket: Option<String>,
    /// Region of the genesis bucket
    #[arg(long, env = env::GENESIS_REGION, value_name = "REGION")]
    pub(super) genesis_region: Option<String>,
    /// S3 bucket for block results that the task result-export of a sidecar exports; requires --result-export-region. A change applies
    /// to a running node with its next update [default: nothing can be exported]
    #[arg(long, env = env::RESULT_EXPORT_BUCKET, value_name = "NAME")]
    pub(super) result_export_bucket: Option<String>,
    /// Region of the bucket for exported block results
    #[arg(long, env = env::RESULT_EXPORT_REGION, value_name = "REGION")]
    pub(super) result_export_region: Option<String>,
    /// Key prefix of exported block results. It is the same for all nodes, and objects are named after their blocks only: nodes that
    /// export the same blocks replace each other's objects
    #[arg(long, env = env::RESULT_EXPORT_PREFIX, value_name = "PREFIX")]
    pub(super) result_export_prefix: Option<String>,
    /// Endpoint of an S3-compatible store for all buckets, for example https://s3.example:9000 [default: AWS]
    #[arg(long, env = env::S3_ENDPOINT, value_name = "URL")]
    pub(super) s3_endpoint: Option<String>,
    /// Use path-style URLs with --s3-endpoint instead of virtual-hosted-style ones
    #[arg(long, env = env::S3_PATH_STYLE, value_name = "BOOL", default_value = "true")]
    pub(super) s3_path_style: String,
    /// Secret in the namespace of each node with `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, optionally,
    /// `AWS_SESSION_TOKEN` [default: sidecars use the identity of their pod]
    #[arg(long, env = env::S3_CREDENTIALS_SECRET, value_name = "NAME")]
    pub(super) s3_credentials_secret: Option<String>,
    /// Image of the sidecar, unless a node sets spec.sidecar.image
    #[arg(long, env = env::SIDECAR_IMAGE, value_name = "IMAGE")]
    pub(super) sidecar_image: Option<String>,
    /// Isolation of the containers of a pod, unless a node sets spec.sidecar.isolation: isolated, or shared for sidecar images
    /// without a Unix socket and a control directory, like seictl
    #[arg(long, env = "OUTRIGGER_SIDECAR_ISOLATION", value_name = "MODE", default_value = "isolated")]
    pub(super) sidecar_isolation: String,
    /// Image of the authorizing proxy in front of the sidecar
    #[arg(long, env = env::PROXY_IMAGE, value_name = "IMAGE")]
    pub(super) kube_rbac_proxy_image: Option<String>,
    /// Image of the Cosmos metrics exporter
    #[arg(long, env = env::EXPORTER_IMAGE, value_name = "IMAGE")]
    pub(super) cosmos_exporter_image: Option<String>,
    /// How long the height of a node must not change, while other nodes of its chain move, until it is reported as halted
    #[arg(long, env = "OUTRIGGER_CHAIN_HALT_TIMEOUT", value_name = "DURATION", default_value = "60s")]
    pub(super) chain_halt_timeout: String,
    /// Refuse nodes that use a Secret or a PersistentVolumeClaim without the label `sei.io/node=<name of the node>`. Secrets that
    /// cert-manager issues and --s3-credentials-secret need no label
    #[arg(long, env = "OUTRIGGER_STRICT_REFERENCES", value_name = "BOOL", default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub(super) strict_references: String,
    /// Limit what pods of nodes may connect to: name servers (port 53), peers (port 26656), nodes of their namespace, and these
    /// destinations. They must include the API server and the object store, if there is one. Repeat the flag, or separate with
    /// commas [default: no limit]. A change applies to a running node with its next update
    #[arg(long, env = "OUTRIGGER_NODE_EGRESS", value_name = "CIDR[:PORT]", value_delimiter = ',')]
    pub(super) node_egress: Vec<String>,
    /// Gateway that publishes fleets; requires --gateway-namespace and --gateway-domain
    #[arg(long, env = env::GATEWAY_NAME, value_name = "NAME")]
    pub(super) gateway_name: Option<String>,
    /// Namespace of the Gateway
    #[arg(long, env = env::GATEWAY_NAMESPACE, value_name = "NAMESPACE")]
    pub(super) gateway_namespace: Option<String>,
    /// Domain of published fleets
    #[arg(long, env = env::GATEWAY_DOMAIN, value_name = "DOMAIN")]
    pub(super) gateway_domain: Option<String>,
    /// Additional public domain of published fleets
    #[arg(long, env = env::GATEWAY_PUBLIC_DOMAIN, value_name = "DOMAIN")]
    pub(super) gateway_public_domain: Option<String>,
}

/// The operator process.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
pub(super) struct ProcessArgs {
    /// Path of a kubeconfig file [default: $KUBECONFIG, ~/.kube/config or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<String>,
    /// Context of the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Namespaces to watch, comma-separated [default: all]
    #[arg(long, env = "OUTRIGGER_WATCH_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    pub(super) watch_namespaces: Vec<String>,
    /// Name of the operator's pod [default: the host name]
    #[arg(long, env = env::POD_NAME, value_name = "NAME")]
    pub(super) pod_name: Option<String>,
    /// Namespace of the operator's pod and its Lease [default: the namespace of its ServiceAccount]
    #[arg(long, env = env::POD_NAMESPACE, value_name = "NAMESPACE")]
    pub(super) pod_namespace: Option<String>,
    /// Labels of the operator's pod, which network policies of nodes select [default: every pod in its namespace]
    #[arg(long, env = "OUTRIGGER_POD_LABELS", value_name = "KEY=VALUE,...")]
    pub(super) pod_labels: Option<String>,
    /// Address of the metrics endpoint; 0 disables it. Metrics and probes are served at both addresses
    #[arg(long, env = "OUTRIGGER_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080")]
    pub(super) metrics_bind_address: String,
    /// Address of the health probe endpoint; 0 disables it
    #[arg(
        long,
        env = "OUTRIGGER_HEALTH_PROBE_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = ":8081"
    )]
    pub(super) health_probe_bind_address: String,
    /// Address of debug state and log level, which need no authentication: on loopback only; 0 disables it
    #[arg(long, env = "OUTRIGGER_ADMIN_BIND_ADDRESS", value_name = "ADDRESS", default_value = ADMIN_ADDRESS)]
    pub(super) admin_bind_address: String,
    /// Maximum number of concurrent reconciles
    #[arg(long, env = "OUTRIGGER_MAX_CONCURRENT_RECONCILES", value_name = "NUMBER", default_value = "64")]
    pub(super) max_concurrent_reconciles: String,
    /// Maximum number of nodes that are updated at a time for changes other than their own edits: a number, or a percentage of
    /// all nodes, rounded down and at least 1
    #[arg(long, env = "OUTRIGGER_MAX_PLATFORM_DISRUPTIONS", value_name = "N|PERCENT", default_value = "10%")]
    pub(super) max_platform_disruptions: String,
    /// Log level, or a filter with levels by module, for example info,kube=debug
    #[arg(long, env = "OUTRIGGER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: String,
    /// Log format: json or pretty
    #[arg(long, env = "OUTRIGGER_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: String,
    /// OTLP endpoint (gRPC) for traces [default: tracing is off]
    #[arg(long, env = env::OTLP_ENDPOINT, value_name = "URL")]
    pub(super) otlp_endpoint: Option<String>,
}

/// How the operator connects to sidecars, and which pods may.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Sidecars")]
pub(super) struct SidecarArgs {
    /// Address of the proxy in front of a sidecar, with the placeholders {podIP}, {node} and {namespace}. The Host header and
    /// the TLS server name are always the DNS name of the pod
    #[arg(
        long,
        env = "OUTRIGGER_SIDECAR_ADDRESS_TEMPLATE",
        value_name = "HOST:PORT",
        default_value = "{podIP}:8443"
    )]
    pub(super) sidecar_address_template: String,
    /// ServiceAccount of the operator. For each node the operator requests a token of it whose audience only the proxy of that node
    /// accepts
    #[arg(long, env = "OUTRIGGER_TOKEN_SERVICE_ACCOUNT", value_name = "NAMESPACE/NAME")]
    pub(super) token_service_account: Option<String>,
    /// File with a bearer token for pods that were set up by another operator or a previous version. The proxy of every such pod accepts
    /// it, and who may change the image of such a pod can read it: where proxies check an audience (--auth-token-audiences), use a
    /// projected token with that audience, which the API server does not accept. Set it only until each node was updated; it may be
    /// rotated while the operator runs [default: such pods get no token]
    #[arg(long, env = "OUTRIGGER_LEGACY_SIDECAR_TOKEN_FILE", value_name = "FILE")]
    pub(super) legacy_sidecar_token_file: Option<String>,
    /// Additional pods that network policies allow to connect to sidecars; repeat the flag, or separate with semicolons
    #[arg(
        long,
        env = "OUTRIGGER_SIDECAR_CLIENTS",
        value_name = "NAMESPACE[:KEY=VALUE,...]",
        value_delimiter = ';'
    )]
    pub(super) sidecar_clients: Vec<String>,
}

/// Settings of previous versions. They are rejected with what replaces them: an operator that ignored them would lose access to nodes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RemovedArgs {
    #[arg(long, env = "OUTRIGGER_SIDECAR_TOKEN_FILE", hide = true)]
    pub(super) sidecar_token_file: Option<String>,
    #[arg(long, env = "OUTRIGGER_PROXY_TOKEN_AUDIENCE", hide = true)]
    pub(super) proxy_token_audience: Option<String>,
}

/// Settings of the upstream controller that have no effect here. They are accepted, so that its manifests keep working.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Ignored settings of the upstream controller")]
pub(super) struct UpstreamArgs {
    /// No node kind uses it
    #[arg(long, env = env::STORAGE_CLASS_DEFAULT, value_name = "NAME")]
    pub(super) storage_class_default: Option<String>,
    /// Metrics are served over plain HTTP; true is rejected
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub(super) metrics_secure: Option<String>,
    /// Metrics are served over plain HTTP
    #[arg(long, value_name = "FOLDER")]
    pub(super) metrics_cert_path: Option<String>,
    /// Metrics are served over plain HTTP
    #[arg(long, value_name = "FILE")]
    pub(super) metrics_cert_name: Option<String>,
    /// Metrics are served over plain HTTP
    #[arg(long, value_name = "FILE")]
    pub(super) metrics_cert_key: Option<String>,
    /// Metrics are served over HTTP/1.1
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub(super) enable_http2: Option<String>,
    /// Use --log-level and --log-format
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub(super) zap_devel: Option<String>,
    /// Use --log-format
    #[arg(long, value_name = "FORMAT")]
    pub(super) zap_encoder: Option<String>,
    /// Use --log-level
    #[arg(long, value_name = "LEVEL")]
    pub(super) zap_log_level: Option<String>,
    /// Errors are logged without stack traces
    #[arg(long, value_name = "LEVEL")]
    pub(super) zap_stacktrace_level: Option<String>,
    /// Timestamps are RFC 3339
    #[arg(long, value_name = "FORMAT")]
    pub(super) zap_time_encoding: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> clap::Command {
        <Args as clap::Args>::augment_args(clap::Command::new("operator"))
    }

    #[test]
    fn command_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn every_operator_environment_variable_is_read() {
        let command = command();
        let read: Vec<&str> =
            command.get_arguments().filter_map(|arg| arg.get_env().and_then(|name| name.to_str())).collect();
        let missing = env::ALL.iter().map(|(_, name)| *name).filter(|name| !read.contains(name));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn settings_page_is_up_to_date() -> testbed::Result<()> {
        let mut page = String::from(
            "# Operator settings\n\n\
             Generated from the code; a test keeps this page up to date. Every setting is a flag of `outrigger operator` or an environment\n\
             variable; the flag takes precedence. The operator validates all settings before it starts: it prints every invalid setting, one\n\
             per line, and exits with code 2. Platform settings without a default are required, except `--gateway-*` and `--s3-*`.\n",
        );
        page.push_str(&testbed::harness::generated::flag_tables(&command()));
        testbed::harness::generated::check("docs/reference/operator-settings.md", &page)
    }
}
