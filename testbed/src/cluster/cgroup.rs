//! The cgroups of a site's nodes: one folder per node, in every hierarchy of cgroup v1 or in the single one of v2.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cluster::lan;
use crate::cluster::sweep;
use crate::error::{IoContext, Result};

const ROOT: &str = "/sys/fs/cgroup";

/// How long emptied cgroups may take to become removable.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a node weighs when processors are short, in the words of v1 and of v2: as much as two processes beside it. Without a
/// weight all pods of a node together get what one compiler gets; and a seid that takes more than 15 s to compile a contract of its
/// genesis goes on without it, and never agrees with the others again.
const WEIGHTS: [(&str, &str); 2] = [("cpu.shares", "2048"), ("cpu.weight", "200")];

/// The kubelet's `cgroupRoot` of a node.
pub(crate) fn root_of_node(site: u8, node: u8) -> String {
    format!("/{}", lan::node_netns(site, node))
}

/// Makes a node's folder in every hierarchy. The kubelet wants all of them to exist, and cpuset's to be filled: an
/// empty set of CPUs refuses every process.
pub(crate) fn create_for_node(site: u8, node: u8) -> Result<()> {
    for hierarchy in hierarchies() {
        let folder = hierarchy.join(lan::node_netns(site, node));
        fs::create_dir_all(&folder).context(|| format!("making the cgroup {}", folder.display()))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let inherited = fs::read_to_string(hierarchy.join(file)).unwrap_or_default();
            if !inherited.trim().is_empty() {
                let path = folder.join(file);
                fs::write(&path, inherited.trim()).context(|| format!("writing {}", path.display()))?;
            }
        }
        for (file, weight) in WEIGHTS {
            let path = folder.join(file);
            if path.exists() {
                fs::write(&path, weight).context(|| format!("writing {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Every cgroup folder of a site's nodes.
pub(crate) fn present(site: u8) -> Vec<PathBuf> {
    let prefix = format!("{}-", lan::netns_of(site));
    hierarchies()
        .iter()
        .filter_map(|hierarchy| fs::read_dir(hierarchy).ok())
        .flat_map(|entries| entries.flatten())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

/// Kills what is left in a site's cgroups and removes them.
pub(crate) fn remove(site: u8) -> Result<()> {
    remove_folders(|| present(site))
}

/// Kills what is left in one node's cgroups and removes them.
pub(crate) fn remove_node(site: u8, node: u8) -> Result<()> {
    let name = lan::node_netns(site, node);
    remove_folders(|| present(site).into_iter().filter(|folder| folder.ends_with(&name)).collect())
}

fn remove_folders(find: impl Fn() -> Vec<PathBuf>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let folders = find();
        if folders.is_empty() {
            return Ok(());
        }
        sweep::kill_all("processes in cgroups of the site", || {
            folders.iter().flat_map(|f| processes(f)).collect()
        })?;
        let mut last = Ok(());
        for folder in &folders {
            last = remove_depth_first(folder);
        }
        // The kernel takes a moment to let go of a cgroup whose last process was killed.
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
    // Only real hierarchies, and not the links by which v1 gives a joint hierarchy a second name.
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists())
        .collect()
}

fn processes(folder: &Path) -> Vec<u32> {
    let mut found: Vec<u32> = fs::read_to_string(folder.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    for child in children(folder) {
        found.extend(processes(&child));
    }
    found
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_depth_first(folder: &Path) -> Result<()> {
    for child in children(folder) {
        remove_depth_first(&child)?;
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.context(|| format!("removing the cgroup {}", folder.display())),
    }
}
