//! A listen address on loopback.

use std::fmt;
use std::net::SocketAddr;

/// The default of `--admin-bind-address`, in pods that do not use the host network.
pub const ADMIN_ADDRESS: &str = "127.0.0.1:8082";

/// A listen address that only processes of the same network namespace can connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackAddress(SocketAddr);

impl LoopbackAddress {
    /// Returns `None` if other hosts can connect to the address.
    #[must_use]
    pub fn new(address: SocketAddr) -> Option<Self> {
        address.ip().is_loopback().then_some(Self(address))
    }
}

impl From<LoopbackAddress> for SocketAddr {
    fn from(address: LoopbackAddress) -> Self {
        address.0
    }
}

impl fmt::Display for LoopbackAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
