//! Ports on which a node listens.

use api::names::{port, port_name};

use crate::config::Mode;

/// A port: its name and its number.
pub type Port = (&'static str, i32);

const P2P: Port = (port_name::P2P, port::P2P);
const METRICS: Port = (port_name::METRICS, port::METRICS);

/// All that a node can have.
pub const ALL: [Port; 7] = [
    (port_name::EVM_RPC, port::EVM_RPC),
    (port_name::EVM_WS, port::EVM_WS),
    (port_name::GRPC, port::GRPC),
    (port_name::REST, port::REST),
    P2P,
    (port_name::RPC, port::RPC),
    METRICS,
];

/// What a node of a mode offers to others. The RPC of a validator is open too, and meant for its own pod only.
#[must_use]
pub fn offered(mode: Mode) -> &'static [Port] {
    match mode {
        Mode::Full | Mode::Archive => &ALL,
        Mode::Validator => &[P2P, METRICS],
        Mode::Seed => &[],
    }
}
