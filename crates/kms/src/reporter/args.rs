//! The reporter's command line. Values are parsed from text after clap: the first six flags are those of the upstream reporter, and are
//! rejected in its order and with its exit code.

/// Settings of the reporter.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) upstream: UpstreamArgs,
    #[command(flatten)]
    pub(super) publish: PublishArgs,
    #[command(flatten)]
    pub(super) process: ProcessArgs,
}

/// Flags of the upstream reporter, and two more about plugins.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Plugins")]
pub(super) struct UpstreamArgs {
    /// Plugin sockets, the one that encrypts first; comma-separated or repeated
    #[arg(long, value_name = "unix://DIR/kms-N.sock", value_delimiter = ',')]
    pub(super) kms_sockets: Vec<String>,
    /// Time between two probe rounds
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true)]
    pub(super) interval: String,
    /// Timeout of a plugin's Status call
    #[arg(long, value_name = "DURATION", default_value = "5s", allow_hyphen_values = true)]
    pub(super) read_timeout: String,
    /// Timeout of publishing reports to one API server
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub(super) write_timeout: String,
    /// Name of this node; must be unique among the reporters of one object
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(super) node_name: String,
    /// Path to a kubeconfig; defaults to the pod's service account
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(super) kubeconfig: String,
    /// Directory of the plugin sockets
    #[arg(long, env = "OUTRIGGER_KMS_SOCKET_DIR", value_name = "DIR", default_value = "/var/run/kmsplugin")]
    pub(super) socket_dir: String,
    /// Time between two Encrypt and Decrypt round trips with each plugin; the KMS may bill both calls. 0 disables round trips
    #[arg(
        long,
        env = "OUTRIGGER_KMS_DEEP_PROBE_INTERVAL",
        value_name = "DURATION",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(super) deep_probe_interval: String,
}

/// Where and how reports are published.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Reports")]
pub(super) struct PublishArgs {
    /// Report format: condition (JSON in a condition of an operator resource), typed (healthReports of an operator resource) or
    /// kmshealth (healthReports of a KMSHealth); defaults to what the target supports
    #[arg(long, env = "OUTRIGGER_KMS_PUBLISH", value_name = "FORM")]
    pub(super) publish: Option<String>,
    /// Kind of the object that holds the reports: kubeapiserver, openshiftapiserver, authentication or kmshealth; defaults to what
    /// the format requires
    #[arg(long, env = "OUTRIGGER_KMS_TARGET", value_name = "KIND")]
    pub(super) target: Option<String>,
    /// Name of the object that holds the reports
    #[arg(long, env = "OUTRIGGER_KMS_TARGET_NAME", value_name = "NAME", default_value = "cluster")]
    pub(super) target_name: String,
    /// API servers to try in this order when the first is unreachable: an https:// URL (used with the same credentials), an absolute
    /// path to a kubeconfig, or in-cluster; comma-separated or repeated
    #[arg(long, env = "OUTRIGGER_KMS_FALLBACK_SERVERS", value_name = "SERVER", value_delimiter = ',')]
    pub(super) fallback_servers: Vec<String>,
    /// Distinguishes reporters that share a node name, for example by the pod's name. Entries of an instance are not removed by the
    /// next one
    #[arg(long, env = "OUTRIGGER_KMS_INSTANCE", value_name = "NAME")]
    pub(super) instance: Option<String>,
}

/// Settings of the process.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
pub(super) struct ProcessArgs {
    /// Address of the metrics and health server; 0 disables it. On the host network, use 127.0.0.1
    #[arg(long, env = "OUTRIGGER_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = "0")]
    pub(super) metrics_bind_address: String,
    /// Address of debug state and log level, which need no authentication: on loopback only; 0 disables it. On the host network,
    /// every process of the host can connect to it
    #[arg(long, env = "OUTRIGGER_ADMIN_BIND_ADDRESS", value_name = "ADDRESS", default_value = "0")]
    pub(super) admin_bind_address: String,
    /// Log filter: a level, or levels by module like info,kube=debug. The default silences kube_client, which would log every round
    #[arg(long, env = "OUTRIGGER_LOG_LEVEL", value_name = "LEVEL", default_value = "info,kube_client=off")]
    pub(super) log_level: String,
    /// Log format: json or pretty
    #[arg(long, env = "OUTRIGGER_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: String,
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use runtime::metrics::catalog;

    use super::*;
    use crate::reporter::METRICS;

    fn command() -> clap::Command {
        <Args as clap::Args>::augment_args(clap::Command::new("kms-reporter"))
    }

    #[test]
    fn clap_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn reference_page_matches_code() -> testbed::Result<()> {
        let mut page = String::from(
            "# KMS reporter\n\n\
             Generated from the code; do not edit. `outrigger kms-reporter` (alias `kms-health-reporter`) reports the health of the KMS plugins\n\
             next to an API server. An invalid flag exits with code 1 and one line; after that, only SIGTERM or SIGINT ends the process.\n",
        );
        page.push_str(&testbed::harness::generated::flag_tables(&command()));
        page.push_str("\n## Causes\n\nThe detail of a report starts with one of these causes.\n\n| cause | what to check |\n|---|---|\n");
        for cause in api::kms::Cause::ALL {
            let _ = writeln!(page, "| `{}` | {} |", cause.name(), cause.hint());
        }
        let metrics = catalog::page(&[("Metrics", METRICS)]);
        // Skip the page title.
        page.push_str(metrics.find("\n## ").and_then(|at| metrics.get(at..)).unwrap_or_default());
        testbed::harness::generated::check("docs/reference/kms-reporter.md", &page)
    }
}
