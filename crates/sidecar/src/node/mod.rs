//! The node: home directory, process, RPC and readiness.

mod chain;
pub mod config;
pub mod fetch;
pub mod files;
pub mod home;
mod identity;
pub mod marker;
mod process;
mod resource;
pub mod rpc;
pub mod signing;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::chain::ChainError;
pub use self::identity::IdentityError;
pub use self::process::{ProcessError, RunningSeid, SeidControl};
pub use self::resource::Resource;

use api::sidecar_wire::ChainStatus;
use tokio::sync::{Mutex, OwnedMutexGuard};

use self::chain::ChainReader;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The node.
#[derive(Debug)]
pub struct Node {
    settings: Arc<Settings>,
    ledger: Ledger,
    /// Whether seid may start. Not persisted: every sidecar process starts with a hold.
    ready: AtomicBool,
    metrics: Metrics,
    /// One lock per [`Resource`].
    locks: [Arc<Mutex<()>>; Resource::COUNT],
    chain: ChainReader,
    seid: SeidControl,
}

impl Node {
    /// Creates a node that is not ready.
    #[must_use]
    pub fn new(settings: Arc<Settings>, ledger: Ledger, metrics: Metrics) -> Self {
        let seid = SeidControl::new(settings.seid_control_dir.as_deref());
        Self {
            settings,
            ledger,
            ready: AtomicBool::new(false),
            metrics,
            locks: Default::default(),
            chain: ChainReader::default(),
            seid,
        }
    }

    /// Returns the metrics of the sidecar.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Locks a resource, waiting until no other task holds it.
    pub async fn lock(&self, resource: Resource) -> OwnedMutexGuard<()> {
        self.locks[resource as usize].clone().lock_owned().await
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the task ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.settings.home
    }

    /// Returns whether seid may start.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    /// Allows or prevents the start of seid.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
    }

    /// Returns how seid is stopped.
    #[must_use]
    pub fn seid(&self) -> &SeidControl {
        &self.seid
    }

    /// Returns the node ID: forty hexadecimal digits.
    pub fn id(&self) -> Result<String, IdentityError> {
        identity::read(self.home())
    }

    /// Reads the state of the chain from seid within a second, and the app hash after the block at `app_hash_at`.
    pub async fn chain_status(&self, app_hash_at: Option<i64>) -> Result<ChainStatus, ChainError> {
        self.chain.read(&self.settings.node_rpc, app_hash_at).await
    }
}
