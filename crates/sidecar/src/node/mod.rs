//! The node that a sidecar stands beside: its home, its process, its RPC, and what is known of it.

pub mod config;
pub mod fetch;
pub mod files;
pub mod home;
mod identity;
pub mod marker;
pub mod process;
pub mod rpc;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::identity::IdentityError;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::kinds::Resource;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The node.
#[derive(Debug)]
pub struct Node {
    settings: Arc<Settings>,
    ledger: Ledger,
    /// Whether seid may start. It is not kept: every process begins with a hold.
    ready: AtomicBool,
    metrics: Metrics,
    /// One lock for each part of the node.
    parts: [Arc<Mutex<()>>; Resource::COUNT],
}

impl Node {
    /// The node of these settings.
    #[must_use]
    pub fn new(settings: Arc<Settings>, ledger: Ledger, metrics: Metrics) -> Self {
        Self { settings, ledger, ready: AtomicBool::new(false), metrics, parts: Default::default() }
    }

    /// The metrics of the sidecar.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Waits until nobody else changes a part of the node.
    pub async fn turn(&self, part: Resource) -> OwnedMutexGuard<()> {
        self.parts[part as usize].clone().lock_owned().await
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The tasks of the node.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The node's home.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.settings.home
    }

    /// Whether seid may start.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    /// Lets seid start, or holds it back.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
    }

    /// Who the node is among its peers: forty hexadecimal digits.
    pub fn id(&self) -> Result<String, IdentityError> {
        identity::read(self.home())
    }
}
