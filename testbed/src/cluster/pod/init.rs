//! Init process of a node: creates the mounts, signals readiness and reaps orphans. It runs in the mount namespace of the
//! node, so its mounts are not visible outside and disappear with the process.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};

use super::reaper;
use crate::error::{IoContext, Result};

/// Paths compiled into containerd and the kubelet, which nodes on one machine would otherwise share.
const RUN: &str = "/run";
const LOG: &str = "/var/log";
const CNI_STATE: &str = "/var/lib/cni";

/// Replaced, because tests must not query the DNS servers of the machine, and resolving an image registry there takes a
/// minute to fail.
const RESOLVER: &str = "/etc/resolv.conf";

/// Machine-wide kernel settings that the kubelet writes: replaced by files.
pub(crate) const KERNEL_SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// Flags of the init process of a node.
#[derive(Args)]
pub(super) struct InitArgs {
    /// Host name of the node.
    #[arg(long)]
    hostname: String,
    /// Directory for state that survives restarts of programs on the node.
    #[arg(long)]
    state: PathBuf,
    /// Directory to mount as /var/log.
    #[arg(long)]
    logs: PathBuf,
    /// File to mount as /etc/resolv.conf.
    #[arg(long)]
    resolver: PathBuf,
    /// File to create when all mounts are done.
    #[arg(long)]
    ready: PathBuf,
}

pub(super) fn run(node: &InitArgs) -> Result<()> {
    rustix::system::sethostname(node.hostname.as_bytes())
        .map_err(std::io::Error::from)
        .context(|| format!("setting host name {}", node.hostname))?;
    // As on a real node, mounts of containers propagate to the kubelet. The namespace was private before, so nothing
    // propagates outside.
    mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)
        .map_err(std::io::Error::from)
        .context(|| "making mounts of the node shared".to_owned())?;
    shadow_kernel_settings(&node.state)?;
    let cni = node.state.join("cni-state");
    bind(&cni, Path::new(CNI_STATE))?;
    bind(&node.logs, Path::new(LOG))?;
    bind_existing(&node.resolver, Path::new(RESOLVER))?;
    mount("outrigger-run", RUN, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")
        .map_err(std::io::Error::from)
        .context(|| format!("mounting {RUN}"))?;
    fs::write(&node.ready, "").context(|| format!("writing {}", node.ready.display()))?;
    reaper::run()
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    for dir in [from, to] {
        fs::create_dir_all(dir).context(|| format!("creating {}", dir.display()))?;
    }
    bind_existing(from, to)
}

fn bind_existing(from: &Path, to: &Path) -> Result<()> {
    mount_bind(from, to)
        .map_err(std::io::Error::from)
        .context(|| format!("mounting {} on {}", from.display(), to.display()))
}

fn shadow_kernel_settings(state: &Path) -> Result<()> {
    for setting in KERNEL_SETTINGS {
        let value = fs::read(setting).context(|| format!("reading {setting}"))?;
        let shadow = state.join(setting.trim_start_matches('/').replace('/', "."));
        fs::write(&shadow, value).context(|| format!("writing {}", shadow.display()))?;
        bind_existing(&shadow, Path::new(setting))?;
    }
    Ok(())
}
