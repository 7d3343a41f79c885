//! The operator's process, from its settings to its end.

use runtime::admin::Admin;
use runtime::metrics::Metrics;
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Options};

use crate::settings::Settings;
use crate::{controller, definitions};

/// Who we are to the API server.
const USER_AGENT: &str = concat!("outrigger-operator/", env!("CARGO_PKG_VERSION"));

/// Why the process ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Logs or traces cannot be written.
    #[error("logs and traces: {0}")]
    Telemetry(String),
    /// There is no way to the API server.
    #[error(transparent)]
    Access(#[from] runtime::client::Error),
    /// The definitions that are installed do not fit.
    #[error(transparent)]
    Definitions(#[from] definitions::Error),
    /// An address is taken, or is not ours.
    #[error("listening on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A watch that must not be.
    #[error(transparent)]
    Watch(#[from] runtime::watch::SecretsOfAll),
    /// A task ended that must live.
    #[error(transparent)]
    Tasks(#[from] runtime::tasks::Error),
}

/// Lives as the operator until it is told to end.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let told = telemetry::start(&Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: settings.traces_to.as_deref(),
        service: "outrigger-operator",
    })
    .map_err(Error::Telemetry)?;
    for sentence in &settings.without_effect {
        tracing::warn!("{sentence}");
    }
    let metrics = Metrics::new();
    let client = settings.access.connect(USER_AGENT, &metrics).await?;
    definitions::check(&client).await?;
    let admin = Admin::new(&metrics, Some(told.level()));
    let mut tasks = Tasks::new();
    controller::start(&settings, &client, &metrics, &admin, &mut tasks)?;
    for address in settings.admin.clone() {
        let bound = admin.clone().bind(address).await.map_err(|source| Error::Listen { address, source })?;
        tracing::info!(address = %bound.address(), "serving health, metrics and state");
        let watchman = tasks.stop(Phase::Watchman);
        tasks.spawn(Phase::Watchman, "admin", bound.serve(watchman));
    }
    let ended = tasks.run_until_signal().await;
    told.end().await;
    Ok(ended?)
}
