//! The container runtime of a node.

use std::fs;
use std::time::Duration;

use super::machine::Machine;
use super::{Place, cni};
use crate::error::{IoContext, Result};
use crate::image::Image;
use crate::process::{Process, Program};
use crate::wait;

/// In the box's own /run.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// Kubernetes' images are in a namespace of the runtime's own.
const IMAGE_NAMESPACE: &str = "k8s.io";

/// How long it may take to serve.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Starts it and returns when it serves.
pub(super) async fn start(place: &Place, machine: &Machine) -> Result<Process> {
    cni::configure(place)?;
    let config = place.write("containerd.toml", &configuration(place)?)?;
    let program = Program::new(place.log_name("containerd"), "/usr/bin/containerd").flag("config", config);
    let process = machine.program(program).start(place.site())?;
    wait::until(format!("containerd of {}", place.name), READY_WITHIN, || async {
        process.check_alive()?;
        machine.run("ctr", ["--address", SOCKET, "--connect-timeout", "1s", "version"])
    })
    .await?;
    Ok(process)
}

/// Loads an image.
pub(super) fn import(place: &Place, machine: &Machine, image: &Image) -> Result<()> {
    let archive = place.dir().join("image.tar");
    image.write(&archive)?;
    let path = archive.display().to_string();
    machine.run("ctr", ["--address", SOCKET, "--namespace", IMAGE_NAMESPACE, "images", "import", &path])?;
    // As large as the image itself, and of no more use.
    fs::remove_file(&archive).context(|| format!("removing {path}"))
}

/// Gives an image that is loaded another name, such as one by a digest: an archive can hold only names with tags.
pub(super) fn name(machine: &Machine, image: &Image, name: &str) -> Result<()> {
    let images = ["--address", SOCKET, "--namespace", IMAGE_NAMESPACE, "images"];
    machine.run("ctr", images.into_iter().chain(["tag", image.name(), name])).map(drop)
}

fn configuration(place: &Place) -> Result<String> {
    let sandbox = Image::pause()?;
    Ok(format!(
        r#"version = 2
root = "{root}"
state = "/run/containerd"

[grpc]
  address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox}"
  # A machine that is itself a container may not lower the score; pods run without it.
  restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{cni}"
"#,
        root = place.folder("containerd")?.display(),
        sandbox = sandbox.name(),
        cni = place.folder(cni::FOLDER)?.display(),
    ))
}
