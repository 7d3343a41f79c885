//! The reporter's command line. Values are taken as text: the first six flags are those of the reporter that we replace, and are
//! refused in its order and with its exit code.

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

/// The flags of the reporter that we replace.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Plugins")]
pub(super) struct UpstreamArgs {
    /// Sockets of the plugins, the one that encrypts first; may be repeated, or have commas between
    #[arg(long, value_name = "unix://FOLDER/kms-N.sock", value_delimiter = ',')]
    pub(super) kms_sockets: Vec<String>,
    /// Time between two looks at all plugins
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true)]
    pub(super) interval: String,
    /// How long a plugin may take to say how it is
    #[arg(long, value_name = "DURATION", default_value = "5s", allow_hyphen_values = true)]
    pub(super) read_timeout: String,
    /// How long the API server may take for a report
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    pub(super) write_timeout: String,
    /// The node that is reported for; no two reporters of one object may share it
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(super) node_name: String,
    /// A kubeconfig; else the pod's service account
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(super) kubeconfig: String,
    /// The folder that all sockets are in
    #[arg(
        long,
        env = "OUTRIGGER_KMS_SOCKET_DIR",
        value_name = "FOLDER",
        default_value = "/var/run/kmsplugin"
    )]
    pub(super) socket_dir: String,
    /// Time between two tries to encrypt and decrypt with each plugin; each is two calls of the KMS, which may cost. 0 for none
    #[arg(
        long,
        env = "OUTRIGGER_KMS_DEEP_PROBE_INTERVAL",
        value_name = "DURATION",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(super) deep_probe_interval: String,
}

/// Where reports go.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Reports")]
pub(super) struct PublishArgs {
    /// How reports are published: condition (of an operator resource, as JSON), typed (healthReports of an operator resource) or
    /// kmshealth (our own kind); else what the target has
    #[arg(long, env = "OUTRIGGER_KMS_PUBLISH", value_name = "FORM")]
    pub(super) publish: Option<String>,
    /// What they are published on: kubeapiserver, openshiftapiserver, authentication or kmshealth; else what the form needs
    #[arg(long, env = "OUTRIGGER_KMS_TARGET", value_name = "KIND")]
    pub(super) target: Option<String>,
    /// The name of that object
    #[arg(long, env = "OUTRIGGER_KMS_TARGET_NAME", value_name = "NAME", default_value = "cluster")]
    pub(super) target_name: String,
    /// Where else to go when the API server cannot be reached, in this order: an https:// address with the same credentials, a
    /// kubeconfig by its absolute path, or in-cluster; may be repeated, or have commas between
    #[arg(long, env = "OUTRIGGER_KMS_FALLBACK_SERVERS", value_name = "SERVER", value_delimiter = ',')]
    pub(super) fallback_servers: Vec<String>,
    /// Keeps two reporters apart that share a node name, such as the pod's name; what one of them leaves behind is not removed by
    /// the next
    #[arg(long, env = "OUTRIGGER_KMS_INSTANCE", value_name = "NAME")]
    pub(super) instance: Option<String>,
}

/// How this process lives.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "This process")]
pub(super) struct ProcessArgs {
    /// Address of metrics and health; 0 for none. On the host's network, use one of 127.0.0.1
    #[arg(long, env = "OUTRIGGER_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = "0")]
    pub(super) metrics_bind_address: String,
    /// What is logged: a level, or levels by module, like info,kube=debug. The client's own lines would come in each round
    #[arg(long, env = "OUTRIGGER_LOG_LEVEL", value_name = "LEVEL", default_value = "info,kube_client=off")]
    pub(super) log_level: String,
    /// How log lines look: json or pretty
    #[arg(long, env = "OUTRIGGER_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: String,
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use runtime::metrics::catalogue;

    use super::*;
    use crate::reporter::METRICS;

    fn command() -> clap::Command {
        <Args as clap::Args>::augment_args(clap::Command::new("kms-reporter"))
    }

    #[test]
    fn the_arguments_are_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_documentation_is_what_the_code_says() -> testbed::Result<()> {
        let mut page = String::from(
            "# The KMS reporter\n\n\
             Generated from the code; a test compares. `outrigger kms-reporter` (also `kms-health-reporter`) says how the KMS plugins beside an\n\
             API server are. A flag that is wrong ends it with exit code 1 and one line; after that nothing does but a signal.\n",
        );
        page.push_str(&testbed::harness::generated::settings(&command()));
        page.push_str("\n## Causes\n\nThe detail of a report begins with one of these.\n\n| cause | what to look at |\n|---|---|\n");
        for cause in api::kms::Cause::ALL {
            let _ = writeln!(page, "| `{}` | {} |", cause.name(), cause.hint());
        }
        let metrics = catalogue::page(&[("Metrics", METRICS)]);
        // Without the head of a page of their own.
        page.push_str(metrics.find("\n## ").and_then(|at| metrics.get(at..)).unwrap_or_default());
        testbed::harness::generated::check("docs/reference/kms-reporter.md", &page)
    }
}
