//! Slots of client connections. Above `--max-connections` the newest connections are accepted too, so that probes of the
//! kubelet are answered whatever other clients hold open.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use runtime::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use crate::metrics::ProxyMetrics;

/// Maximum number of connections above `--max-connections`. A probe is closed unanswered only if this many clients connect
/// before its response is sent.
const MAX_OVERFLOW: usize = 256;

/// File descriptors of listeners, threads, and connections to the API server.
const OWN_DESCRIPTORS: usize = 64;

/// How many connections are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Connections with a slot of their own.
    pub(crate) regular: usize,
    /// Connections above that.
    overflow: usize,
}

impl Capacity {
    /// Lowers `max_connections` to what the file descriptors suffice for: without a free one not even a probe can be
    /// accepted. A quarter is left for connections to the upstream.
    pub(crate) fn new(max_connections: usize, descriptors: Option<u64>) -> Self {
        let descriptors =
            descriptors.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let overflow = MAX_OVERFLOW.min(descriptors / 8).max(1);
        let available = descriptors.saturating_sub(OWN_DESCRIPTORS + 2 * overflow) / 4 * 3;
        Self { regular: max_connections.min(available).max(1), overflow }
    }
}

/// Hands out the slots of all listeners.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    regular: Arc<Semaphore>,
    /// Connections without a slot of their own, oldest first.
    overflow: Mutex<VecDeque<Weak<Slot>>>,
    max_overflow: usize,
    metrics: ProxyMetrics,
}

/// The slot of one connection, released on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    regular: Arc<Semaphore>,
    permit: OnceLock<OwnedSemaphorePermit>,
    task: OnceLock<AbortHandle>,
    is_evicted: AtomicBool,
}

impl ConnectionSlots {
    /// Creates the slots.
    pub(crate) fn new(capacity: Capacity, metrics: &ProxyMetrics) -> Self {
        Self {
            regular: Arc::new(Semaphore::new(capacity.regular)),
            overflow: Mutex::default(),
            max_overflow: capacity.overflow,
            metrics: metrics.clone(),
        }
    }

    /// Returns the slot of a new connection, without waiting. When there are too many above the limit, the oldest of those
    /// is closed: a client that sends its request at once, as the kubelet does, is never the oldest.
    pub(crate) fn take(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot {
            regular: self.regular.clone(),
            permit: OnceLock::new(),
            task: OnceLock::new(),
            is_evicted: AtomicBool::new(false),
        });
        if slot.try_promote() {
            return slot;
        }
        let oldest = {
            let mut overflow = lock(&self.overflow);
            if overflow.len() >= self.max_overflow {
                overflow.retain(|slot| slot.upgrade().is_some_and(|slot| !slot.is_regular()));
            }
            let is_full = overflow.len() >= self.max_overflow;
            let oldest = if is_full { overflow.pop_front() } else { None };
            overflow.push_back(Arc::downgrade(&slot));
            oldest.and_then(|slot| slot.upgrade())
        };
        self.metrics.record_overflow("opened");
        if let Some(oldest) = oldest {
            self.metrics.record_overflow("closed");
            oldest.evict();
        }
        slot
    }
}

impl Slot {
    /// Returns whether the connection is within `--max-connections`.
    pub(crate) fn is_regular(&self) -> bool {
        self.permit.get().is_some()
    }

    /// Returns whether the connection is within `--max-connections`, or now is because another one was closed.
    pub(crate) fn try_promote(&self) -> bool {
        if !self.is_regular()
            && let Ok(permit) = self.regular.clone().try_acquire_owned()
        {
            self.set_permit(permit);
        }
        self.is_regular()
    }

    /// Waits until the connection is within `--max-connections`.
    pub(crate) async fn promote(&self) {
        if self.is_regular() {
            return;
        }
        // The semaphore is never closed.
        if let Ok(permit) = self.regular.clone().acquire_owned().await {
            self.set_permit(permit);
        }
    }

    fn set_permit(&self, permit: OwnedSemaphorePermit) {
        // Another request of the same connection may have been first; then this permit is released.
        let _ = self.permit.set(permit);
    }

    /// Sets the task that serves the connection.
    pub(crate) fn set_task(&self, task: AbortHandle) {
        if self.is_regular() {
            return;
        }
        let task = self.task.get_or_init(|| task);
        if self.is_evicted.load(Ordering::SeqCst) {
            task.abort();
        }
    }

    /// Closes the connection.
    fn evict(&self) {
        self.is_evicted.store(true, Ordering::SeqCst);
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use runtime::metrics::Metrics;

    use super::*;

    fn slots(regular: usize, overflow: usize) -> ConnectionSlots {
        ConnectionSlots::new(Capacity { regular, overflow }, &ProxyMetrics::new(&Metrics::new()))
    }

    /// The task of a connection that never ends by itself.
    fn serve(slot: &Slot) -> tokio::task::JoinHandle<()> {
        let task = tokio::spawn(std::future::pending());
        slot.set_task(task.abort_handle());
        task
    }

    #[test]
    fn capacity_leaves_descriptors_for_probes() {
        let capacity = |max, descriptors| {
            let Capacity { regular, overflow } = Capacity::new(max, descriptors);
            (regular, overflow)
        };
        assert_eq!(capacity(16_384, None), (16_384, MAX_OVERFLOW));
        assert_eq!(capacity(16_384, Some(1_048_576)), (16_384, MAX_OVERFLOW));
        assert_eq!(capacity(16_384, Some(1_024)), (528, 128));
        assert_eq!(capacity(100, Some(1_024)), (100, 128));
        assert_eq!(capacity(16_384, Some(64)), (1, 8));
    }

    #[tokio::test]
    async fn newest_connections_above_the_limit_stay_open() {
        let slots = slots(2, 3);
        let regular = [slots.take(), slots.take()];
        assert!(regular.iter().all(|slot| slot.is_regular()));
        let mut above: Vec<_> = (0..3).map(|_| slots.take()).collect();
        let mut tasks: Vec<_> = above.iter().map(|slot| serve(slot)).collect();
        assert!(above.iter().all(|slot| !slot.is_regular()));
        above.push(slots.take());
        tasks.push(serve(&above[3]));
        assert!(tasks.remove(0).await.unwrap_err().is_cancelled(), "the oldest is closed");
        assert!(tasks.iter().all(|task| !task.is_finished()));
        // A connection that was closed by its client makes room without closing another one.
        drop(above.remove(1));
        drop(slots.take());
        tokio::task::yield_now().await;
        assert!(tasks.iter().all(|task| !task.is_finished()));
    }

    #[tokio::test]
    async fn connection_that_is_evicted_before_it_is_served_is_closed() {
        let slots = slots(1, 1);
        let (_regular, first) = (slots.take(), slots.take());
        let _second = slots.take();
        assert!(serve(&first).await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn waiting_connection_gets_the_next_free_slot() {
        let slots = slots(1, 1);
        let (regular, above) = (slots.take(), slots.take());
        assert!(!above.try_promote());
        let task = serve(&above);
        let mut waiting = std::pin::pin!(above.promote());
        let is_waiting = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
        assert!(is_waiting.await);
        drop(regular);
        waiting.await;
        assert!(above.is_regular());
        let newer = slots.take();
        assert!(!newer.is_regular(), "the slot is taken again");
        drop(slots.take());
        tokio::task::yield_now().await;
        assert!(!task.is_finished(), "a promoted connection is not closed for newer ones");
    }
}
