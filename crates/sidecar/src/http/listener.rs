//! The listener of the API: a TCP port or a Unix socket.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::settings::Listen;

/// Permissions of a Unix socket: only the user and group of the sidecar can connect.
const SOCKET_MODE: u32 = 0o660;

/// The length of the accept queue of a Unix socket.
const BACKLOG: i32 = 1024;

/// A listener.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

/// An accepted connection.
#[derive(Debug)]
pub(super) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Binds a listener.
    pub async fn bind(address: &Listen) -> io::Result<Self> {
        match address {
            Listen::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp),
            Listen::Unix(path) => {
                remove_stale_socket(path).await?;
                bind_socket(path).and_then(to_tokio).map(Self::Unix)
            }
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // An optimization only.
                let _ = stream.set_nodelay(true);
                Ok(Connection::Tcp(stream))
            }
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Connection::Unix(stream)),
        }
    }
}

/// Removes the socket of a killed sidecar. A socket that accepts connections belongs to a running process and is an error.
async fn remove_stale_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(io::Error::other("the file is not a socket: remove it, or use another path"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // The accept queue of a running process may be full.
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(io::Error::other("another process listens on it: stop that one first")),
    }
}

/// Binds a Unix socket. Its mode is set before it appears in the directory, so that no other user can connect in between.
fn bind_socket(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::from_raw_mode(SOCKET_MODE))?;
    match bind(&socket, &address) {
        Err(rustix::io::Errno::NOENT) => {
            return Err(io::Error::other("its directory does not exist: create it, or mount a volume there"));
        }
        result => result?,
    }
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn to_tokio(socket: OwnedFd) -> io::Result<UnixListener> {
    UnixListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn socket(dir: &tempfile::TempDir) -> Listen {
        Listen::Unix(dir.path().join("api.sock"))
    }

    #[tokio::test]
    async fn stale_socket_is_replaced_and_live_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let first = Listener::bind(&socket(&dir)).await.unwrap();
        let mode = std::fs::metadata(dir.path().join("api.sock")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777 & !SOCKET_MODE, 0, "{mode:o}");
        let error = Listener::bind(&socket(&dir)).await.unwrap_err().to_string();
        assert!(error.contains("another process listens on it"), "{error}");
        drop(first);
        assert!(dir.path().join("api.sock").exists(), "a killed process leaves its socket");
        Listener::bind(&socket(&dir)).await.unwrap();
    }

    #[tokio::test]
    async fn file_or_missing_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("api.sock"), "content").unwrap();
        let error = Listener::bind(&socket(&dir)).await.unwrap_err().to_string();
        assert!(error.contains("not a socket"), "{error}");
        assert_eq!(std::fs::read_to_string(dir.path().join("api.sock")).unwrap(), "content");
        let missing = Listen::Unix(dir.path().join("none/api.sock"));
        let error = Listener::bind(&missing).await.unwrap_err().to_string();
        assert!(error.contains("its directory does not exist"), "{error}");
        assert!(!dir.path().join("none").exists());
    }
}
