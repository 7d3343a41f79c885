//! The operator's command line. Values are taken as text and checked together, so that somebody who has three of them wrong
//! is told three times at once, and not once in each of three starts.

use api::names::env::operator as env;
use runtime::settings::LeaseArgs;

/// Settings of the operator. Each can be given as a flag or as an environment variable.
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
}

/// The platform that nodes run on.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The platform that nodes run on")]
pub(super) struct PlatformArgs {
    /// Pool of machines for most nodes
    #[arg(long, env = env::NODEPOOL_NAME, value_name = "NAME")]
    pub(super) nodepool_name: Option<String>,
    /// Pool of machines for archives
    #[arg(long, env = env::NODEPOOL_ARCHIVE, value_name = "NAME")]
    pub(super) nodepool_archive: Option<String>,
    /// Key of the taint on machines for nodes
    #[arg(long, env = env::TOLERATION_KEY, value_name = "KEY")]
    pub(super) toleration_key: Option<String>,
    /// ServiceAccount of node pods
    #[arg(long, env = env::SERVICE_ACCOUNT, value_name = "NAME")]
    pub(super) service_account: Option<String>,
    /// Storage class of most nodes
    #[arg(long, env = env::STORAGE_CLASS_PERF, value_name = "NAME")]
    pub(super) storage_class_perf: Option<String>,
    /// Storage class of archives
    #[arg(long, env = env::STORAGE_CLASS_ARCHIVE, value_name = "NAME")]
    pub(super) storage_class_archive: Option<String>,
    /// Volume size of most nodes
    #[arg(long, env = env::STORAGE_SIZE_DEFAULT, value_name = "QUANTITY")]
    pub(super) storage_size_default: Option<String>,
    /// Volume size of archives
    #[arg(long, env = env::STORAGE_SIZE_ARCHIVE, value_name = "QUANTITY")]
    pub(super) storage_size_archive: Option<String>,
    /// Processors that seid asks for
    #[arg(long, env = env::RESOURCE_CPU_DEFAULT, value_name = "QUANTITY")]
    pub(super) resource_cpu_default: Option<String>,
    /// Memory that seid asks for
    #[arg(long, env = env::RESOURCE_MEM_DEFAULT, value_name = "QUANTITY")]
    pub(super) resource_mem_default: Option<String>,
    /// Processors that an archive's seid asks for
    #[arg(long, env = env::RESOURCE_CPU_ARCHIVE, value_name = "QUANTITY")]
    pub(super) resource_cpu_archive: Option<String>,
    /// Memory that an archive's seid asks for
    #[arg(long, env = env::RESOURCE_MEM_ARCHIVE, value_name = "QUANTITY")]
    pub(super) resource_mem_archive: Option<String>,
    /// Bucket of snapshots
    #[arg(long, env = env::SNAPSHOT_BUCKET, value_name = "NAME")]
    pub(super) snapshot_bucket: Option<String>,
    /// Region of the bucket of snapshots
    #[arg(long, env = env::SNAPSHOT_REGION, value_name = "REGION")]
    pub(super) snapshot_region: Option<String>,
    /// Bucket of genesis files
    #[arg(long, env = env::GENESIS_BUCKET, value_name = "NAME")]
    pub(super) genesis_bucket: Option<String>,
    /// Region of the bucket of genesis files
    #[arg(long, env = env::GENESIS_REGION, value_name = "REGION")]
    pub(super) genesis_region: Option<String>,
    /// Address of the server of both buckets, like https://s3.example:9000, when it is not AWS's own
    #[arg(long, env = env::S3_ENDPOINT, value_name = "URL")]
    pub(super) s3_endpoint: Option<String>,
    /// Whether the server at --s3-endpoint finds a bucket by the path of a URL; else by its host name
    #[arg(long, env = env::S3_PATH_STYLE, value_name = "BOOL", default_value = "true")]
    pub(super) s3_path_style: String,
    /// Secret in the namespace of each node with `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, where there is one,
    /// `AWS_SESSION_TOKEN`; else sidecars have the identity of their pod
    #[arg(long, env = env::S3_CREDENTIALS_SECRET, value_name = "NAME")]
    pub(super) s3_credentials_secret: Option<String>,
    /// Image of the sidecar, unless a node names another
    #[arg(long, env = env::SIDECAR_IMAGE, value_name = "IMAGE")]
    pub(super) sidecar_image: Option<String>,
    /// Image of the proxy before the sidecar
    #[arg(long, env = env::PROXY_IMAGE, value_name = "IMAGE")]
    pub(super) kube_rbac_proxy_image: Option<String>,
    /// Image of the exporter of the chain's metrics
    #[arg(long, env = env::EXPORTER_IMAGE, value_name = "IMAGE")]
    pub(super) cosmos_exporter_image: Option<String>,
    /// Gateway of published fleets; with its namespace and domain, or none of the three
    #[arg(long, env = env::GATEWAY_NAME, value_name = "NAME")]
    pub(super) gateway_name: Option<String>,
    /// Namespace of the gateway
    #[arg(long, env = env::GATEWAY_NAMESPACE, value_name = "NAMESPACE")]
    pub(super) gateway_namespace: Option<String>,
    /// Domain of published fleets
    #[arg(long, env = env::GATEWAY_DOMAIN, value_name = "DOMAIN")]
    pub(super) gateway_domain: Option<String>,
    /// A second, public domain of published fleets
    #[arg(long, env = env::GATEWAY_PUBLIC_DOMAIN, value_name = "DOMAIN")]
    pub(super) gateway_public_domain: Option<String>,
}

/// How this process lives.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "This process")]
pub(super) struct ProcessArgs {
    /// A kubeconfig; else KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<String>,
    /// A context of the kubeconfig; else its current one
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Namespaces to look after, with commas between; else all of them
    #[arg(long, env = "OUTRIGGER_WATCH_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    pub(super) watch_namespaces: Vec<String>,
    /// Name of the operator's own pod; else the machine's
    #[arg(long, env = env::POD_NAME, value_name = "NAME")]
    pub(super) pod_name: Option<String>,
    /// Namespace of the operator's own pod, where its Lease is; else that of its service account
    #[arg(long, env = env::POD_NAMESPACE, value_name = "NAMESPACE")]
    pub(super) pod_namespace: Option<String>,
    /// Labels of the operator's own pod, by which network policies let it through to sidecars; without any, every pod of its
    /// namespace is let through
    #[arg(long, env = "OUTRIGGER_POD_LABELS", value_name = "KEY=VALUE,...")]
    pub(super) pod_labels: Option<String>,
    /// Address of metrics; 0 for none. Everything is served at both addresses
    #[arg(long, env = "OUTRIGGER_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080")]
    pub(super) metrics_bind_address: String,
    /// Address of probes; 0 for none
    #[arg(
        long,
        env = "OUTRIGGER_HEALTH_PROBE_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = ":8081"
    )]
    pub(super) health_probe_bind_address: String,
    /// How many nodes are worked on at once
    #[arg(long, env = "OUTRIGGER_MAX_CONCURRENT_RECONCILES", value_name = "NUMBER", default_value = "64")]
    pub(super) max_concurrent_reconciles: String,
    /// What is logged: a level, or levels by module, like info,kube=debug
    #[arg(long, env = "OUTRIGGER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: String,
    /// How log lines look: json or pretty
    #[arg(long, env = "OUTRIGGER_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: String,
    /// Where traces go (OTLP over gRPC); else nowhere
    #[arg(long, env = env::OTLP_ENDPOINT, value_name = "URL")]
    pub(super) otlp_endpoint: Option<String>,
}

/// Where the kubelet puts the token of a pod's own account, which is for the API server.
pub(super) const OWN_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// How sidecars are spoken to, and by whom.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Sidecars")]
pub(super) struct SidecarArgs {
    /// Where a sidecar's proxy is connected to, made of {podIP}, {node} and {namespace}; the Host header and the TLS name are
    /// the pod's host name in any case
    #[arg(
        long,
        env = "OUTRIGGER_SIDECAR_ADDRESS_TEMPLATE",
        value_name = "HOST:PORT",
        default_value = "{podIP}:8443"
    )]
    pub(super) sidecar_address_template: String,
    /// File with the token that sidecars are shown; it may be replaced while the operator runs
    #[arg(long, env = "OUTRIGGER_SIDECAR_TOKEN_FILE", value_name = "FILE", default_value = OWN_TOKEN)]
    pub(super) sidecar_token_file: String,
    /// Audience of that token, which every proxy then asks for, so that whoever captures it cannot use it at the API server; needs
    /// --sidecar-token-file with a projected token of this audience. Pods follow a change as they follow one of the proxy's image
    #[arg(long, env = "OUTRIGGER_PROXY_TOKEN_AUDIENCE", value_name = "NAME")]
    pub(super) proxy_token_audience: Option<String>,
    /// Pods that network policies let through to sidecars beside the operator's own; may be repeated, or have semicolons between
    #[arg(
        long,
        env = "OUTRIGGER_SIDECAR_CLIENTS",
        value_name = "NAMESPACE[:KEY=VALUE,...]",
        value_delimiter = ';'
    )]
    pub(super) sidecar_clients: Vec<String>,
}

/// Settings of the operator that we replace which mean nothing here. They are accepted, so that its manifests start.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Accepted for manifests of the operator before, without effect")]
pub(super) struct UpstreamArgs {
    /// No kind of node has it
    #[arg(long, env = env::STORAGE_CLASS_DEFAULT, value_name = "NAME")]
    pub(super) storage_class_default: Option<String>,
    /// Nothing is exported
    #[arg(long, env = env::RESULT_EXPORT_BUCKET, value_name = "NAME")]
    pub(super) result_export_bucket: Option<String>,
    /// Nothing is exported
    #[arg(long, env = env::RESULT_EXPORT_REGION, value_name = "REGION")]
    pub(super) result_export_region: Option<String>,
    /// Nothing is exported
    #[arg(long, env = env::RESULT_EXPORT_PREFIX, value_name = "PREFIX")]
    pub(super) result_export_prefix: Option<String>,
    /// Metrics are served in the clear: true is refused
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub(super) metrics_secure: Option<String>,
    /// Metrics are served in the clear
    #[arg(long, value_name = "FOLDER")]
    pub(super) metrics_cert_path: Option<String>,
    /// Metrics are served in the clear
    #[arg(long, value_name = "FILE")]
    pub(super) metrics_cert_name: Option<String>,
    /// Metrics are served in the clear
    #[arg(long, value_name = "FILE")]
    pub(super) metrics_cert_key: Option<String>,
    /// Metrics are served by HTTP/1.1
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
    /// Times are logged as RFC 3339
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
    fn the_arguments_are_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_environment_variable_of_the_operator_is_read() {
        let command = command();
        let read: Vec<&str> =
            command.get_arguments().filter_map(|arg| arg.get_env().and_then(|name| name.to_str())).collect();
        let missing = env::ALL.iter().map(|(_, name)| *name).filter(|name| !read.contains(name));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn the_documentation_is_what_the_code_says() -> testbed::Result<()> {
        let mut page = String::from(
            "# Settings of the operator\n\n\
             Generated from the code; a test compares. Every setting is a flag of `outrigger operator` or an environment variable; a flag\n\
             wins. All of them are checked before anything else is done: what is wrong is told at once, one line each, with exit code 2.\n\
             What has no default must be given where it is about the platform, except for the gateway.\n",
        );
        page.push_str(&testbed::harness::generated::settings(&command()));
        testbed::harness::generated::check("docs/reference/operator-settings.md", &page)
    }
}
