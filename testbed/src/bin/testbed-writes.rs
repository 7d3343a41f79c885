//! Traces a process and kills it before one of its writes.

use std::process::ExitCode;

fn main() -> ExitCode {
    match testbed::faults::crash_writes::run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed-writes: {error}");
            ExitCode::FAILURE
        }
    }
}
