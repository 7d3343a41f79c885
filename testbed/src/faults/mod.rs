//! Fault injection: between a process and the API server ([`fault_proxy`]), and at the file system writes of a process
//! ([`crash_writes`]).

pub mod crash_writes;
pub mod fault_proxy;
