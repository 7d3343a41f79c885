//! `outrigger kms-reporter`: says how the KMS plugins beside an API server are.

mod args;
mod metrics;
mod publish;
mod round;
mod run;
mod settings;

pub use crate::socket::Socket;
pub use args::Args;
pub use metrics::ALL as METRICS;
pub use run::{Error, run};
pub use settings::{Server, Settings, Violation};
