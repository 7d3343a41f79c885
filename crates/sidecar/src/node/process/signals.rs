//! Stops seid by signals. It is found through `/proc`: the containers of the pod share a process namespace.

use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{POLL_INTERVAL, ProcessError};

/// Finds `seid start`, but not a wrapper script or another seid command such as an init container runs.
pub(super) fn find() -> Result<Option<Pid>, ProcessError> {
    find_in(Path::new("/proc"))
}

fn find_in(proc: &Path) -> Result<Option<Pid>, ProcessError> {
    for entry in std::fs::read_dir(proc).map_err(ProcessError::ReadProc)?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        // A process may exit meanwhile: its files read as empty then.
        if read("comm").trim_ascii() == b"seid" && is_seid_start(&read("cmdline")) {
            return Ok(Pid::from_raw(pid));
        }
    }
    Ok(None)
}

fn is_seid_start(cmdline: &[u8]) -> bool {
    let mut args = cmdline.split(|byte| *byte == 0);
    let program = args.next().unwrap_or_default();
    (program == b"seid" || program.ends_with(b"/seid")) && args.next() == Some(b"start")
}

/// Sends a signal and waits; returns whether the process exited in time.
pub(super) async fn stop(pid: Pid, signal: Signal, timeout: Duration) -> Result<bool, ProcessError> {
    send_signal(pid, signal)?;
    Ok(wait_for_exit(pid, timeout).await)
}

fn send_signal(pid: Pid, signal: Signal) -> Result<(), ProcessError> {
    match kill_process(pid, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(ProcessError::Signal(pid.as_raw_nonzero().get(), error)),
    }
}

async fn wait_for_exit(pid: Pid, timeout: Duration) -> bool {
    let exited = async {
        while is_running(pid) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(timeout, exited).await.is_ok()
}

/// Returns whether a process is running. A zombie is not.
fn is_running(pid: Pid) -> bool {
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return false;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_matches_only_seid_start() {
        let is_node = |args: &[&str]| is_seid_start(args.join("\0").as_bytes());
        for args in [&["seid", "start"][..], &["/usr/bin/seid", "start", "--home", "/sei"]] {
            assert!(is_node(args), "{args:?}");
        }
        for args in
            [&["seid"][..], &["seid", "init"], &["sh", "-c", "seid start"], &["/bin/noseid", "start"], &[]]
        {
            assert!(!is_node(args), "{args:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        for (pid, comm, cmdline) in
            [("7", "sh", "seid\0start"), ("8", "seid", "seid\0version"), ("9", "seid", "/bin/seid\0start\0")]
        {
            std::fs::create_dir(dir.path().join(pid)).unwrap();
            std::fs::write(dir.path().join(pid).join("comm"), format!("{comm}\n")).unwrap();
            std::fs::write(dir.path().join(pid).join("cmdline"), cmdline).unwrap();
        }
        std::fs::create_dir(dir.path().join("self")).unwrap();
        assert_eq!(find_in(dir.path()).unwrap(), Pid::from_raw(9));
    }
}
