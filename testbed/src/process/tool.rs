//! Short-lived helper programs (`ip`, `ctr`, ...): run to the end, with their error kept.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::error::{Error, IoContext, Result};

/// Runs a program to its end and returns its standard output; what it printed on failure is in the error.
pub(crate) fn run<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args);
    output_of(command)
}

/// Runs a prepared command to its end and returns its standard output.
pub(crate) fn output_of(mut command: Command) -> Result<String> {
    let line = line_of(&command);
    let output = command.stdin(Stdio::null()).output().context(|| {
        format!("starting `{line}` (is the package that holds it installed? `make test` installs it)")
    })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Command { command: line, status: output.status, stderr });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Does what takes long on a thread of its own, so that whoever waits beside it is not held up.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Refused(format!("a thread ended before its work: {error}")))?
}

/// The command line, for people.
fn line_of(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}
