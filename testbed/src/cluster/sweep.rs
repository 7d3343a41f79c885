//! Removes everything a site has on this machine: processes, cgroups, mounts, namespaces, interfaces, files. A clean
//! shutdown and the cleanup after a killed owner share this code, so the rarely needed path is tested by every run.
//!
//! Nothing relies on a record written by the owner, which can be killed between an action and its record. Processes
//! carry a marker in their environment; everything else has the site number in its name.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::cgroup;
use crate::cluster::lan;
use crate::error::{Error, IoContext, Result};

/// Environment variable with the site number of a process.
pub(crate) const MARKER: &str = "OUTRIGGER_TESTBED_SITE";

/// Timeout for the kernel to reap killed processes and to release their resources.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns true if a site has left anything on this machine. Cheap: does not read the process table.
pub(crate) fn has_traces(site: u8, dir: &Path) -> bool {
    dir.exists()
        || lan::link_exists(site)
        || !lan::list_netns(site).is_empty()
        || !cgroup::list(site).is_empty()
}

/// Removes everything a site has on this machine. The caller must hold the lock of the site.
pub(crate) fn remove_site(site: u8, dir: &Path) -> Result<()> {
    kill_all("processes of the site to exit", || marked_processes(site))?;
    cgroup::remove(site)?;
    unmount_below(dir)?;
    lan::remove(site)?;
    remove_tree(dir)
}

/// Kills the processes that `find` returns until it returns none. One round is not enough: a process can fork while
/// the list is read.
pub(crate) fn kill_all(what: &str, find: impl Fn() -> Vec<u32>) -> Result<()> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    loop {
        let found = find();
        if found.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::Deadline {
                what: what.to_owned(),
                limit: KILL_TIMEOUT,
                last: format!("still alive: {found:?}"),
            });
        }
        for pid in found {
            // The process may have exited in the meantime.
            let _ = signal(pid, Signal::KILL);
        }
        sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| std::io::Error::other(format!("invalid process id {pid}")))?;
    Ok(kill_process(pid, signal)?)
}

/// Returns the processes with the marker of a site. Zombies have no environment and are not listed.
pub(crate) fn marked_processes(site: u8) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && site_of_process(*pid) == Some(site))
        .collect()
}

/// Returns the site in the marker of a process.
pub(crate) fn site_of_process(pid: u32) -> Option<u8> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ
        .split(|byte| *byte == 0)
        .find_map(|pair| pair.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"="))
        .and_then(|number| std::str::from_utf8(number).ok()?.parse().ok())
}

/// Returns the mount points below a directory, deepest first.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut mounts: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(|path| PathBuf::from(path.replace("\\040", " ")))
        .filter(|path| path.starts_with(dir))
        .collect();
    mounts.sort();
    mounts.reverse();
    mounts
}

fn unmount_below(dir: &Path) -> Result<()> {
    for mount in mounts_below(dir) {
        rustix::mount::unmount(&mount, UnmountFlags::DETACH)
            .map_err(std::io::Error::from)
            .context(|| format!("unmounting {}", mount.display()))?;
    }
    Ok(())
}

/// Removes a directory, unless a mount is left in it: removal would delete the mounted files.
fn remove_tree(dir: &Path) -> Result<()> {
    if let Some(mount) = mounts_below(dir).first() {
        return Err(Error::Refused(format!(
            "not removing {1}: {0} is still mounted",
            mount.display(),
            dir.display()
        )));
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { what: format!("removing {}", dir.display()), source: error })
        }
        _ => Ok(()),
    }
}
