//! Arguments of the `outrigger` binary, one thin file per subcommand.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | the argument structs are sound (no flag twice, every default parses) | `args::tests::the_arguments_are_sound` |
//! | every subcommand has an example in its help | `args::tests::every_subcommand_shows_an_example` |
//! | wrong usage ends with code 2 and names the wrong word; help and version end with 0 | `binary::wrong_usage_ends_with_two_and_names_the_word`, `binary::version_is_one_line_with_the_crate_version` |
//! | the binary needs no shared library | `binary::it_is_static` |
//! | `deploy/crds` is what `outrigger crds` writes, and what it prints is the same | `crds::the_files_in_deploy_are_what_the_binary_writes` |
//! | bash completes with the script we print, and every other shell gets one | `binary::bash_completes_our_subcommands_with_the_printed_script`, `binary::every_shell_gets_a_script_that_names_our_commands` |
//! | the manifests that are shipped install an operator under the strictest standard for pods, and one that is deleted is replaced as leader | `install::the_manifests_install_an_operator_of_which_another_takes_over` |
//! | an operator that lacks settings says so in the message of its container | `install::an_operator_without_settings_says_what_is_missing_where_people_look` |

mod args;
mod completion;
mod crds;
mod kms_aggregator;
mod kms_check;
mod kms_inject;
mod kms_preflight;
mod kms_preflight_controller;
mod kms_reporter;
mod operator;
mod proxy;
mod seictl;
mod sidecar;
mod words;

use std::process::ExitCode;

use clap::Parser;
use words::Words;

use crate::args::{Args, Command};

/// Reads the command line, does what it says, and returns how it went: 0 done, 1 failed, 2 wrong usage.
#[must_use]
pub fn run() -> ExitCode {
    let words = Words::of(seictl::words(std::env::args_os()).into_iter());
    let Args { command } = match Args::try_parse_from(&words.all) {
        Ok(args) => args,
        Err(error) => return words.refuse(&error),
    };
    let done = match command {
        Command::Completion(args) => completion::run(*args).map_err(Failure::from),
        Command::Crds(args) => crds::run(*args).map_err(Failure::from),
        Command::KmsAggregator(args) => kms_aggregator::run(*args),
        Command::KmsReporter(args) => kms_reporter::run(*args),
        Command::KmsCheck(args) => kms_check::run(*args),
        Command::KmsInject(args) => kms_inject::run(*args),
        Command::KmsPreflight(args) => kms_preflight::run(*args),
        Command::KmsPreflightController(args) => kms_preflight_controller::run(*args),
        Command::Operator(args) => operator::run(*args),
        Command::Proxy(args) => proxy::run(*args),
        Command::Sidecar(args) => sidecar::run(*args),
    };
    let (why, code) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        // Whoever reads our output has seen enough (`outrigger completion bash | head`).
        Err(Failure::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(Failure::Io(error)) => (error.to_string(), ExitCode::FAILURE),
        Err(Failure::Failed(why)) => (why, ExitCode::FAILURE),
        Err(Failure::Usage(why)) => (why, ExitCode::from(2)),
    };
    if words.are_the_proxys {
        why.lines().for_each(|line| eprintln!("Error: {line}"));
    } else {
        eprintln!("outrigger: {why}");
    }
    code
}

/// Why a subcommand did not do what it was asked.
enum Failure {
    /// Reading or writing failed.
    Io(std::io::Error),
    /// It failed: why.
    Failed(String),
    /// It was asked wrongly: how, and what to do.
    Usage(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}
