//! Errors of the testbed: one line that names the object and, where possible, the fix.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a part of the testbed could not be built, started, reached or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An I/O operation failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted, with the path.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A helper program failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// Command line.
        command: String,
        /// Exit status.
        status: ExitStatus,
        /// Standard error.
        stderr: String,
    },
    /// A condition did not become true in time.
    #[error("timed out after {limit:?} waiting for {what}: {last}")]
    Deadline {
        /// The condition.
        what: String,
        /// The timeout.
        limit: Duration,
        /// Result of the last check.
        last: String,
    },
    /// A condition did not stay true.
    #[error("{what} no longer held after {after:?}: {last}")]
    Violated {
        /// The condition.
        what: String,
        /// How long it held.
        after: Duration,
        /// Result of the failed check.
        last: String,
    },
    /// A process exited unexpectedly.
    #[error("{name} exited unexpectedly ({status}); log: {}; last lines:\n{tail}", log.display())]
    ProcessExited {
        /// Name of the process.
        name: String,
        /// Exit status.
        status: ExitStatus,
        /// Path of its log.
        log: PathBuf,
        /// Last lines of its log.
        tail: String,
    },
    /// A Go module failed to build.
    #[error("building {part} failed; log: {}; last lines:\n{tail}", log.display())]
    Build {
        /// Part of the testbed.
        part: &'static str,
        /// Path of the build log.
        log: PathBuf,
        /// Last lines of the log.
        tail: String,
    },
    /// Any other failure, or invalid input.
    #[error("{0}")]
    Other(String),
    /// Creating a certificate failed.
    #[error("creating a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// Setting up TLS failed.
    #[error("setting up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A request to the API server failed.
    #[error(transparent)]
    Kube(#[from] Box<kube::Error>),
    /// Encoding or decoding JSON failed.
    #[error("invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// Adds what was attempted to an [`std::io::Error`], which does not contain a path.
pub(crate) trait IoContext<T> {
    /// Adds what was attempted.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source })
    }
}
