//! Liveness by progress. `/livez` reports what background tasks achieve: a handler that always answers 200 would also do so in a
//! process whose watches hang.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// A failing task retries within this time, even if an attempt runs into its timeout. No report for longer than that means that
/// the task recovered: a resumed watch reports nothing until the next event.
const FAILURE_TTL: Duration = Duration::from_secs(60);

/// The liveness of a background task.
#[derive(Clone, Debug)]
pub struct Liveness {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    tolerance: Duration,
    failing: Mutex<Option<Failing>>,
}

/// A series of failures without a success in between.
#[derive(Clone, Debug)]
struct Failing {
    since: Instant,
    last: Instant,
    count: u32,
    error: String,
}

impl Liveness {
    /// Creates the liveness of a task that must not fail for longer than `tolerance`.
    #[must_use]
    pub fn new(name: impl Into<String>, tolerance: Duration) -> Self {
        Self { inner: Arc::new(Inner { name: name.into(), tolerance, failing: Mutex::new(None) }) }
    }

    /// Returns the name of the task.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Records a success, which ends a series of failures.
    pub fn record_success(&self) {
        *self.failing() = None;
    }

    /// Records a failure. Returns the number of consecutive failures.
    pub fn record_failure(&self, error: impl Into<String>) -> u32 {
        self.record_failure_at(error.into(), Instant::now())
    }

    /// Returns the reason to restart the process: the task has been failing for longer than tolerated.
    #[must_use]
    pub fn expired(&self) -> Option<String> {
        self.expired_at(Instant::now())
    }

    /// Returns how long the task has been failing, and the last error. `None` if it is healthy.
    #[must_use]
    pub fn current_failure(&self) -> Option<(Duration, String)> {
        let now = Instant::now();
        self.current(now).map(|failing| (now.saturating_duration_since(failing.since), failing.error))
    }

    fn record_failure_at(&self, error: String, now: Instant) -> u32 {
        let previous = self.current(now);
        let since = previous.as_ref().map_or(now, |failing| failing.since);
        let count = previous.map_or(0, |failing| failing.count).saturating_add(1);
        *self.failing() = Some(Failing { since, last: now, count, error });
        count
    }

    fn expired_at(&self, now: Instant) -> Option<String> {
        let Failing { since, error, .. } = self.current(now)?;
        let duration = now.saturating_duration_since(since);
        (duration > self.inner.tolerance)
            .then(|| format!("{}: failing for {} s: {error}", self.inner.name, duration.as_secs()))
    }

    fn current(&self, now: Instant) -> Option<Failing> {
        let failing = self.failing().clone();
        failing.filter(|failing| now.saturating_duration_since(failing.last) <= FAILURE_TTL)
    }

    fn failing(&self) -> MutexGuard<'_, Option<Failing>> {
        lock(&self.inner.failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_expires_after_failing_for_too_long_but_not_when_idle() {
        let progress = Liveness::new("watch nodes", Duration::from_secs(60));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(progress.expired_at(after(1_000_000)), None, "idle");
        for (number, seconds) in [(1, 0), (2, 30), (3, 60)] {
            assert_eq!(progress.record_failure_at("connection refused".into(), after(seconds)), number);
            assert_eq!(progress.expired_at(after(seconds)), None, "tolerated for {seconds} s");
        }
        progress.record_failure_at("connection refused".into(), after(90));
        let expired = progress.expired_at(after(91));
        assert_eq!(expired.as_deref(), Some("watch nodes: failing for 91 s: connection refused"));
        progress.record_success();
        assert_eq!(progress.expired_at(after(91)), None);
    }

    #[test]
    fn single_failure_followed_by_silence_is_healthy() {
        let progress = Liveness::new("watch nodes", Duration::from_secs(60));
        let start = Instant::now();
        progress.record_failure_at("reset".into(), start);
        let later = start + Duration::from_secs(3600);
        assert_eq!(progress.expired_at(later), None, "the watch was resumed and has seen no event since");
        assert_eq!(progress.record_failure_at("reset".into(), later), 1, "a new series of failures");
    }
}
