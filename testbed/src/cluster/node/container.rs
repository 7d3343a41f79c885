//! Containers of a node, as the kernel knows them.

use std::fs;

use crate::cluster::sweep;
use crate::error::{Error, Result};

/// Kills every process of a container, by the id that its pod's status tells (`containerd://...`).
pub fn kill(id: &str) -> Result<()> {
    let name = id.strip_prefix("containerd://").unwrap_or_default();
    // Part of an id, or none, would be found in the groups of others.
    if name.len() != 64 {
        return Err(Error::Refused(format!("{id:?} is no id of a container")));
    }
    if processes(name).is_empty() {
        return Err(Error::Refused(format!("no process is in container {name}")));
    }
    sweep::kill_all(&format!("container {name}"), || processes(name))
}

/// Those whose control groups have the container's name.
fn processes(container: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_in = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(container))
    };
    // What has ended and waits for its parent has groups still.
    let lives = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    pids.filter(|pid| is_in(pid) && lives(pid)).collect()
}
