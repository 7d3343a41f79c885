//! The signal that starts a graceful shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Triggered once; all clones observe it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shutdown {
    token: CancellationToken,
    triggered: Arc<AtomicBool>,
}

impl Shutdown {
    /// Starts the shutdown.
    pub(crate) fn trigger(&self) {
        self.triggered.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Returns whether the shutdown has started. Asking the token would take a lock shared by all connections.
    pub(crate) fn is_triggered(&self) -> bool {
        self.triggered.load(Ordering::Acquire)
    }

    /// Waits until the shutdown starts.
    pub(crate) fn triggered(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }
}
