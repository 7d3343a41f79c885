//! Cgroups of nodes: one per node, in every cgroup v1 hierarchy or in the unified v2 hierarchy.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cluster::lan;
use crate::cluster::sweep;
use crate::error::{IoContext, Result};

const ROOT: &str = "/sys/fs/cgroup";

/// Timeout for the removal of empty cgroups.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// CPU weight of a node in v1 and v2: twice the default. With the default weight, all pods of a node share the CPU time of
/// one compiler process, and a seid that needs more than 15 s to compile a contract of its genesis skips the contract and
/// diverges from the chain.
const WEIGHTS: [(&str, &str); 2] = [("cpu.shares", "2048"), ("cpu.weight", "200")];

/// `cgroupRoot` of the kubelet of a node.
pub(crate) fn root_of_node(site: u8, node: u8) -> String {
    format!("/{}", lan::node_netns(site, node))
}

/// Creates the cgroup of a node in every hierarchy. The kubelet requires all of them, and a cpuset without CPUs rejects
/// every process.
pub(crate) fn create_for_node(site: u8, node: u8) -> Result<()> {
    for hierarchy in hierarchies() {
        let dir = hierarchy.join(lan::node_netns(site, node));
        fs::create_dir_all(&dir).context(|| format!("creating cgroup {}", dir.display()))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let inherited = fs::read_to_string(hierarchy.join(file)).unwrap_or_default();
            if !inherited.trim().is_empty() {
                let path = dir.join(file);
                fs::write(&path, inherited.trim()).context(|| format!("writing {}", path.display()))?;
            }
        }
        for (file, weight) in WEIGHTS {
            let path = dir.join(file);
            if path.exists() {
                fs::write(&path, weight).context(|| format!("writing {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Lists the cgroups of all nodes of a site.
pub(crate) fn list(site: u8) -> Vec<PathBuf> {
    let prefix = format!("{}-", lan::netns_of(site));
    hierarchies()
        .iter()
        .filter_map(|hierarchy| fs::read_dir(hierarchy).ok())
        .flat_map(|entries| entries.flatten())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

/// Kills the processes in the cgroups of a site and removes the cgroups.
pub(crate) fn remove(site: u8) -> Result<()> {
    remove_dirs(|| list(site))
}

/// Kills the processes in the cgroups of a node and removes the cgroups.
pub(crate) fn remove_node(site: u8, node: u8) -> Result<()> {
    let name = lan::node_netns(site, node);
    remove_dirs(|| list(site).into_iter().filter(|dir| dir.ends_with(&name)).collect())
}

fn remove_dirs(find: impl Fn() -> Vec<PathBuf>) -> Result<()> {
    let deadline = Instant::now() + REMOVAL_TIMEOUT;
    loop {
        let dirs = find();
        if dirs.is_empty() {
            return Ok(());
        }
        sweep::kill_all("processes in cgroups of the site to exit", || {
            dirs.iter().flat_map(|dir| processes(dir)).collect()
        })?;
        let mut last = Ok(());
        for dir in &dirs {
            last = remove_depth_first(dir);
        }
        // The kernel releases a cgroup shortly after its last process was killed.
        if last.is_err() && Instant::now() > deadline {
            return last;
        }
        sleep(Duration::from_millis(10));
    }
}

fn hierarchies() -> Vec<PathBuf> {
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        return vec![PathBuf::from(ROOT)];
    }
    let Ok(entries) = fs::read_dir(ROOT) else { return Vec::new() };
    // Skips the symlinks that v1 creates for co-mounted controllers.
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists())
        .collect()
}

fn processes(dir: &Path) -> Vec<u32> {
    let mut found: Vec<u32> = fs::read_to_string(dir.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    for child in children(dir) {
        found.extend(processes(&child));
    }
    found
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_depth_first(dir: &Path) -> Result<()> {
    for child in children(dir) {
        remove_depth_first(&child)?;
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.context(|| format!("removing cgroup {}", dir.display())),
    }
}
