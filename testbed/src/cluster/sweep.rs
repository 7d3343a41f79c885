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

/// Timeout for the kernel to set up a program that is being executed.
const EXEC_TIMEOUT: Duration = Duration::from_secs(2);

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
    read_environ(pid)?
        .split(|byte| *byte == 0)
        .find_map(|pair| pair.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"="))
        .and_then(|number| std::str::from_utf8(number).ok()?.parse().ok())
}

/// Waits until a process that was just started has its marker. Until the kernel has replaced the memory of the new
/// process, it has the environment of its parent. An exited process never has a marker.
pub(crate) fn wait_for_marker(pid: u32, site: u8) {
    let deadline = Instant::now() + EXEC_TIMEOUT;
    while site_of_process(pid) != Some(site)
        && fs::read_link(format!("/proc/{pid}/exe")).is_ok()
        && Instant::now() < deadline
    {
        sleep(Duration::from_millis(1));
    }
}

/// Reads the environment of a process. Waits while the process executes a new program: until the kernel has set up the
/// new stack, the environment reads as empty, and the cleanup would miss a process that was just started.
fn read_environ(pid: u32) -> Option<Vec<u8>> {
    let deadline = Instant::now() + EXEC_TIMEOUT;
    loop {
        let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
        if !environ.is_empty() || !is_executing(pid) || Instant::now() > deadline {
            return Some(environ);
        }
        sleep(Duration::from_millis(1));
    }
}

/// Returns true if a process has no environment yet. Kernel threads and zombies never have one, but they have no
/// program either.
fn is_executing(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may contain spaces; `env_end` is the 49th of the fields that follow it.
    let env_end = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(48));
    env_end == Some("0") && fs::read_link(format!("/proc/{pid}/exe")).is_ok()
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
        return Err(Error::Other(format!(
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Not a number of a site, so that no cleanup of a concurrent run kills the processes of this test.
    const SITE: u8 = u8::MAX;

    #[test]
    fn started_process_is_found() {
        for attempt in 0..200 {
            let mut child = Command::new("/bin/sleep")
                .arg("100")
                .env(MARKER, SITE.to_string())
                .spawn()
                .expect("sleep starts");
            wait_for_marker(child.id(), SITE);
            let found = site_of_process(child.id());
            child.kill().expect("sleep is running");
            child.wait().expect("sleep exits");
            assert_eq!(found, Some(SITE), "attempt {attempt}");
        }
    }

    #[test]
    fn zombies_and_kernel_threads_have_no_site() {
        let mut child = Command::new("/bin/true").env(MARKER, SITE.to_string()).spawn().expect("true starts");
        let before = Instant::now();
        wait_for_marker(child.id(), SITE.wrapping_sub(1));
        assert_eq!(site_of_process(child.id()), None, "true has exited");
        assert_eq!(site_of_process(2), None, "kthreadd, or no process in a container");
        assert!(before.elapsed() < EXEC_TIMEOUT, "neither is waited for");
        child.wait().expect("true exits");
    }
}
