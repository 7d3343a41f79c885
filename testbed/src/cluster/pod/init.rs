//! The first process of a node: it makes the node's own mounts, says so, and reaps. Everything below happens in the
//! mount namespace it was started in, so nothing of it is seen outside, and all of it goes when the process does.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};

use super::reaper;
use crate::error::{IoContext, Result};

/// Places compiled into the container runtime and the kubelet, which nodes on one machine would share.
const RUN: &str = "/run";
const LOG: &str = "/var/log";
const CNI_STATE: &str = "/var/lib/cni";

/// Who is asked for names. Not whom the machine asks: those are nobody that a test may ask, and whoever asks them for the registry
/// of an image waits for a minute.
const RESOLVER: &str = "/etc/resolv.conf";

/// Kernel settings that the kubelet changes, and that are the whole machine's: it gets files in their place.
pub(crate) const KERNEL_SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// What a node's first process sets up.
#[derive(Args)]
pub(super) struct Box {
    /// The node's host name.
    #[arg(long)]
    hostname: String,
    /// A folder for what must outlive a restart of the node's programs.
    #[arg(long)]
    state: PathBuf,
    /// The folder that becomes /var/log.
    #[arg(long)]
    logs: PathBuf,
    /// The file that becomes /etc/resolv.conf.
    #[arg(long)]
    resolver: PathBuf,
    /// A file that is written when everything is in place.
    #[arg(long)]
    ready: PathBuf,
}

pub(super) fn run(node: &Box) -> Result<()> {
    rustix::system::sethostname(node.hostname.as_bytes())
        .map_err(std::io::Error::from)
        .context(|| format!("setting the host name {}", node.hostname))?;
    // As on a real machine: a volume that a container mounts for others is seen by the kubelet. The namespace was made
    // private before, so this group has no member outside.
    mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)
        .map_err(std::io::Error::from)
        .context(|| "sharing the mounts of the node".to_owned())?;
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
    for folder in [from, to] {
        fs::create_dir_all(folder).context(|| format!("creating {}", folder.display()))?;
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
