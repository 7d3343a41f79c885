//! Limits concurrent tasks: a number of working slots, and one task per resource.

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::kinds::Kind;
use crate::node::Node;

/// Working slots and resource locks.
#[derive(Debug)]
pub(super) struct TaskLocks {
    slots: Arc<Semaphore>,
    node: Arc<Node>,
}

/// The locks of one task.
#[derive(Debug)]
pub(super) struct TaskGuards {
    _resources: Vec<OwnedMutexGuard<()>>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl TaskLocks {
    pub(super) fn new(node: Arc<Node>, slots: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(slots)), node }
    }

    /// Waits for the locks of a task. Resources are always locked in the same order and the slot last: no task holds a slot while it
    /// waits for a resource.
    pub(super) async fn acquire(&self, kind: &Kind) -> TaskGuards {
        let mut resources = Vec::with_capacity(kind.locks.len());
        for resource in kind.locks {
            resources.push(self.node.lock(*resource).await);
        }
        // Never closed.
        let slot = if kind.mostly_waits { None } else { self.slots.clone().acquire_owned().await.ok() };
        TaskGuards { _resources: resources, _slot: slot }
    }
}
