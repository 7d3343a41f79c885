//! The container runtime of a node.

use std::time::Duration;

use super::machine::Machine;
use super::{Place, cni};
use crate::cluster::image::Image;
use crate::error::Result;
use crate::harness::wait;
use crate::process::tool;
use crate::process::{Process, Program};

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

/// Loads an image. Its archive is the same for every node of the site. It takes seconds: others go on meanwhile, and none of them
/// misses a deadline for it.
pub(super) async fn import(place: &Place, machine: &Machine, image: &Image) -> Result<()> {
    let (image, folder) = (image.clone(), place.site().dir().join("images"));
    let archive = tool::aside(move || image.archive(&folder)).await?.display().to_string();
    let args = ["--address", SOCKET, "--namespace", IMAGE_NAMESPACE, "images", "import", &archive];
    let import = machine.command("ctr", args);
    tool::aside(move || tool::output_of(import)).await.map(drop)
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
