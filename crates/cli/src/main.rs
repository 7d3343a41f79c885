//! The `outrigger` binary: one program, the role is the subcommand. Everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    outrigger::run()
}
