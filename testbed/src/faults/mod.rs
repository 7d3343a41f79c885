//! Fault injection. [`fault_proxy`] sits between a process and the API server; [`crash_writes`] kills a process at
//! its file system writes; [`partition`] cuts the network between pods.

pub mod crash_writes;
pub mod fault_proxy;
pub mod partition;
