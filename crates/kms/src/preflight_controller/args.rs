//! Arguments of `kms-preflight-controller`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::kms::KmsTarget;
use api::names::lease::KMS_PREFLIGHT as LEASE;
use plan::kms::preflight::PreflightPodConfig;
use runtime::client::ClientOptions;
use runtime::lease;
use runtime::settings::parse::{duration, loopback_address};
use runtime::settings::{self, ADMIN_ADDRESS, LeaseArgs, LoopbackAddress, Validator};
use runtime::telemetry::Format;

use super::operator_resource::OperatorKind;

/// Arguments of `kms-preflight-controller`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Kind of the operator resource: KubeAPIServer, OpenShiftAPIServer or Authentication
    #[arg(long, value_name = "KIND", default_value = "KubeAPIServer")]
    target: OperatorKind,
    /// Namespace of the API servers, in which check pods run
    #[arg(long, value_name = "NAMESPACE")]
    namespace: String,
    /// Secret in that namespace with the encryption configuration in use
    #[arg(long, value_name = "NAME", default_value = "encryption-config")]
    encryption_config_secret: String,
    /// Namespace of the Secrets and ConfigMaps that a configuration refers to
    #[arg(long, value_name = "NAMESPACE", default_value = "openshift-config")]
    config_namespace: String,
    /// Image of the checker container
    #[arg(long, env = "OUTRIGGER_KMS_PREFLIGHT_IMAGE", value_name = "IMAGE")]
    image: String,
    /// Program and subcommand of the checker, comma-separated
    #[arg(long, value_name = "WORD,...", value_delimiter = ',', default_value = "outrigger,kms-preflight")]
    command: Vec<String>,
    /// Run check pods on the host network, as static pods do; defaults to true for KubeAPIServer only
    #[arg(long, value_name = "BOOL")]
    host_network: Option<bool>,
    /// Label of the nodes to check, with one pod on each; empty for one pod on any node
    #[arg(long, value_name = "LABEL", default_value = "node-role.kubernetes.io/master")]
    node_label: String,
    /// Timeout of each plugin call
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    kms_call_timeout: String,
    /// Comma-separated delays before each retry of a failed check; the last one applies to all further retries
    #[arg(
        long,
        value_name = "DURATION,...",
        value_delimiter = ',',
        default_value = "1m,5m,15m",
        value_parser = duration
    )]
    retry_after: Vec<Duration>,
    /// Longest time between two reconciles. Resources and pods are watched; changes of a Secret or ConfigMap that a configuration refers
    /// to are found by then
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    resync: Duration,
    /// Name of this pod, the holder of the Lease
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "outrigger-kms-preflight")]
    pod_name: String,
    /// Address of the metrics and health server; disabled if not set
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<SocketAddr>,
    /// Address of debug state and log level, which need no authentication: on loopback only; 0 disables it
    #[arg(long, env = "OUTRIGGER_ADMIN_BIND_ADDRESS", value_name = "ADDRESS", default_value = ADMIN_ADDRESS)]
    admin_bind_address: String,
    /// Path to a kubeconfig; defaults to KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Log filter: a level, or levels by module like info,kube=debug
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log_level: String,
    /// Log format: json or pretty
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    log_format: Format,
    #[command(flatten)]
    lease: LeaseArgs,
}

/// Validated arguments.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) kind: OperatorKind,
    pub(super) pod_config: PreflightPodConfig,
    pub(super) encryption_config_secret: String,
    pub(super) config_namespace: String,
    pub(super) retry_after: Vec<Duration>,
    pub(super) resync: Duration,
    pub(super) lease: Option<lease::Config>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) admin: Option<LoopbackAddress>,
    pub(super) access: ClientOptions,
    pub(super) log_level: String,
    pub(super) log_format: Format,
}

impl TryFrom<Args> for Settings {
    type Error = String;

    fn try_from(args: Args) -> Result<Self, String> {
        duration(&args.kms_call_timeout).map_err(|error| format!("--kms-call-timeout: {error}"))?;
        let admin = loopback_address(&args.admin_bind_address)
            .map_err(|error| format!("--admin-bind-address: {error}"))?;
        for (flag, value) in
            [("--namespace", &args.namespace), ("--image", &args.image), ("--pod-name", &args.pod_name)]
        {
            if value.is_empty() {
                return Err(format!("invalid {flag}: must not be empty"));
            }
        }
        let mut validator = Validator::new::<Args>("preflight controller");
        let identity = settings::identity(Some(&args.pod_name));
        let lease = args.lease.resolve(&mut validator, |_| Some(args.namespace.clone()), LEASE, &identity);
        validator.finish().map_err(|problems| problems.to_string())?;
        let pod_config = PreflightPodConfig {
            namespace: args.namespace,
            image: args.image,
            command: args.command,
            host_network: args.host_network.unwrap_or(args.target.target() == KmsTarget::KubeApiServer),
            node_label: Some(args.node_label).filter(|label| !label.is_empty()),
            call_timeout: args.kms_call_timeout,
        };
        Ok(Self {
            kind: args.target,
            pod_config,
            encryption_config_secret: args.encryption_config_secret,
            config_namespace: args.config_namespace,
            retry_after: args.retry_after,
            resync: args.resync,
            lease,
            metrics: args.metrics_bind_address,
            admin,
            access: ClientOptions { kubeconfig: args.kubeconfig, context: None },
            log_level: args.log_level,
            log_format: args.log_format,
        })
    }
}
