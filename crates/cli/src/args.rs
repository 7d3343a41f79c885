//! Command-line arguments.

use clap::{ArgMatches, FromArgMatches, Parser, Subcommand};

use crate::{
    completion, crds, kms_aggregator, kms_check, kms_inject, kms_preflight, kms_preflight_controller,
    kms_reporter, operator, proxy, sidecar,
};

/// Run Sei nodes with privileged sidecars on Kubernetes.
///
/// One binary for all components: choose the component with the subcommand.
#[derive(Debug, Parser)]
#[command(
    name = "outrigger",
    version,
    after_help = "Examples:\n  \
        outrigger --version\n  \
        outrigger completion bash > /etc/bash_completion.d/outrigger\n  \
        outrigger crds | kubectl apply --server-side -f -\n  \
        outrigger operator --help\n\n\
        Exit codes: 0 success, 1 failure (reason on standard error), 2 invalid usage."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Declares subcommands with their help and argument types.
///
/// `derive(Subcommand)` would build the arguments of every subcommand to parse one, which loads code of every component into
/// the memory of every process.
macro_rules! commands {
    ($($(#[doc = $about:literal])+ $(#[alias = $alias:literal])? $name:literal => $variant:ident($args:ty)),* $(,)?) => {
        /// Subcommand.
        #[derive(Debug)]
        pub(crate) enum Command {
            $($(#[doc = $about])+ $variant(Box<$args>),)*
        }

        impl Subcommand for Command {
            fn augment_subcommands(command: clap::Command) -> clap::Command {
                command.subcommand_required(true).arg_required_else_help(true)
                    $(.subcommand(
                        clap::Command::new($name)
                            .about(concat!($($about),+).trim().trim_end_matches('.'))
                            $(.alias($alias))?
                            .defer(<$args as clap::Args>::augment_args),
                    ))*
            }

            fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
                Self::augment_subcommands(command)
            }

            fn has_subcommand(name: &str) -> bool {
                [$($name),*].contains(&name)
            }
        }

        impl FromArgMatches for Command {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                match matches.subcommand() {
                    $(Some(($name, matches)) => <$args>::from_arg_matches(matches).map(|args| Self::$variant(Box::new(args))),)*
                    _ => Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand)),
                }
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}

commands! {
    /// Print a shell completion script.
    "completion" => Completion(completion::Args),
    /// Print the CustomResourceDefinitions.
    "crds" => Crds(crds::Args),
    /// Run the KMS health aggregator.
    "kms-aggregator" => KmsAggregator(kms_aggregator::Args),
    /// Check whether an API server can use KMS plugins.
    "kms-check" => KmsCheck(kms_check::Args),
    /// Inject KMS plugins and their health reporter into an API server pod.
    "kms-inject" => KmsInject(kms_inject::Args),
    /// Check KMS plugins from inside a pod and report the result in the pod status.
    "kms-preflight" => KmsPreflight(kms_preflight::Args),
    /// Run the controller that checks KMS configurations before they are used.
    "kms-preflight-controller" => KmsPreflightController(kms_preflight_controller::Args),
    /// Run the KMS health reporter next to an API server.
    #[alias = "kms-health-reporter"]
    "kms-reporter" => KmsReporter(kms_reporter::Args),
    /// Run the operator, which reconciles SeiNodes and SeiNodeDeployments.
    "operator" => Operator(operator::Args),
    /// Run the authorizing reverse proxy, a drop-in replacement for kube-rbac-proxy.
    "proxy" => Proxy(proxy::Args),
    /// Run the node sidecar, which serves the task API.
    "sidecar" => Sidecar(sidecar::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn argument_definitions_are_valid() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_subcommand_help_has_an_example() {
        let mut command = Args::command();
        command.build();
        let mut checked = 0;
        for subcommand in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
            let help = subcommand.render_long_help().to_string();
            assert!(
                help.contains("Examples:\n  outrigger "),
                "{} has no example:\n{help}",
                subcommand.get_name()
            );
            checked += 1;
        }
        assert!(checked > 0, "no subcommands");
    }
}
