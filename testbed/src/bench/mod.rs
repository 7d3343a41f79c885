//! What benchmarks have in common: what is measured (our binary as it is released), what a process has used, and how figures are
//! shown and kept. A benchmark is a program of its own, behind a target of the Makefile; no test waits for one.

mod builds;
mod figures;
pub mod usage;

use std::process::ExitCode;

use tokio::runtime::Runtime;

pub use self::builds::{Build, released};
pub use self::figures::{Circumstances, Figure, finish, float, quantile};
use crate::error::{Error, IoContext, Result};
use crate::process::signals;

/// The main function of a benchmark. What was started is ended before it returns, and on Ctrl-C.
pub fn main(name: &str, run: impl AsyncFnOnce() -> Result<()>) -> ExitCode {
    let all = || {
        signals::remove_on_signal(|signal| 128 + signal)?;
        Runtime::new().context(|| "starting a runtime".into())?.block_on(run())
    };
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How much is measured: a whole number above zero from the environment, or the usual one.
pub fn number(name: &str, usual: usize) -> Result<usize> {
    let Ok(text) = std::env::var(name) else { return Ok(usual) };
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        Error::Refused(format!("{name} is {text:?}: a whole number above zero is needed, such as {usual}"))
    })
}
