//! Upstream connections and requests.

pub(crate) mod body;
pub(crate) mod client;
mod concurrency;
pub(crate) mod dial;
mod pool;
pub(crate) mod tunnel;
pub(crate) mod url;
