//! Removing what a site has on this machine: processes, cgroups, mounts, namespaces, interfaces, files. One way for a
//! clean end and for what a killed owner left, so that the way that is needed rarely is the one that is used always.
//!
//! Nothing is found by a record that its owner had to write, since an owner can die between an act and its record:
//! processes carry a marker in their environment, and everything else carries the site's number in its name.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::cgroup;
use crate::cluster::lan;
use crate::error::{Error, IoContext, Result};

/// Environment variable that tells to which site a process belongs.
pub(crate) const MARKER: &str = "OUTRIGGER_TESTBED_SITE";

/// How long the kernel may take to end killed processes and to let go of what they held.
const PATIENCE: Duration = Duration::from_secs(20);

/// True when a site has anything on this machine. Cheap: it reads no process table.
pub(crate) fn has_traces(site: u8, dir: &Path) -> bool {
    dir.exists()
        || lan::link_present(site)
        || !lan::netns_present(site).is_empty()
        || !cgroup::present(site).is_empty()
}

/// Removes everything a site has on this machine. The caller owns the site.
pub(crate) fn site(site: u8, dir: &Path) -> Result<()> {
    kill_all("processes of the site", || marked_processes(site))?;
    cgroup::remove(site)?;
    unmount_below(dir)?;
    lan::remove(site)?;
    remove_tree(dir)
}

/// Kills until `find` finds nothing more. One round is not enough: a process can fork while it is being listed.
pub(crate) fn kill_all(what: &str, find: impl Fn() -> Vec<u32>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = find();
        if found.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::Deadline {
                what: format!("the end of {what}"),
                limit: PATIENCE,
                last: format!("still alive: {found:?}"),
            });
        }
        for pid in found {
            // A process that ended by itself in the meantime is what we want.
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
        .ok_or_else(|| std::io::Error::other(format!("{pid} is no process id")))?;
    Ok(kill_process(pid, signal)?)
}

/// Every process that carries the site's marker. Zombies have no environment and are not listed.
pub(crate) fn marked_processes(site: u8) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && site_of_process(*pid) == Some(site))
        .collect()
}

/// The site whose marker a process carries.
pub(crate) fn site_of_process(pid: u32) -> Option<u8> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ
        .split(|byte| *byte == 0)
        .find_map(|pair| pair.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"="))
        .and_then(|number| std::str::from_utf8(number).ok()?.parse().ok())
}

/// Mount points below a folder, deepest first.
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

/// Removes a folder, but never through a mount: that would delete what is mounted.
fn remove_tree(dir: &Path) -> Result<()> {
    if let Some(mount) = mounts_below(dir).first() {
        return Err(Error::Refused(format!(
            "{} is still mounted; not removing {}",
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
