//! The control directory: the start script of the seid container owns seid, and signals it on request. seid can write to the
//! directory, so nothing in it is trusted: a forged file can only affect seid itself.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use super::{POLL_INTERVAL, ProcessError};
use crate::node::files;

/// Request of the sidecar: `ID TERM` or `ID KILL`.
const REQUEST: &str = "request";

/// State of seid: `running ID` or `exited ID CODE`, with the last request that the script has handled, or `-`.
const STATE: &str = "state";

/// The maximum length of the state.
const MAX_STATE: u64 = 256;

/// A control directory.
#[derive(Debug)]
pub struct ControlDir {
    request: PathBuf,
    state: PathBuf,
}

/// The state of seid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Exited,
}

impl ControlDir {
    pub(super) fn new(dir: &Path) -> Self {
        Self { request: dir.join(REQUEST), state: dir.join(STATE) }
    }

    pub(super) fn state_file(&self) -> &Path {
        &self.state
    }

    /// Removes the request of a killed sidecar, which would stop the next seid.
    pub(super) fn prepare(&self) -> io::Result<()> {
        let dir = self.request.parent().unwrap_or(Path::new("/"));
        // Fails if the directory does not exist.
        std::fs::read_dir(dir)?;
        files::free_name(&self.request)?;
        // Nothing reads them: what cannot be removed may stay.
        if let Err(error) = files::remove_staged(dir) {
            tracing::warn!(%error, dir = %dir.display(), "cannot remove temporary files of the control directory");
        }
        Ok(())
    }

    /// Returns whether seid runs. Without a state the script has not started it.
    pub(super) fn is_running(&self) -> Result<bool, ProcessError> {
        Ok(self.read_state()? == Some(State::Running))
    }

    /// Requests a signal and waits until seid does not run; returns whether that happened in time.
    pub(super) async fn stop(&self, signal: Signal, timeout: Duration) -> Result<bool, ProcessError> {
        let name = if signal == Signal::KILL { "KILL" } else { "TERM" };
        let request = format!("{} {name}\n", uuid::Uuid::new_v4());
        let _pending = PendingRequest::write(&self.request, &request)
            .map_err(|error| ProcessError::WriteRequest { file: self.request.clone(), error })?;
        let stopped = async {
            while self.is_running()? {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok(true)
        };
        tokio::time::timeout(timeout, stopped).await.unwrap_or(Ok(false))
    }

    fn read_state(&self) -> Result<Option<State>, ProcessError> {
        match read_regular(&self.state) {
            Ok(None) => Ok(None),
            Ok(Some(text)) => {
                parse_state(&text).map(Some).ok_or_else(|| ProcessError::MalformedState(self.state.clone()))
            }
            Err(error) => Err(ProcessError::ReadState { file: self.state.clone(), error }),
        }
    }
}

/// A request, which is withdrawn when its task ends or is cancelled: the next seid must not be stopped by it.
struct PendingRequest<'a>(&'a Path);

impl<'a> PendingRequest<'a> {
    fn write(file: &'a Path, request: &str) -> io::Result<Self> {
        files::free_name(file)?;
        files::write(file, request.as_bytes(), 0o644)?;
        Ok(Self(file))
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let Err(error) = files::free_name(self.0) {
            tracing::warn!(%error, file = %self.0.display(), "cannot remove the request");
        }
    }
}

/// Reads the start of a regular file; `None` if it does not exist. Links are not followed, and a FIFO does not block.
fn read_regular(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
    let Some(file) = files::ok_if_missing(file)? else { return Ok(None) };
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    // One more byte than allowed, so that a longer file is malformed.
    file.take(MAX_STATE + 1).read_to_end(&mut text)?;
    Ok(Some(text))
}

fn parse_state(text: &[u8]) -> Option<State> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() as u64 <= MAX_STATE)?;
    let line = text.strip_suffix('\n').unwrap_or(text);
    let is_id =
        |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["running", id] if is_id(id) => Some(State::Running),
        ["exited", id, code] if is_id(id) && code.parse::<i32>().is_ok() => Some(State::Exited),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn malformed_states_are_rejected() {
        for (text, state) in [
            ("running -\n", State::Running),
            ("running 0b7d-4e", State::Running),
            ("exited - 0\n", State::Exited),
            ("exited a1 137\n", State::Exited),
        ] {
            assert_eq!(parse_state(text.as_bytes()), Some(state), "{text:?}");
        }
        let long = format!("running {}\n", "a".repeat(MAX_STATE as usize));
        for text in [
            "",
            "\n",
            "running",
            "running \n",
            "running a b\n",
            "running -\nexited - 0\n",
            "exited -\n",
            "exited - x\n",
            "exited a  0\n",
            "Running -\n",
            "running a;b\n",
            &long,
        ] {
            assert_eq!(parse_state(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_state(b"running \xff\n"), None);
    }

    #[test]
    fn state_is_read_without_links_fifos_or_limits() {
        let dir = tempfile::tempdir().unwrap();
        let control = ControlDir::new(dir.path());
        let error = || control.is_running().unwrap_err().to_string();
        assert!(!control.is_running().unwrap(), "without a state nothing runs");
        std::fs::write(&control.state, "running -\n").unwrap();
        assert!(control.is_running().unwrap());
        std::fs::write(&control.state, vec![b'a'; 64 << 20]).unwrap();
        assert!(error().contains("state is malformed"), "{}", error());
        std::fs::remove_file(&control.state).unwrap();
        std::fs::write(dir.path().join("other"), "running -\n").unwrap();
        symlink("other", &control.state).unwrap();
        assert!(error().starts_with("reading ") && error().contains("/state: "), "{}", error());
        std::fs::remove_file(&control.state).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &control.state, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(error().contains("not a regular file"), "{}", error());
        std::fs::remove_file(&control.state).unwrap();
        std::fs::create_dir(&control.state).unwrap();
        assert!(error().contains("not a regular file"), "{}", error());
    }

    #[test]
    fn prepare_removes_the_request_of_a_killed_sidecar() {
        let dir = tempfile::tempdir().unwrap();
        let control = ControlDir::new(dir.path());
        std::fs::write(&control.request, "a TERM\n").unwrap();
        std::mem::forget(files::stage(&control.request, b"b TERM\n", 0o644).unwrap());
        control.prepare().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(ControlDir::new(&dir.path().join("none")).prepare().is_err());
    }

    #[test]
    fn directories_in_place_of_the_request_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let control = ControlDir::new(dir.path());
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("kept"), "").unwrap();
        let fill = |name: &str| {
            std::fs::create_dir_all(dir.path().join(name).join("a/b")).unwrap();
            symlink(other.path(), dir.path().join(name).join("a/link")).unwrap();
        };
        fill("request");
        fill(".request.0123456789abcdef.new");
        control.prepare().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        symlink(other.path(), &control.request).unwrap();
        control.prepare().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        fill("request");
        let pending = PendingRequest::write(&control.request, "a TERM\n").unwrap();
        assert_eq!(std::fs::read_to_string(&control.request).unwrap(), "a TERM\n");
        std::fs::remove_file(&control.request).unwrap();
        fill("request");
        drop(pending);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(other.path().join("kept").exists(), "links are not followed");
    }

    #[tokio::test]
    async fn request_names_the_signal_and_is_withdrawn_when_seid_exited() {
        let dir = tempfile::tempdir().unwrap();
        let control = ControlDir::new(dir.path());
        for (signal, name) in [(Signal::TERM, "TERM"), (Signal::KILL, "KILL")] {
            std::fs::write(&control.state, "running -\n").unwrap();
            let script = async {
                while !control.request.exists() {
                    tokio::task::yield_now().await;
                }
                let request = std::fs::read_to_string(&control.request).unwrap();
                let (id, signal) = request.trim_end().split_once(' ').unwrap();
                std::fs::write(&control.state, format!("exited {id} 0\n")).unwrap();
                signal.to_owned()
            };
            let (stopped, requested) = tokio::join!(control.stop(signal, Duration::from_secs(30)), script);
            assert_eq!((stopped.unwrap(), requested.as_str()), (true, name));
            assert!(!control.request.exists());
        }
    }

    #[tokio::test]
    async fn request_that_cannot_be_written_names_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let control = ControlDir { request: dir.path().join("none/request"), ..ControlDir::new(dir.path()) };
        let error = control.stop(Signal::TERM, Duration::from_secs(1)).await.unwrap_err().to_string();
        assert!(error.starts_with("writing ") && error.contains("/none/request"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_request_is_withdrawn_after_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let control = ControlDir::new(dir.path());
        std::fs::write(&control.state, "running -\n").unwrap();
        assert!(!control.stop(Signal::TERM, Duration::from_secs(90)).await.unwrap());
        assert!(!control.request.exists());
    }
}
