//! A work queue of deduplicated keys: a key is never processed twice at once, high-priority keys come first, and failed keys
//! are retried with backoff.

mod backoff;
mod schedule;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Notify;

pub use self::backoff::Backoff;
use self::schedule::{Due, Schedule};
pub use self::schedule::{Priority, WorkResult};
use crate::metrics::QueueMetrics;
use crate::sync::lock;

/// A work queue.
#[derive(Debug)]
pub struct Queue<K> {
    schedule: Mutex<Schedule<K>>,
    changed: Notify,
    metrics: QueueMetrics,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Creates a queue that hands out at most `concurrency` keys at a time.
    #[must_use]
    pub fn new(concurrency: usize, backoff: Backoff, metrics: QueueMetrics) -> Arc<Self> {
        let schedule = Mutex::new(Schedule::new(concurrency, backoff));
        Arc::new(Self { schedule, changed: Notify::new(), metrics })
    }

    /// Queues a key, which also ends its backoff.
    pub fn add(&self, key: K, priority: Priority) {
        self.metrics.adds.inc();
        self.with(|schedule| schedule.add(key, priority, Instant::now()));
        self.changed.notify_one();
    }

    /// Queues a key after a delay, unless it is due earlier.
    pub fn add_after(&self, key: K, after: Duration) {
        self.with(|schedule| schedule.add_at(key, Instant::now() + after));
        self.changed.notify_one();
    }

    /// Waits for the next key. Cancel safe.
    pub async fn next(self: &Arc<Self>) -> Work<K> {
        loop {
            let (due, wake_at) = self.with(|schedule| (schedule.take(Instant::now()), schedule.next_due()));
            if let Some(Due { key, waited, failures }) = due {
                self.metrics.waited.observe(waited.as_secs_f64());
                return Work { queue: self.clone(), key: Some(key), since: Instant::now(), failures };
            }
            let sleep = async {
                match wake_at {
                    Some(wake_at) => tokio::time::sleep_until(wake_at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep => {}
            }
        }
    }

    /// Returns the maximum number of keys processed at a time.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.with(|schedule| schedule.concurrency())
    }

    /// Returns a snapshot for debugging.
    #[must_use]
    pub fn state(&self) -> State<K> {
        self.with(|schedule| State {
            waiting: schedule.depth(),
            running: schedule.running(),
            failing: schedule.failing(),
        })
    }

    fn finish(&self, key: &K, result: WorkResult, took: Duration) {
        self.metrics.worked.observe(took.as_secs_f64());
        if result == WorkResult::Failed {
            self.metrics.retries.inc();
        }
        self.with(|schedule| schedule.finish(key, result, Instant::now(), fastrand::f64()));
        self.changed.notify_one();
    }

    fn with<T>(&self, access: impl FnOnce(&mut Schedule<K>) -> T) -> T {
        let mut schedule = lock(&self.schedule);
        let result = access(&mut schedule);
        self.metrics.depth.set(i64::try_from(schedule.depth()).unwrap_or(i64::MAX));
        result
    }
}

/// A snapshot of a queue.
#[derive(Clone, Debug)]
pub struct State<K> {
    /// Number of keys that are ready to be processed.
    pub waiting: usize,
    /// Number of keys being processed.
    pub running: usize,
    /// Keys whose last attempt failed, with their consecutive failures.
    pub failing: Vec<(K, u32)>,
}

impl<K: fmt::Display> State<K> {
    /// Returns the snapshot as JSON for `/debug/state.json`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let failing: BTreeMap<String, u32> =
            self.failing.iter().map(|(key, failures)| (key.to_string(), *failures)).collect();
        json!({ "waiting": self.waiting, "running": self.running, "failing": failing })
    }
}

/// A key being processed. Dropping it without [`finish`](Self::finish) counts as a failure, so that a panicked or aborted
/// reconcile is retried and does not block its key.
#[derive(Debug)]
#[must_use]
pub struct Work<K: Clone + Eq + Hash> {
    queue: Arc<Queue<K>>,
    key: Option<K>,
    since: Instant,
    failures: u32,
}

impl<K: Clone + Eq + Hash> Work<K> {
    /// Returns the key; `None` only after [`finish`](Self::finish).
    #[must_use]
    pub fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// Returns the number of consecutive failures before this attempt.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Reports the result and releases the key.
    pub fn finish(mut self, result: WorkResult) {
        if let Some(key) = self.key.take() {
            self.queue.finish(&key, result, self.since.elapsed());
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for Work<K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.queue.finish(&key, WorkResult::Failed, self.since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn dropped_work_counts_as_failed() {
        let queue = Queue::new(1, Backoff::default(), Metrics::new().queue("test"));
        queue.add("a", Priority::High);
        drop(queue.next().await);
        let state = queue.state().to_json();
        assert_eq!(state, json!({ "waiting": 0, "running": 0, "failing": { "a": 1 } }));
    }
}
