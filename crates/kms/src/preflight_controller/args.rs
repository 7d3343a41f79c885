//! The arguments of `kms-preflight-controller`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::names::lease::KMS_PREFLIGHT as LEASE;
use plan::kms::preflight::Place;
use runtime::client::Access;
use runtime::lease;
use runtime::settings::text::duration;
use runtime::settings::{self, Check, LeaseArgs};
use runtime::telemetry::Format;

use super::resource::Kind;

/// What is checked where.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Kind of the operator's resource: KubeAPIServer, OpenShiftAPIServer or Authentication
    #[arg(long, value_name = "KIND", default_value = "KubeAPIServer")]
    target: Kind,
    /// Namespace of the API servers, where the check runs
    #[arg(long, value_name = "NAMESPACE")]
    namespace: String,
    /// Secret there with the encryption configuration that is in use
    #[arg(long, value_name = "NAME", default_value = "encryption-config")]
    encryption_config_secret: String,
    /// Namespace of the Secret and the ConfigMap that a configuration refers to
    #[arg(long, value_name = "NAMESPACE", default_value = "openshift-config")]
    config_namespace: String,
    /// Image of the checker
    #[arg(long, env = "OUTRIGGER_KMS_PREFLIGHT_IMAGE", value_name = "IMAGE")]
    image: String,
    /// The checker's program and subcommand, with commas between
    #[arg(long, value_name = "WORD,...", value_delimiter = ',', default_value = "outrigger,kms-preflight")]
    command: Vec<String>,
    /// Whether the check runs in the network of its node, as static pods do; else by the kind
    #[arg(long, value_name = "BOOL")]
    host_network: Option<bool>,
    /// Label of the nodes that the check runs on, with a pod on each; empty for one pod on any node
    #[arg(long, value_name = "LABEL", default_value = "node-role.kubernetes.io/master")]
    node_label: String,
    /// Deadline of each call of a plugin
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    kms_call_timeout: String,
    /// Waits before each further try of what has failed, with commas between; the last one is that of all later tries
    #[arg(
        long,
        value_name = "DURATION,...",
        value_delimiter = ',',
        default_value = "1m,5m,15m",
        value_parser = duration
    )]
    retry_after: Vec<Duration>,
    /// Longest time between two looks. Changes of the resources and of pods are seen at once; those of a Secret or ConfigMap that a
    /// configuration refers to by then
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    resync: Duration,
    /// Name of the own pod, which holds the Lease
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "outrigger-kms-preflight")]
    pod_name: String,
    /// Address of health and metrics; none if not given
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<SocketAddr>,
    /// A kubeconfig; else KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which lines are logged: like info, or info,kube=debug
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log_level: String,
    /// How log lines look: json or pretty
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    log_format: Format,
    #[command(flatten)]
    lease: LeaseArgs,
}

/// The same, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) encryption_config_secret: String,
    pub(super) config_namespace: String,
    pub(super) retry_after: Vec<Duration>,
    pub(super) resync: Duration,
    pub(super) lease: Option<lease::Config>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) access: Access,
    pub(super) log_level: String,
    pub(super) log_format: Format,
}

impl TryFrom<Args> for Settings {
    type Error = String;

    fn try_from(args: Args) -> Result<Self, String> {
        duration(&args.kms_call_timeout).map_err(|error| format!("--kms-call-timeout: {error}"))?;
        for (flag, value) in
            [("--namespace", &args.namespace), ("--image", &args.image), ("--pod-name", &args.pod_name)]
        {
            if value.is_empty() {
                return Err(format!("{flag} is empty: give a value"));
            }
        }
        let mut check = Check::of::<Args>("preflight controller");
        let identity = settings::identity(Some(&args.pod_name));
        let lease = args.lease.read(&mut check, |_| Some(args.namespace.clone()), LEASE, &identity);
        check.end().map_err(|problems| problems.to_string())?;
        let place = Place {
            namespace: args.namespace,
            image: args.image,
            command: args.command,
            host_network: args.host_network.unwrap_or(args.target == Kind::KubeAPIServer),
            node_label: Some(args.node_label).filter(|label| !label.is_empty()),
            call_timeout: args.kms_call_timeout,
        };
        Ok(Self {
            kind: args.target,
            place,
            encryption_config_secret: args.encryption_config_secret,
            config_namespace: args.config_namespace,
            retry_after: args.retry_after,
            resync: args.resync,
            lease,
            admin: args.metrics_bind_address,
            access: Access { kubeconfig: args.kubeconfig, context: None },
            log_level: args.log_level,
            log_format: args.log_format,
        })
    }
}
