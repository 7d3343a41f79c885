//! Containers of a node, found by their cgroups.

use std::fs;

use crate::cluster::sweep;
use crate::error::{Error, Result};

/// Kills all processes of a container, given by the ID in the pod status (`containerd://...`).
pub fn kill(id: &str) -> Result<()> {
    let name = id.strip_prefix("containerd://").unwrap_or_default();
    // A partial or empty ID would match cgroups of other containers.
    if name.len() != 64 {
        return Err(Error::Other(format!("invalid container ID {id:?}")));
    }
    if processes(name).is_empty() {
        return Err(Error::Other(format!("container {name} has no processes")));
    }
    sweep::kill_all(&format!("processes of container {name} to exit"), || processes(name))
}

/// Returns the processes whose cgroup path contains the container ID.
fn processes(container: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_in = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(container))
    };
    // Zombies still have cgroups, but no command line.
    let is_alive = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    pids.filter(|pid| is_in(pid) && is_alive(pid)).collect()
}
