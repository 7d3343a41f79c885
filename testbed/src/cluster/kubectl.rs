//! Runs kubectl, as users do.

use std::io::Write;
use std::process::Stdio;

use crate::cluster::control_plane::ControlPlane;
use crate::error::{Error, IoContext, Result};

/// Runs kubectl with optional standard input and returns its standard output. The error of a failed command contains its
/// standard error.
pub fn run(plane: &ControlPlane, args: &[&str], input: Option<&str>) -> Result<String> {
    let what = |action: &str| format!("{action} kubectl {}", args.join(" "));
    let mut command = plane.kubectl()?;
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context(|| what("starting"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.unwrap_or_default().as_bytes()).context(|| what("writing to"))?;
    }
    let output = child.wait_with_output().context(|| what("waiting for"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Other(format!("kubectl {}: {stderr}", args.join(" "))))
}

/// Applies manifests with server-side apply and takes over conflicting fields.
pub fn apply(plane: &ControlPlane, manifests: &str) -> Result<()> {
    let args = ["apply", "--server-side", "--force-conflicts", "--filename", "-"];
    run(plane, &args, Some(manifests)).map(drop)
}
