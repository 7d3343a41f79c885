//! The seid process. It is stopped through the control directory that its start script reads, or by signals if the containers of
//! the pod share a process namespace.

mod control;
mod signals;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use self::control::ControlDir;

/// Time between two checks whether seid has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Why seid could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// `/proc` cannot be read.
    #[error("reading /proc: {0}")]
    ReadProc(std::io::Error),
    /// Sending a signal failed.
    #[error("sending a signal to seid (pid {0}): {1}; both containers must run as the same user")]
    Signal(i32, Errno),
    /// A request cannot be written.
    #[error("writing {}: {error}", file.display())]
    WriteRequest {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The state of seid cannot be read.
    #[error("reading {}: {error}", file.display())]
    ReadState {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The state of seid is malformed.
    #[error("{} is malformed: expected one line, running ID or exited ID CODE", .0.display())]
    MalformedState(PathBuf),
}

/// How seid is found and stopped.
#[derive(Debug)]
pub enum SeidControl {
    /// By signals, in a shared process namespace.
    Signals,
    /// Through the control directory.
    Directory(ControlDir),
}

/// A running seid.
#[derive(Debug)]
pub enum RunningSeid<'a> {
    /// A process of the shared process namespace.
    Process(Pid),
    /// The child of the start script that owns the control directory.
    Controlled(&'a ControlDir),
}

impl SeidControl {
    /// Uses the control directory, if there is one.
    #[must_use]
    pub fn new(control_dir: Option<&Path>) -> Self {
        control_dir.map_or(Self::Signals, |dir| Self::Directory(ControlDir::new(dir)))
    }

    /// Removes what a killed sidecar left in the control directory. Fails if the directory cannot be used.
    pub fn prepare(&self) -> std::io::Result<()> {
        match self {
            Self::Signals => Ok(()),
            Self::Directory(dir) => dir.prepare(),
        }
    }

    /// Finds seid; `None` if it does not run.
    pub fn find(&self) -> Result<Option<RunningSeid<'_>>, ProcessError> {
        match self {
            Self::Signals => Ok(signals::find()?.map(RunningSeid::Process)),
            Self::Directory(dir) => Ok(dir.is_running()?.then_some(RunningSeid::Controlled(dir))),
        }
    }

    /// Returns why a seid whose RPC responds may not be found, and the fix.
    #[must_use]
    pub fn invisible_seid_message(&self) -> String {
        match self {
            Self::Signals => {
                "no seid process found, but its RPC responds: set shareProcessNamespace on the pod".into()
            }
            Self::Directory(dir) => format!(
                "{} does not report a running seid, but its RPC responds: start seid with the start script of this control \
                 directory",
                dir.state_file().display()
            ),
        }
    }
}

impl RunningSeid<'_> {
    /// Sends SIGTERM and waits; returns whether seid exited in time.
    pub async fn terminate(&self, timeout: Duration) -> Result<bool, ProcessError> {
        self.stop(Signal::TERM, timeout).await
    }

    /// Sends SIGKILL and waits; returns whether seid exited in time.
    pub async fn kill(&self, timeout: Duration) -> Result<bool, ProcessError> {
        self.stop(Signal::KILL, timeout).await
    }

    async fn stop(&self, signal: Signal, timeout: Duration) -> Result<bool, ProcessError> {
        match self {
            Self::Process(pid) => signals::stop(*pid, signal, timeout).await,
            Self::Controlled(dir) => dir.stop(signal, timeout).await,
        }
    }
}
