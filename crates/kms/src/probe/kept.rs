//! The connection that is kept between calls. It belongs to one file: nobody may stay bound to the socket of a plugin that was
//! replaced, nor to one that nobody else could reach any more.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::connection::Connection;

/// Which file a socket is. The number of a file that was removed is given again at once; its time is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    device: u64,
    number: u64,
    changed: (i64, i64),
}

impl File {
    /// The file at a path, if there is one.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self { device: found.dev(), number: found.ino(), changed: (found.ctime(), found.ctime_nsec()) })
    }
}

/// At most one connection, with the file that it was made by.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Option<(File, Connection)>>);

impl Kept {
    /// Takes the connection of this file. Any other, and one that was closed, is dropped.
    pub(super) fn take(&self, file: Option<File>) -> Option<Connection> {
        let (made_by, connection) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        (Some(made_by) == file && connection.is_open()).then_some(connection)
    }

    /// Keeps a connection for the next call.
    pub(super) fn keep(&self, file: Option<File>, connection: Connection) {
        if let Some(file) = file {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((file, connection));
        }
    }
}
