//! A cluster as users of the operator have one, with real seid, and the handles that the demo and the end-to-end suites use on it.

pub mod caller;
pub mod kms_health;
pub mod new_chain;
pub mod platform;
pub mod rpc;
pub mod sei_nodes;
