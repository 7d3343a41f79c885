//! The aggregator's command line. Values are parsed after clap, so that all invalid settings are reported together.

use api::names::env::operator as env;
use runtime::settings::{ADMIN_ADDRESS, LeaseArgs};

/// Settings of the aggregator. Each is a flag or an environment variable.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    pub(super) api_servers: ApiServerArgs,
    #[command(flatten)]
    pub(super) process: ProcessArgs,
    #[command(flatten)]
    pub(super) lease: LeaseArgs,
}

/// Which reports are rolled up, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Reports")]
pub(super) struct ReportArgs {
    /// Comma-separated kinds whose reports are rolled up: kubeapiserver, openshiftapiserver, authentication, kmshealth
    #[arg(
        long,
        env = "OUTRIGGER_KMS_TARGETS",
        value_name = "KIND",
        value_delimiter = ',',
        default_value = "kmshealth"
    )]
    pub(super) targets: Vec<String>,
    /// Expected time between two reports of a node, for reports without intervalSeconds. A report unchanged for four intervals is stale
    #[arg(long, env = "OUTRIGGER_KMS_INTERVAL", value_name = "DURATION", default_value = "30s")]
    pub(super) interval: String,
    /// Tolerated clock skew of nodes, where staleness is judged by the report's timestamp
    #[arg(long, env = "OUTRIGGER_KMS_CLOCK_SKEW", value_name = "DURATION", default_value = "60s")]
    pub(super) clock_skew: String,
    /// Effect of an unhealthy plugin that is used only for reading: degrade (sets KMSPluginsDegraded to True) or tell (reports it in the
    /// message only)
    #[arg(long, env = "OUTRIGGER_KMS_SICK_READ_PLUGINS", value_name = "EFFECT", default_value = "degrade")]
    pub(super) sick_read_plugins: String,
    /// ClusterOperator to roll up the conditions of the only kind in --targets into, if no other operator does. The Lease is named
    /// after it, so that one aggregator per ClusterOperator can run in a namespace
    #[arg(long, env = "OUTRIGGER_KMS_CLUSTER_OPERATOR", value_name = "NAME")]
    pub(super) cluster_operator: Option<String>,
}

/// Where API servers run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "API servers (OpenShift kinds only)")]
pub(super) struct ApiServerArgs {
    /// Namespace of kube-apiserver
    #[arg(
        long,
        env = "OUTRIGGER_KMS_KUBE_APISERVER_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "openshift-kube-apiserver"
    )]
    pub(super) kube_apiserver_namespace: String,
    /// Namespace of openshift-apiserver
    #[arg(
        long,
        env = "OUTRIGGER_KMS_OPENSHIFT_APISERVER_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "openshift-apiserver"
    )]
    pub(super) openshift_apiserver_namespace: String,
    /// Namespace of the OAuth API server
    #[arg(
        long,
        env = "OUTRIGGER_KMS_OAUTH_APISERVER_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "openshift-oauth-apiserver"
    )]
    pub(super) oauth_apiserver_namespace: String,
    /// Label selector of API server pods in these namespaces
    #[arg(
        long,
        env = "OUTRIGGER_KMS_POD_SELECTOR",
        value_name = "SELECTOR",
        default_value = "apiserver=true"
    )]
    pub(super) pod_selector: String,
    /// Secret with the encryption configuration, without the revision suffix
    #[arg(
        long,
        env = "OUTRIGGER_KMS_ENCRYPTION_CONFIG_SECRET",
        value_name = "NAME",
        default_value = "encryption-config"
    )]
    pub(super) encryption_config_secret: String,
}

/// Settings of the process.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
pub(super) struct ProcessArgs {
    /// Path to a kubeconfig; defaults to KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<String>,
    /// Context of the kubeconfig; defaults to its current context
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Name of this pod; defaults to the host name
    #[arg(long, env = env::POD_NAME, value_name = "NAME")]
    pub(super) pod_name: Option<String>,
    /// Namespace of this pod and of its Lease; defaults to that of its service account
    #[arg(long, env = env::POD_NAMESPACE, value_name = "NAMESPACE")]
    pub(super) pod_namespace: Option<String>,
    /// Address of the metrics and health server; 0 disables it
    #[arg(long, env = "OUTRIGGER_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080")]
    pub(super) metrics_bind_address: String,
    /// Address of debug state and log level, which need no authentication: on loopback only; 0 disables it
    #[arg(long, env = "OUTRIGGER_ADMIN_BIND_ADDRESS", value_name = "ADDRESS", default_value = ADMIN_ADDRESS)]
    pub(super) admin_bind_address: String,
    /// Log filter: a level, or levels by module like info,kube=debug
    #[arg(long, env = "OUTRIGGER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: String,
    /// Log format: json or pretty
    #[arg(long, env = "OUTRIGGER_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: String,
}
