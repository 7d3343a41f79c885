//! Certificates: those that are served, those that clients show, those that the upstream is trusted by.

pub(crate) mod clients;
pub(crate) mod pem;
pub(crate) mod reload;
pub(crate) mod self_signed;
pub(crate) mod server;
pub(crate) mod upstream;
