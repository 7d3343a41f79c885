//! What tests of everything stand on: the files that users have, applied with kubectl.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use testbed::{ControlPlane, Error};

/// How long things of pods may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(120);

/// Runs kubectl, with something to read if there is any, and returns what it printed.
pub fn kubectl(plane: &ControlPlane, args: &[&str], input: Option<&str>) -> Result<String, Error> {
    let io = |what: &str| {
        let what = format!("{what} kubectl {}", args.join(" "));
        move |source| Error::Io { what, source }
    };
    let mut command: Command = plane.kubectl()?;
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().map_err(io("starting"))?;
    if let Some(mut stdin) = running.stdin.take() {
        stdin.write_all(input.unwrap_or_default().as_bytes()).map_err(io("writing to"))?;
    }
    let output = running.wait_with_output().map_err(io("waiting for"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Refused(format!("kubectl {}: {said}", args.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Installs the operator as the example of a platform does, with the image of this build.
pub fn install(plane: &ControlPlane) -> Result<(), Error> {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/platform");
    let manifests = kubectl(plane, &["kustomize", example], None)?;
    let released = concat!(":", env!("CARGO_PKG_VERSION"));
    let ours = ["outrigger.dev/outrigger", "outrigger.dev/kube-rbac-proxy"];
    let manifests = ours.iter().fold(manifests, |text, image| {
        let now = text.replace(&format!("{image}{released}"), &format!("{image}:dev"));
        assert!(now != text, "{image}{released} is not among the manifests");
        now
    });
    kubectl(plane, &["apply", "--server-side", "-f", "-"], Some(&manifests)).map(drop)
}
