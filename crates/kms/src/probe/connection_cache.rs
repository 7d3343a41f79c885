//! The connection reused between calls. It is bound to one socket file: a client must not stay connected to a plugin that was
//! replaced, or whose socket no other client could reach any more.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use runtime::sync::lock;

use super::connection::Connection;

/// Identity of a socket file. The inode number of a removed file may be reused immediately; the change time tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketFile {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl SocketFile {
    /// Returns the identity of the file at a path, if there is one.
    pub(super) fn stat(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// At most one connection, and the socket file that it was opened through.
#[derive(Debug, Default)]
pub(super) struct ConnectionCache(Mutex<Option<(SocketFile, Connection)>>);

impl ConnectionCache {
    /// Takes the connection opened through this file. A connection of another file, or a closed one, is dropped.
    pub(super) fn take(&self, file: Option<SocketFile>) -> Option<Connection> {
        let (opened_through, connection) = lock(&self.0).take()?;
        (Some(opened_through) == file && connection.is_open()).then_some(connection)
    }

    /// Stores a connection for the next call.
    pub(super) fn put(&self, file: Option<SocketFile>, connection: Connection) {
        if let Some(file) = file {
            *lock(&self.0) = Some((file, connection));
        }
    }
}
