//! The command line.

use clap::{Parser, Subcommand};

use crate::{
    completion, crds, kms_aggregator, kms_check, kms_inject, kms_preflight, kms_preflight_controller,
    kms_reporter, operator, proxy, sidecar,
};

/// Runs nodes that have privileged sidecars on Kubernetes, and tells the truth about them.
///
/// One binary; the role is the subcommand.
#[derive(Debug, Parser)]
#[command(
    name = "outrigger",
    version,
    after_help = "Examples:\n  \
        outrigger --version\n  \
        outrigger completion bash > /etc/bash_completion.d/outrigger\n  \
        outrigger crds | kubectl apply --server-side -f -\n  \
        outrigger operator --help\n\n\
        Exit codes: 0 done, 1 failed (one line on standard error says why), 2 wrong usage."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the binary can be.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print a shell's completion script for this binary.
    Completion(completion::Args),
    /// Print the definitions of our kinds.
    Crds(crds::Args),
    /// Run the aggregator of KMS reports: conditions that a person reads.
    KmsAggregator(Box<kms_aggregator::Args>),
    /// Check KMS plugins: whether an API server could use them.
    KmsCheck(kms_check::Args),
    /// Put KMS plugins and their reporter into the pod of an API server.
    KmsInject(Box<kms_inject::Args>),
    /// Check KMS plugins from inside a pod, and post what was found on the pod.
    KmsPreflight(kms_preflight::Args),
    /// Have every KMS configuration checked before it is used.
    KmsPreflightController(Box<kms_preflight_controller::Args>),
    /// Report the health of the KMS plugins beside an API server.
    #[command(alias = "kms-health-reporter")]
    KmsReporter(Box<kms_reporter::Args>),
    /// Run the operator: nodes and fleets are brought to their specs, and kept there.
    Operator(Box<operator::Args>),
    /// Run the authorizing reverse proxy: a drop-in for kube-rbac-proxy.
    Proxy(Box<proxy::Args>),
    /// Run a node's sidecar: the API that takes tasks, and does them.
    Sidecar(Box<sidecar::Args>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_subcommand_shows_an_example() {
        let mut command = Args::command();
        command.build();
        let mut seen = 0;
        for subcommand in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
            let help = subcommand.render_long_help().to_string();
            assert!(
                help.contains("Examples:\n  outrigger "),
                "{} shows none:\n{help}",
                subcommand.get_name()
            );
            seen += 1;
        }
        assert!(seen > 0, "there is no subcommand");
    }
}
