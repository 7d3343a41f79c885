//! TLS: serving certificates, client certificates, and trust in the upstream.

pub(crate) mod client_cert;
pub(crate) mod pem;
pub(crate) mod reload;
pub(crate) mod self_signed;
pub(crate) mod server;
pub(crate) mod upstream;
