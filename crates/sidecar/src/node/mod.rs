//! The node: home directory, process, RPC and readiness.

pub mod config;
pub mod fetch;
pub mod files;
pub mod home;
mod identity;
pub mod marker;
pub mod process;
mod resource;
pub mod rpc;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::identity::IdentityError;
pub use self::resource::Resource;

use tokio::sync::{Mutex, OwnedMutexGuard};

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
}

impl Node {
    /// Creates a node that is not ready.
    #[must_use]
    pub fn new(settings: Arc<Settings>, ledger: Ledger, metrics: Metrics) -> Self {
        Self { settings, ledger, ready: AtomicBool::new(false), metrics, locks: Default::default() }
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

    /// Returns the node ID: forty hexadecimal digits.
    pub fn id(&self) -> Result<String, IdentityError> {
        identity::read(self.home())
    }
}
