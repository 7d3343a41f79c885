//! KMS decisions: probe evaluation, report aggregation, pod injection and preflight checks.

pub mod cadence;
pub mod call;
pub mod check;
pub mod config_hash;
pub mod history;
pub mod inject;
pub mod pace;
pub mod plugin;
pub mod plugin_health;
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
