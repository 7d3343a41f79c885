//! Work by key: each key at most once, never two of the same at the same time, the urgent first, those that failed after
//! a wait that grows.

mod backoff;
mod line;

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub use self::backoff::Backoff;
pub use self::line::{Ended, Priority};
use self::line::{Line, Turn};
use crate::metrics::QueueMetrics;

/// A queue of keys.
#[derive(Debug)]
pub struct Queue<K> {
    line: Mutex<Line<K>>,
    changed: Notify,
    metrics: QueueMetrics,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// A queue that lets so many keys be worked on at once.
    #[must_use]
    pub fn new(concurrency: usize, backoff: Backoff, metrics: QueueMetrics) -> Arc<Self> {
        Arc::new(Self { line: Mutex::new(Line::new(concurrency, backoff)), changed: Notify::new(), metrics })
    }

    /// Something happened to a key.
    pub fn add(&self, key: K, priority: Priority) {
        self.metrics.adds.inc();
        self.with(|line| line.add(key, priority, Instant::now()));
        self.changed.notify_one();
    }

    /// A key is to be looked at after a time at the latest.
    pub fn add_after(&self, key: K, after: Duration) {
        self.with(|line| line.add_at(key, Instant::now() + after));
        self.changed.notify_one();
    }

    /// Waits for the next key to work on. May be dropped while it waits; nothing is lost.
    pub async fn next(self: &Arc<Self>) -> Work<K> {
        loop {
            let (turn, due) = self.with(|line| (line.take(Instant::now()), line.next_due()));
            if let Some(Turn { key, waited, failures }) = turn {
                self.metrics.waited.observe(waited.as_secs_f64());
                return Work { queue: self.clone(), key: Some(key), since: Instant::now(), failures };
            }
            let sleep = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep => {}
            }
        }
    }

    /// How many keys may be worked on at once.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.with(|line| line.concurrency())
    }

    /// What is in it, for people.
    #[must_use]
    pub fn state(&self) -> State<K> {
        self.with(|line| State { waiting: line.depth(), running: line.running(), failing: line.failing() })
    }

    fn finish(&self, key: &K, ended: Ended, took: Duration) {
        self.metrics.worked.observe(took.as_secs_f64());
        if ended == Ended::Failed {
            self.metrics.retries.inc();
        }
        self.with(|line| line.finish(key, ended, Instant::now(), fastrand::f64()));
        self.changed.notify_one();
    }

    fn with<T>(&self, access: impl FnOnce(&mut Line<K>) -> T) -> T {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let result = access(&mut line);
        self.metrics.depth.set(i64::try_from(line.depth()).unwrap_or(i64::MAX));
        result
    }
}

/// What is in a queue.
#[derive(Clone, Debug)]
pub struct State<K> {
    /// Keys that wait for their turn.
    pub waiting: usize,
    /// Keys that are being worked on.
    pub running: usize,
    /// Keys that failed the last time, with how often in a row.
    pub failing: Vec<(K, u32)>,
}

/// A key that is being worked on. Dropped without an end, it has failed: work that panics or is cut off must be tried
/// again, and its key must not stay locked.
#[derive(Debug)]
#[must_use]
pub struct Work<K: Clone + Eq + Hash> {
    queue: Arc<Queue<K>>,
    key: Option<K>,
    since: Instant,
    failures: u32,
}

impl<K: Clone + Eq + Hash> Work<K> {
    /// The key; none once the work has ended.
    #[must_use]
    pub fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// How often it has failed in a row until now.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Tells how it ended.
    pub fn finish(mut self, ended: Ended) {
        if let Some(key) = self.key.take() {
            self.queue.finish(&key, ended, self.since.elapsed());
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for Work<K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.queue.finish(&key, Ended::Failed, self.since.elapsed());
        }
    }
}
