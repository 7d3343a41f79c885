//! The aggregator: reports of all nodes become conditions that a person reads. What follows from what is decided in
//! `plan::kms::rollup`; here it is looked at, written and told.

mod act;
mod cluster_operator;
mod deployed;
mod expected;
mod metrics;
mod pass;
mod reports;
mod resource;
mod run;
pub mod settings;
mod start;
mod target;

pub use self::metrics::ALL as METRICS;
pub use self::run::{Error, run};
pub use self::target::Target;
