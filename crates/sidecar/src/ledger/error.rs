//! What can go wrong with the ledger.

use std::path::PathBuf;

/// Why the ledger could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be opened or changed.
    #[error("the ledger {path} cannot be opened: {why}; the volume must be writable, and a local disk")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        why: rusqlite::Error,
    },
    /// The file is damaged.
    #[error(
        "the ledger {path} is damaged ({why}): move it away to begin with an empty one; tasks are then forgotten, and run again when they are given again"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file was written by a program that knows more than we do.
    #[error(
        "the ledger {path} has schema {found}, and this program knows {known} at most: use the newer program that wrote it"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The thread could not be started.
    #[error("the ledger's thread cannot be started: {0}")]
    Thread(std::io::Error),
}

/// Why an order was not done. Nothing of it was.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// SQLite refused.
    #[error("the ledger cannot be used: {0}")]
    Store(String),
    /// It did not answer in time.
    #[error("the ledger does not answer")]
    Silent,
    /// It was closed.
    #[error("the ledger is closed: this process is ending")]
    Closed,
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.to_string())
    }
}
