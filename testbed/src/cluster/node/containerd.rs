//! Container runtime of a node.

use std::time::Duration;

use super::namespaces::NodeNamespaces;
use super::{NodeLayout, cni};
use crate::cluster::image::Image;
use crate::error::Result;
use crate::harness::wait;
use crate::process::tool;
use crate::process::{Process, Program};

/// In the private /run of the node.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// containerd namespace of Kubernetes images.
const IMAGE_NAMESPACE: &str = "k8s.io";

/// Startup timeout.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Starts containerd and returns when it serves.
pub(super) async fn start(layout: &NodeLayout, namespaces: &NodeNamespaces) -> Result<Process> {
    cni::configure(layout)?;
    let config = layout.write("containerd.toml", &configuration(layout)?)?;
    let program = Program::new(layout.log_name("containerd"), "/usr/bin/containerd").flag("config", config);
    let process = namespaces.program(program).start(layout.site())?;
    wait::until(format!("containerd of {} to serve", layout.name), READY_WITHIN, || async {
        process.check_alive()?;
        namespaces.run("ctr", ["--address", SOCKET, "--connect-timeout", "1s", "version"])
    })
    .await?;
    Ok(process)
}

/// Imports an image. All nodes of a site share its archive. Runs on a blocking thread: it takes seconds, and other tasks must not
/// miss their deadlines.
pub(super) async fn import(layout: &NodeLayout, namespaces: &NodeNamespaces, image: &Image) -> Result<()> {
    let (image, dir) = (image.clone(), layout.site().dir().join("images"));
    let archive = tool::run_blocking(move || image.archive(&dir)).await?.display().to_string();
    let args = ["--address", SOCKET, "--namespace", IMAGE_NAMESPACE, "images", "import", &archive];
    let import = namespaces.command("ctr", args);
    tool::run_blocking(move || tool::output_of(import)).await.map(drop)
}

/// Adds a name to an imported image, such as a digest reference: an archive can contain only tags.
pub(super) fn tag(namespaces: &NodeNamespaces, image: &Image, name: &str) -> Result<()> {
    let images = ["--address", SOCKET, "--namespace", IMAGE_NAMESPACE, "images"];
    namespaces.run("ctr", images.into_iter().chain(["tag", image.name(), name])).map(drop)
}

fn configuration(layout: &NodeLayout) -> Result<String> {
    let sandbox = Image::pause()?;
    Ok(format!(
        r#"version = 2
root = "{root}"
state = "/run/containerd"

[grpc]
  address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox}"
  # Inside a container, the machine may not lower the OOM score; pods run without the adjustment.
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
        root = layout.create_dir("containerd")?.display(),
        sandbox = sandbox.name(),
        cni = layout.create_dir(cni::DIR)?.display(),
    ))
}
