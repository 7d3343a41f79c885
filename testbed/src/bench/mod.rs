//! Common parts of benchmarks: the release binary, resource usage of processes, printing and storing results. Benchmarks are
//! programs with their own Makefile targets; tests do not run them.

mod builds;
mod figures;
pub mod usage;

use std::process::ExitCode;

use tokio::runtime::Runtime;

pub use self::builds::{Build, release_binary};
pub use self::figures::{BenchEnvironment, Figure, float, quantile, write_report};
use crate::error::{Error, IoContext, Result};
use crate::process::signals;

/// Main function of a benchmark. Stops everything it started before it returns, and on Ctrl-C.
pub fn main(name: &str, run: impl AsyncFnOnce() -> Result<()>) -> ExitCode {
    let execute = || {
        signals::cleanup_on_signal(|signal| 128 + signal)?;
        Runtime::new().context(|| "starting a runtime".into())?.block_on(run())
    };
    match execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads a positive integer from the environment, with a default.
pub fn env_count(name: &str, default: usize) -> Result<usize> {
    let Ok(text) = std::env::var(name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        Error::Other(format!("invalid {name}={text:?}: expected a positive integer, such as {default}"))
    })
}
