//! Socket options and file descriptor limits.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// TCP keep-alive: idle time, and interval between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Sets TCP_NODELAY, and keep-alive to detect peers whose machine is gone. Failures are ignored: the
/// connection works without these options.
pub(crate) fn set_options(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL);
}

/// Raises the file descriptor limit to its maximum: images start with 1024, too few for a thousand clients. Returns the limit;
/// `None` is unlimited.
pub(crate) fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, current = ?limit.current, "failed to raise the file descriptor limit");
        return limit.current;
    }
    limit.maximum
}
