//! Parsing of request heads: pure functions, testable without a socket.

pub(crate) mod glob;
pub(crate) mod hop_by_hop;
pub(crate) mod path;
pub(crate) mod protected;
pub(crate) mod query;
pub(crate) mod subresource;
pub(crate) mod verb;
