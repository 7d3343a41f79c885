//! Ledger errors.

use std::path::PathBuf;

/// Why the ledger could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or written.
    #[error("cannot open ledger {path}: {error}; the volume must be a writable local disk")]
    Unusable {
        /// The ledger file.
        path: PathBuf,
        /// The SQLite error.
        error: rusqlite::Error,
    },
    /// The file is corrupt.
    #[error(
        "ledger {path} is corrupt ({detail}): move it away to start with an empty one; all tasks are then forgotten and run again when submitted again"
    )]
    Corrupt {
        /// The ledger file.
        path: PathBuf,
        /// The failed check.
        detail: String,
    },
    /// The file was written by a newer version.
    #[error(
        "ledger {path} has schema {found}, but this version supports at most {supported}: use the newer version that wrote it"
    )]
    TooNew {
        /// The ledger file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest supported schema version.
        supported: i64,
    },
    /// The private directory cannot be used.
    #[error("--private-dir (OUTRIGGER_SIDECAR_PRIVATE_DIR): cannot use {dir}: {error}")]
    PrivateDir {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The ledger thread cannot be started.
    #[error("cannot start ledger thread: {0}")]
    Thread(std::io::Error),
}

/// Why a command failed. It changed nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// SQLite returned an error.
    #[error("ledger unavailable: {0}")]
    Sqlite(String),
    /// The ledger did not respond in time.
    #[error("ledger timed out")]
    Timeout,
    /// The ledger was closed.
    #[error("ledger is closed: the sidecar is shutting down")]
    Closed,
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error.to_string())
    }
}
