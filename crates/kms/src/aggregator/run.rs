//! The aggregator's process.

use runtime::process::{self, Process};
use runtime::telemetry::Options;

use super::settings::Settings;
use super::start;

/// Runs the aggregator until it receives SIGTERM.
pub async fn run(settings: Settings) -> Result<(), process::Error> {
    let options = Options {
        format: settings.log_format,
        level: &settings.log_level,
        otlp_endpoint: None,
        service: "outrigger-kms-aggregator",
    };
    let mut process = Process::start(&options, &settings.access, env!("CARGO_PKG_VERSION")).await?;
    start::start(&settings, &mut process)?;
    process.run(settings.metrics, settings.admin).await
}
