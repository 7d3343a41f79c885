//! A process from its settings to its end: logs first, then the way to the API server, then what it does, then the admin server.

use std::net::SocketAddr;

use kube::Client;

use crate::admin::Admin;
use crate::client::{self, Access};
use crate::metrics::Metrics;
use crate::tasks::{self, Phase, Tasks};
use crate::telemetry::{self, Options, Telemetry};

/// Why a process ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Logs or traces cannot be written: only a level that nobody can read keeps them from it.
    #[error("logs and traces: {0}")]
    Telemetry(String),
    /// There is no way to the API server.
    #[error(transparent)]
    Access(#[from] client::Error),
    /// An address is taken, or is not ours.
    #[error("listening on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A task ended that must live.
    #[error(transparent)]
    Tasks(#[from] tasks::Error),
}

/// A process that has begun and does nothing yet.
pub struct Process {
    /// What it counts.
    pub metrics: Metrics,
    /// Its way to the API server.
    pub client: Client,
    /// What it shows of itself.
    pub admin: Admin,
    /// What it does.
    pub tasks: Tasks,
    told: Telemetry,
}

impl Process {
    /// Begins: logs are written, and there is a way to the API server. The user agent is the service with its version.
    pub async fn begin(options: &Options<'_>, access: &Access, version: &str) -> Result<Self, Error> {
        let told = telemetry::start(options).map_err(Error::Telemetry)?;
        let metrics = Metrics::new();
        let client = access.connect(&format!("{}/{version}", options.service), &metrics).await?;
        let admin = Admin::new(&metrics, Some(told.level()));
        Ok(Self { metrics, client, admin, tasks: Tasks::new(), told })
    }

    /// Serves health, metrics and state at these addresses, and lives until it is told to end.
    pub async fn live(mut self, addresses: impl IntoIterator<Item = SocketAddr>) -> Result<(), Error> {
        for address in addresses {
            let bound = self.admin.clone().bind(address).await;
            let bound = bound.map_err(|source| Error::Listen { address, source })?;
            tracing::info!(address = %bound.address(), "serving health, metrics and state");
            let watchman = self.tasks.stop(Phase::Watchman);
            self.tasks.spawn(Phase::Watchman, "admin", bound.serve(watchman));
        }
        let ended = self.tasks.run_until_signal().await;
        self.told.end().await;
        Ok(ended?)
    }
}
