//! What is set on every socket.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// After how long of silence the other end is asked whether it is still there, and how often.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Small answers go at once, and a peer whose machine is gone is found. What cannot be set is not worth a connection.
pub(crate) fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEP_ALIVE);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE);
}

/// Lets this process have as many descriptors as it may: images start with 1024, which a thousand clients use up.
pub(crate) fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, current = ?limit.current, "the number of descriptors cannot be raised");
    }
}
