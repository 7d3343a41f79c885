//! What is read from the head of a request: pure functions, so that every refusal can be shown without a socket.

pub(crate) mod connection;
pub(crate) mod glob;
pub(crate) mod path;
pub(crate) mod protected;
pub(crate) mod query;
pub(crate) mod verb;
