//! The aggregator: rolls up the reports of all nodes into conditions. `plan::kms::rollup` decides; this module reads, writes and emits
//! events.

mod cluster_operator;
mod deployed_keys;
mod expected;
mod metrics;
mod reconcile;
mod reports;
mod run;
pub mod settings;
mod start;
mod status;
mod target;
mod target_resource;

pub use self::metrics::ALL as METRICS;
pub use self::run::run;
