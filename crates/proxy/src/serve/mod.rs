//! Serves clients: accepts connections, authenticates and authorizes requests, and forwards them.

pub(crate) mod access_control;
mod access_log;
pub(crate) mod activity;
mod connection;
pub(crate) mod endpoints;
mod framing;
mod handler;
pub(crate) mod listener;
mod local_response;
pub(crate) mod peer;
pub(crate) mod rate_limited_log;
pub(crate) mod shutdown;
pub(crate) mod slots;
pub(crate) mod socket;
mod validation;
pub(crate) mod worker;
