//! The aggregator's process, from its settings to its end.

use runtime::admin::Admin;
use runtime::metrics::Metrics;
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Options};

use super::settings::Settings;
use super::start;

/// Who we are to the API server.
const USER_AGENT: &str = concat!("outrigger-kms-aggregator/", env!("CARGO_PKG_VERSION"));

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

/// Lives as the aggregator until it is told to end.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let told = telemetry::start(&Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: None,
        service: "outrigger-kms-aggregator",
    })
    .map_err(Error::Telemetry)?;
    let metrics = Metrics::new();
    let client = settings.access.connect(USER_AGENT, &metrics).await?;
    let admin = Admin::new(&metrics, Some(told.level()));
    let mut tasks = Tasks::new();
    start::start(&settings, &client, &metrics, &admin, &mut tasks)?;
    if let Some(address) = settings.admin {
        let bound = admin.clone().bind(address).await.map_err(|source| Error::Listen { address, source })?;
        tracing::info!(address = %bound.address(), "serving health, metrics and state");
        let watchman = tasks.stop(Phase::Watchman);
        tasks.spawn(Phase::Watchman, "admin", bound.serve(watchman));
    }
    let ended = tasks.run_until_signal().await;
    told.end().await;
    Ok(ended?)
}
