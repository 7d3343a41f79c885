//! Decisions about KMS plugins: what a probe means, what reports add up to, what belongs into a pod, whether a configuration may be
//! used.

pub mod cadence;
pub mod call;
pub mod check;
pub mod config_hash;
pub mod history;
pub mod inject;
pub mod pace;
pub mod plugin;
pub mod preflight;
pub mod providers;
pub mod publication;
pub mod removal;
pub mod rollup;
pub mod round_trip;
pub mod secret_layout;
pub mod target;
pub mod union;
pub mod vault;
pub mod verdict;
