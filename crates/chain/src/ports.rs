//! Ports that a node listens on.

use api::names::{port, port_name};

use crate::config::Mode;

/// Port name and number.
pub type Port = (&'static str, i32);

const P2P: Port = (port_name::P2P, port::P2P);
const METRICS: Port = (port_name::METRICS, port::METRICS);

/// Every port of a node.
pub const ALL: [Port; 7] = [
    (port_name::EVM_RPC, port::EVM_RPC),
    (port_name::EVM_WS, port::EVM_WS),
    (port_name::GRPC, port::GRPC),
    (port_name::REST, port::REST),
    P2P,
    (port_name::RPC, port::RPC),
    METRICS,
];

/// Returns the ports that a node of this mode exposes. A validator's RPC port is open, too, but meant for its own pod only.
#[must_use]
pub fn exposed(mode: Mode) -> &'static [Port] {
    match mode {
        Mode::Full | Mode::Archive => &ALL,
        Mode::Validator => &[P2P, METRICS],
        Mode::Seed => &[],
    }
}
