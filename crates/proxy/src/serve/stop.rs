//! The word that all connections are to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Said once, and heard by all who have a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    token: CancellationToken,
    said: Arc<AtomicBool>,
}

impl Stop {
    /// Says it.
    pub(crate) fn say(&self) {
        self.said.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether it was said. The token itself would take a lock that all connections share.
    pub(crate) fn is_said(&self) -> bool {
        self.said.load(Ordering::Acquire)
    }

    /// Waits until it is said.
    pub(crate) fn heard(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }
}
