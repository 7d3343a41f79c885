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

mod args;
mod completion;
mod crds;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

/// Reads the command line, does what it says, and returns how it went: 0 done, 1 failed, 2 wrong usage.
#[must_use]
pub fn run() -> ExitCode {
    let Args { command } = Args::parse();
    let done = match command {
        Command::Completion(args) => completion::run(args),
        Command::Crds(args) => crds::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough (`outrigger completion bash | head`).
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("outrigger: {error}");
            ExitCode::FAILURE
        }
    }
}
