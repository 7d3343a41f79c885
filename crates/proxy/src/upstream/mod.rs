//! The way to the upstream: connections that are kept, and what is sent over them.

pub(crate) mod body;
pub(crate) mod dial;
pub(crate) mod places;
pub(crate) mod pool;
pub(crate) mod send;
pub(crate) mod target;
pub(crate) mod tunnel;
