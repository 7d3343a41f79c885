//! The command line.

use clap::{ArgMatches, FromArgMatches, Parser, Subcommand};

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

/// Names subcommands, says in a sentence what each is, and where its arguments are.
///
/// `derive(Subcommand)` would set up the arguments of all of them to read those of one: code of every role that is read
/// into the memory of every process.
macro_rules! commands {
    ($($(#[doc = $about:literal])+ $(#[alias = $alias:literal])? $name:literal => $variant:ident($args:ty)),* $(,)?) => {
        /// What the binary can be.
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
    /// Print a shell's completion script for this binary.
    "completion" => Completion(completion::Args),
    /// Print the definitions of our kinds.
    "crds" => Crds(crds::Args),
    /// Run the aggregator of KMS reports: conditions that a person reads.
    "kms-aggregator" => KmsAggregator(kms_aggregator::Args),
    /// Check KMS plugins: whether an API server could use them.
    "kms-check" => KmsCheck(kms_check::Args),
    /// Put KMS plugins and their reporter into the pod of an API server.
    "kms-inject" => KmsInject(kms_inject::Args),
    /// Check KMS plugins from inside a pod, and post what was found on the pod.
    "kms-preflight" => KmsPreflight(kms_preflight::Args),
    /// Have every KMS configuration checked before it is used.
    "kms-preflight-controller" => KmsPreflightController(kms_preflight_controller::Args),
    /// Report the health of the KMS plugins beside an API server.
    #[alias = "kms-health-reporter"]
    "kms-reporter" => KmsReporter(kms_reporter::Args),
    /// Run the operator: nodes and fleets are brought to their specs, and kept there.
    "operator" => Operator(operator::Args),
    /// Run the authorizing reverse proxy: a drop-in for kube-rbac-proxy.
    "proxy" => Proxy(proxy::Args),
    /// Run a node's sidecar: the API that takes tasks, and does them.
    "sidecar" => Sidecar(sidecar::Args),
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
