//! A cluster like that of a user of the operator, with real seid, and the clients that the demo and the end-to-end suites use.

pub mod halted_chain;
pub mod kms_health;
pub mod new_chain;
pub mod platform;
pub mod rpc;
pub mod sei_nodes;
pub mod sidecar_client;
