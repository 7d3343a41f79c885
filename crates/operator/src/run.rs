//! The operator's process, from its settings to its end.

use runtime::process::{self, Process};
use runtime::telemetry::Options;

use crate::settings::Settings;
use crate::{controller, definitions};

/// Why the operator ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// As any process.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The definitions that are installed do not fit.
    #[error(transparent)]
    Definitions(#[from] definitions::Error),
    /// A watch that must not be.
    #[error(transparent)]
    Watch(#[from] runtime::watch::SecretsOfAll),
}

/// Lives as the operator until it is told to end.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let options = Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: settings.traces_to.as_deref(),
        service: "outrigger-operator",
    };
    let mut process = Process::begin(&options, &settings.access, env!("CARGO_PKG_VERSION")).await?;
    for sentence in &settings.without_effect {
        tracing::warn!("{sentence}");
    }
    definitions::check(&process.client).await?;
    controller::start(&settings, &mut process)?;
    Ok(process.live(settings.admin).await?)
}
