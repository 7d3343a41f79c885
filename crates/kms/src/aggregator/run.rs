//! The aggregator's process, from its settings to its end.

use runtime::process::{self, Process};
use runtime::telemetry::Options;

use super::settings::Settings;
use super::start;

/// Why the aggregator ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// As any process.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// A watch that must not be.
    #[error(transparent)]
    Watch(#[from] runtime::watch::SecretsOfAll),
}

/// Lives as the aggregator until it is told to end.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let options = Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: None,
        service: "outrigger-kms-aggregator",
    };
    let mut process = Process::begin(&options, &settings.access, env!("CARGO_PKG_VERSION")).await?;
    start::start(&settings, &mut process)?;
    Ok(process.live(settings.admin).await?)
}
