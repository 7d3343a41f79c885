//! kubectl, as people use it.

use std::io::Write;
use std::process::Stdio;

use crate::cluster::control_plane::ControlPlane;
use crate::error::{Error, IoContext, Result};

/// Runs kubectl to its end, with something to read if there is any, and returns what it printed. What it printed on failure is in
/// the error.
pub fn run(plane: &ControlPlane, args: &[&str], input: Option<&str>) -> Result<String> {
    let what = |doing: &str| format!("{doing} kubectl {}", args.join(" "));
    let mut command = plane.kubectl()?;
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().context(|| what("starting"))?;
    if let Some(mut stdin) = running.stdin.take() {
        stdin.write_all(input.unwrap_or_default().as_bytes()).context(|| what("writing to"))?;
    }
    let output = running.wait_with_output().context(|| what("waiting for"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Refused(format!("kubectl {}: {said}", args.join(" "))))
}

/// Applies manifests as one who owns what they say, whoever has edited it since.
pub fn apply(plane: &ControlPlane, manifests: &str) -> Result<()> {
    let args = ["apply", "--server-side", "--force-conflicts", "--filename", "-"];
    run(plane, &args, Some(manifests)).map(drop)
}
