//! Command line of the `outrigger` binary, one module per subcommand.
//!
//! # Invariants
//!
//! | invariant | tests |
//! |---|---|
//! | Argument definitions are valid: no duplicate flags, every default parses. | `args::tests::argument_definitions_are_valid` |
//! | The help of every subcommand has an example. | `args::tests::every_subcommand_help_has_an_example` |
//! | Invalid usage exits with code 2 and names the argument; help and version exit with 0. | `binary::invalid_usage_exits_with_2_and_names_the_argument`, `binary::version_prints_crate_version` |
//! | The binary is statically linked. | `binary::binary_is_statically_linked` |
//! | `deploy/crds` matches the output of `outrigger crds`. | `crds::deploy_crds_are_up_to_date` |
//! | The bash completion script works, and every shell has a script. | `binary::bash_completion_completes_subcommands`, `binary::every_shell_has_a_completion_script` |
//! | The shipped manifests install an operator under the restricted Pod Security Standard, and another replica takes over leadership. | `install::manifests_install_operator_with_failover` |
//! | An operator with missing settings reports them in its container termination message. | `install::missing_settings_are_in_termination_message` |

mod args;
mod command_line;
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

use std::process::ExitCode;

use clap::Parser;
use command_line::CommandLine;

use crate::args::{Args, Command};

/// Parses the command line, runs the subcommand and returns the exit code: 0 success, 1 failure, 2 invalid usage.
#[must_use]
pub fn run() -> ExitCode {
    if let Some(code) = ::sidecar::run_snapshot_metadata_pruner(std::env::args_os()) {
        return code;
    }
    let command_line = CommandLine::new(seictl::translate(std::env::args_os()).into_iter());
    let Args { command } = match Args::try_parse_from(&command_line.args) {
        Ok(args) => args,
        Err(error) => return command_line.report_error(&error),
    };
    let result = match command {
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
    let (message, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        // The reader closed the pipe (`outrigger completion bash | head`).
        Err(Failure::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(Failure::Io(error)) => (error.to_string(), ExitCode::FAILURE),
        Err(Failure::Failed(message)) => (message, ExitCode::FAILURE),
        Err(Failure::Usage(message)) => (message, ExitCode::from(2)),
    };
    if command_line.is_proxy {
        message.lines().for_each(|line| eprintln!("Error: {line}"));
    } else {
        eprintln!("outrigger: {message}");
    }
    code
}

/// Error of a subcommand.
enum Failure {
    /// I/O error.
    Io(std::io::Error),
    /// Failure, exit code 1.
    Failed(String),
    /// Invalid usage, exit code 2.
    Usage(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<runtime::process::Error> for Failure {
    fn from(error: runtime::process::Error) -> Self {
        match error {
            // The log level or the OTLP endpoint is invalid.
            runtime::process::Error::Telemetry(why) => Self::Usage(why),
            error => Self::Failed(error.to_string()),
        }
    }
}
