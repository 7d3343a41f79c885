//! Runs the operator process.

use runtime::process::{self, Process};
use runtime::telemetry::Options;

use crate::settings::Settings;
use crate::{controller, crds};

/// An error that stops the operator, or keeps it from starting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process failed.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The installed CRDs do not fit this operator.
    #[error(transparent)]
    Crds(#[from] crds::Error),
}

/// Runs the operator until it receives SIGTERM.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let options = Options {
        format: settings.log_format,
        level: &settings.log_level,
        otlp_endpoint: settings.otlp_endpoint.as_deref(),
        service: "outrigger-operator",
    };
    let mut process = Process::start(&options, &settings.access, env!("CARGO_PKG_VERSION")).await?;
    for ignored in &settings.ignored {
        tracing::warn!(setting = ignored.name, reason = ignored.reason, "setting has no effect");
    }
    crds::check(&process.client).await?;
    controller::start(&settings, &mut process)?;
    Ok(process.run(settings.metrics, settings.admin).await?)
}
