//! What can go wrong while the real world is set up, told in one line that names the thing and the cure.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a part of the test-bed could not be built, started, reached or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file, socket or kernel interface refused.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted, with the path.
        what: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A helper program ran and failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// Something did not become true in its time.
    #[error("{what} did not happen within {limit:?}: {last}")]
    Deadline {
        /// The condition that was waited for.
        what: String,
        /// How long it was waited for.
        limit: Duration,
        /// What the last look found.
        last: String,
    },
    /// Something that must hold did so only for a while.
    #[error("{what} did not hold: after {after:?} {seen}")]
    Broken {
        /// What must hold.
        what: String,
        /// How long it did.
        after: Duration,
        /// What was seen instead.
        seen: String,
    },
    /// A process that must live has ended.
    #[error("{name} ended by itself ({status}); its log is {}; it ends with:\n{tail}", log.display())]
    Died {
        /// The process.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// Where its log is.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// A Go module did not build.
    #[error("building {part} failed; see {}; it ends with:\n{tail}", log.display())]
    Build {
        /// The part of the test-bed.
        part: &'static str,
        /// The build's log.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// The request itself makes no sense.
    #[error("{0}")]
    Refused(String),
    /// A certificate could not be made.
    #[error("making a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS could not be set up.
    #[error("setting up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The API server, or the way to it, refused.
    #[error(transparent)]
    Kube(#[from] Box<kube::Error>),
    /// A document could not be read or written.
    #[error("reading or writing JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// Adds what was attempted to an [`std::io::Error`], which by itself names no path.
pub(crate) trait IoContext<T> {
    /// Says what was attempted.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source })
    }
}
