//! Snapshot of what the testbed leaves on this machine, to compare before and after: processes, mounts, interfaces,
//! namespaces, cgroups, nftables tables, kernel settings, and files in directories shared with container runtimes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::cluster::pod::KERNEL_SETTINGS;
use crate::cluster::site;
use crate::cluster::sweep;
use crate::process::tool;

/// Programs that a run starts. Container processes have their own environment without the marker, but are found by
/// name.
const PROGRAMS: [&str; 9] = [
    "cert-manager",
    "containerd",
    "containerd-shim-runc-v2",
    "coredns",
    "kubernetes",
    "minio",
    "runc",
    "testbed-pod",
    "outrigger",
];

/// Directories that container runtimes share across the machine.
const SHARED_FOLDERS: [&str; 5] =
    ["/run/containerd", "/run/cni", "/var/lib/cni", "/var/log/pods", "/var/lib/outrigger-testbed"];

/// Returns a snapshot, one line per item, without those of live runs, which change at any time.
#[must_use]
pub fn snapshot() -> BTreeSet<String> {
    let mut found = snapshot_with_live_runs();
    found.retain(|line| !belongs_to_live_run(line));
    found
}

/// Returns a snapshot, one line per item, including those of live runs except their many files.
#[must_use]
pub fn snapshot_with_live_runs() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    found.extend(processes());
    found.extend(mounts());
    found.extend(names_in("/sys/class/net", "interface"));
    found.extend(names_in("/run/netns", "network namespace"));
    found.extend(cgroups());
    found.extend(firewall_tables());
    found.extend(kernel_settings());
    for folder in SHARED_FOLDERS {
        found.extend(files(Path::new(folder)));
    }
    found
}

fn processes() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let exe = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let name = exe.file_name()?.to_string_lossy().into_owned();
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        // A container process has no marker but is in a cgroup of its node.
        let node = cgroup
            .lines()
            .find_map(|line| line.split('/').find(|part| part.starts_with("outrigger-")))
            .map(str::to_owned);
        let owner = node
            .or_else(|| sweep::site_of_process(pid).map(|site| format!("outrigger-{site}")))
            .unwrap_or_default();
        let is_ours = !owner.is_empty() || PROGRAMS.contains(&name.as_str());
        is_ours.then(|| format!("process {pid} {name} {owner}"))
    })
    .collect()
}

fn mounts() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    table.lines().filter_map(|line| line.split(' ').nth(1)).map(|path| format!("mount {path}")).collect()
}

fn names_in(folder: &str, what: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| format!("{what} {}", entry.file_name().to_string_lossy())).collect()
}

/// Two levels are enough: a cgroup cannot be removed before its children.
fn cgroups() -> Vec<String> {
    let root = Path::new("/sys/fs/cgroup");
    let mut found = folders_in(root);
    for folder in found.clone() {
        found.extend(folders_in(Path::new(&folder)));
    }
    found.into_iter().map(|path| format!("cgroup {path}")).collect()
}

fn folders_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path().display().to_string())
        .collect()
}

fn firewall_tables() -> Vec<String> {
    // Without nft, the testbed cannot have created tables.
    tool::run("nft", ["list", "tables"])
        .unwrap_or_default()
        .lines()
        .map(|table| format!("nft {table}"))
        .collect()
}

/// Machine-wide settings that a kubelet would change.
fn kernel_settings() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    KERNEL_SETTINGS.into_iter().map(|path| format!("setting {path} = {}", read(path).trim())).collect()
}

fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // The state of a live run is large and changes while it is listed.
            if !belongs_to_live_run(&format!("file {}", path.display())) {
                found.push(format!("file {}", path.display()));
                found.extend(files(&path));
            }
        } else if path.extension().is_none_or(|kind| kind != "lock") {
            found.push(format!("file {}", path.display()));
        }
    }
    found
}

/// Everything of a site has its number in its name: `outrigger-N` or `outrigger-testbed/N`.
fn belongs_to_live_run(line: &str) -> bool {
    ["outrigger-testbed/", "outrigger-"].iter().any(|prefix| {
        line.match_indices(prefix).any(|(at, _)| {
            let digits: String = line[at + prefix.len()..].chars().take_while(char::is_ascii_digit).collect();
            digits.parse().is_ok_and(site::is_live)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_contains_loopback_and_proc() {
        let found = snapshot();
        assert!(found.contains("interface lo"), "{found:?}");
        assert!(found.contains("mount /proc"), "{found:?}");
    }
}
