//! The process of seid. It is found through `/proc`: the pod's containers share their processes.

use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Time between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why the process could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Processes cannot be seen.
    #[error("reading /proc: {0}")]
    Unseen(std::io::Error),
    /// It may not be signalled.
    #[error("signalling seid (pid {0}): {1}; the containers must run as the same user")]
    Refused(i32, Errno),
}

/// Finds `seid start`: not a wrapper, not an init container that runs another command of seid.
pub fn find() -> Result<Option<Pid>, ProcessError> {
    find_in(Path::new("/proc"))
}

fn find_in(proc: &Path) -> Result<Option<Pid>, ProcessError> {
    for entry in std::fs::read_dir(proc).map_err(ProcessError::Unseen)?.flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        // A process may end while it is looked at: it reads as empty then.
        if read("comm").trim_ascii() == b"seid" && is_start(&read("cmdline")) {
            return Ok(Pid::from_raw(number));
        }
    }
    Ok(None)
}

fn is_start(command: &[u8]) -> bool {
    let mut words = command.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    (program == b"seid" || program.ends_with(b"/seid")) && words.next() == Some(b"start")
}

/// Asks a process to end, and waits; true when it has.
pub async fn terminate(pid: Pid, within: Duration) -> Result<bool, ProcessError> {
    signal(pid, Signal::TERM)?;
    Ok(gone(pid, within).await)
}

/// Ends a process that does not end by itself.
pub async fn kill(pid: Pid, within: Duration) -> Result<bool, ProcessError> {
    signal(pid, Signal::KILL)?;
    Ok(gone(pid, within).await)
}

fn signal(pid: Pid, signal: Signal) -> Result<(), ProcessError> {
    match kill_process(pid, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(ProcessError::Refused(pid.as_raw_nonzero().get(), error)),
    }
}

async fn gone(pid: Pid, within: Duration) -> bool {
    let looks = async {
        while is_there(pid) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(within, looks).await.is_ok()
}

/// A process that has ended and was not waited for is gone as well.
fn is_there(pid: Pid) -> bool {
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return false;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S15.
    #[test]
    fn s15_only_the_node_itself_is_found() {
        let is = |words: &[&str]| is_start(words.join("\0").as_bytes());
        for words in [&["seid", "start"][..], &["/usr/bin/seid", "start", "--home", "/sei"]] {
            assert!(is(words), "{words:?}");
        }
        for words in
            [&["seid"][..], &["seid", "init"], &["sh", "-c", "seid start"], &["/bin/noseid", "start"], &[]]
        {
            assert!(!is(words), "{words:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        for (pid, comm, words) in
            [("7", "sh", "seid\0start"), ("8", "seid", "seid\0version"), ("9", "seid", "/bin/seid\0start\0")]
        {
            std::fs::create_dir(dir.path().join(pid)).unwrap();
            std::fs::write(dir.path().join(pid).join("comm"), format!("{comm}\n")).unwrap();
            std::fs::write(dir.path().join(pid).join("cmdline"), words).unwrap();
        }
        std::fs::create_dir(dir.path().join("self")).unwrap();
        assert_eq!(find_in(dir.path()).unwrap(), Pid::from_raw(9));
    }
}
