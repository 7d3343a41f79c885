//! Containers of a node, found by their cgroups.

use std::fs;

use rustix::process::Signal;

use crate::cluster::sweep;
use crate::error::{Error, IoContext as _, Result};

/// Kills all processes of a container, given by the ID in the pod status (`containerd://...`).
pub fn kill(id: &str) -> Result<()> {
    let name = name_of(id)?;
    first_process(name)?;
    sweep::kill_all(&format!("processes of container {name} to exit"), || processes(name))
}

/// Kills a container and changes one of its files at that moment: it is read and written while the container is stopped.
pub fn kill_and_edit(id: &str, file: &str, edit: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let name = name_of(id)?;
    let path = format!("/proc/{}/root{file}", first_process(name)?);
    for process in processes(name) {
        sweep::signal(process, Signal::STOP).context(|| format!("stopping process {process}"))?;
    }
    let text = fs::read_to_string(&path).context(|| format!("reading {path}"))?;
    fs::write(&path, edit(&text)?).context(|| format!("writing {path}"))?;
    kill(id)
}

/// Returns the file of the network namespace of a container, which is that of its pod.
pub(crate) fn network_namespace(id: &str) -> Result<String> {
    Ok(format!("/proc/{}/ns/net", first_process(name_of(id)?)?))
}

fn name_of(id: &str) -> Result<&str> {
    let name = id.strip_prefix("containerd://").unwrap_or_default();
    // A partial or empty ID would match cgroups of other containers.
    if name.len() == 64 { Ok(name) } else { Err(Error::Other(format!("invalid container ID {id:?}"))) }
}

fn first_process(container: &str) -> Result<u32> {
    let no_process = || Error::Other(format!("container {container} has no processes"));
    processes(container).first().copied().ok_or_else(no_process)
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
