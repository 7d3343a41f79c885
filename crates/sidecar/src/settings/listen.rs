//! Where the API listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The longest path of a Unix socket in bytes.
const MAX_SOCKET_PATH: usize = 107;

/// Where the API listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket. A TCP port on loopback then serves `/v0/healthz` and nothing else.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

impl Listen {
    /// Parses `unix:PATH` or `tcp:ADDRESS:PORT`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') || path.ends_with('/') || path.len() > MAX_SOCKET_PATH {
                return Err(format!(
                    "invalid socket path {path:?}: use an absolute path of at most {MAX_SOCKET_PATH} bytes"
                ));
            }
            return Ok(Self::Unix(path.into()));
        }
        let address = text.strip_prefix("tcp:").and_then(|address| address.parse().ok());
        let address = address.filter(|address: &SocketAddr| address.port() > 0);
        address.map(Self::Tcp).ok_or_else(|| {
            format!(
                "invalid address {text:?}: use unix:PATH or tcp:ADDRESS:PORT, for example tcp:127.0.0.1:7777"
            )
        })
    }

    /// Returns the address of a port on loopback.
    #[must_use]
    pub fn loopback(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// Returns whether clients on other hosts can connect.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_is_a_socket_path_or_a_tcp_address() {
        assert_eq!(Listen::parse("unix:/run/a.sock"), Ok(Listen::Unix("/run/a.sock".into())));
        for (text, is_remote) in [
            ("tcp:127.0.0.1:7777", false),
            ("tcp:[::1]:7777", false),
            ("tcp:0.0.0.0:1", true),
            ("tcp:[::]:1", true),
        ] {
            assert_eq!(Listen::parse(text).map(|listen| listen.is_remote()), Ok(is_remote), "{text}");
        }
        let long = format!("unix:/{}", "a".repeat(MAX_SOCKET_PATH));
        for text in [
            "",
            "7777",
            ":7777",
            "127.0.0.1:7777",
            "tcp:",
            "tcp:7777",
            "tcp:localhost:7777",
            "tcp:127.0.0.1:0",
            "unix:",
            "unix:api.sock",
            "unix:/run/",
            &long,
        ] {
            assert!(Listen::parse(text).is_err(), "{text}");
        }
    }
}
