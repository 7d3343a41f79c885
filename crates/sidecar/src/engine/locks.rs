//! Who may work now: so many at once, and never two on the same part of a node.

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::kinds::Kind;
use crate::node::Node;

/// Places to work, and the parts of a node.
#[derive(Debug)]
pub(super) struct Locks {
    places: Arc<Semaphore>,
    node: Arc<Node>,
}

/// What a task holds while it works.
#[derive(Debug)]
pub(super) struct Held {
    _parts: Vec<OwnedMutexGuard<()>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Locks {
    pub(super) fn new(node: Arc<Node>, places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), node }
    }

    /// Waits for what a task needs. All take parts in the same order, and a place last: nobody sits on one and waits for another.
    pub(super) async fn take(&self, kind: &Kind) -> Held {
        let mut parts = Vec::with_capacity(kind.changes.len());
        for part in kind.changes {
            parts.push(self.node.turn(*part).await);
        }
        // It is never closed.
        let place = if kind.waits { None } else { self.places.clone().acquire_owned().await.ok() };
        Held { _parts: parts, _place: place }
    }
}
