//! Runs the operator process.

use std::time::Duration;

use runtime::process::{self, Process};
use runtime::telemetry::Options;

use crate::settings::Settings;
use crate::sidecar::{TokenError, TokenSource};
use crate::{controller, crds};

/// How long permissions for tokens may take to become effective after they were granted.
const TOKEN_CHECK_LIMIT: Duration = Duration::from_secs(15);

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
    /// No token for sidecars can be requested.
    #[error("{0}")]
    Token(#[from] TokenError),
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
    if let Some(file) = &settings.legacy_sidecar_token_file {
        tracing::warn!(
            file = %file.display(),
            "pods without a token audience of their own get the token of --legacy-sidecar-token-file, which the proxy of every such pod \
             accepts; remove the flag once each node was updated"
        );
    }
    crds::check(&process.client).await?;
    let tokens = TokenSource::new(process.client.clone(), settings.token_service_account.clone());
    tokens.check(TOKEN_CHECK_LIMIT).await?;
    controller::start(&settings, tokens, &mut process)?;
    Ok(process.run(settings.metrics, settings.admin).await?)
}
