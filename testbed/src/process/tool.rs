//! Short-lived helper programs such as `ip` and `ctr`.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::error::{Error, IoContext, Result};

/// Runs a program and returns its standard output; on failure, stderr is part of the error.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args);
    output_of(command)
}

/// Runs a prepared command and returns its standard output.
pub(crate) fn output_of(mut command: Command) -> Result<String> {
    let line = command_line(&command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(|| format!("starting `{line}` (`make test` installs the package it belongs to)"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Command { command: line, status: output.status, stderr });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs blocking work on its own thread.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Other(format!("blocking task failed: {error}")))?
}

/// Formats the command line for messages.
fn command_line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}
