//! `outrigger kms-reporter`: reports the health of the KMS plugins next to an API server.

mod args;
mod metrics;
mod probes;
mod publish;
mod run;
mod settings;

pub use crate::socket::PluginSocket;
pub use args::Args;
pub use metrics::ALL as METRICS;
pub use run::{Error, run};
pub use settings::{InvalidSetting, Server, Settings};
