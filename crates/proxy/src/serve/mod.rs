//! Serves clients: accepts, reads, decides, forwards.

mod access;
pub(crate) mod activity;
mod connection;
pub(crate) mod endpoints;
mod framing;
pub(crate) mod gate;
mod handler;
pub(crate) mod listener;
pub(crate) mod peer;
mod refusal;
pub(crate) mod seldom;
mod shape;
pub(crate) mod socket;
pub(crate) mod stop;
pub(crate) mod worker;
