//! Whether something that must go on still does. Liveness is asked of these, never of a handler that always says yes: a
//! process whose watches hang answers such a handler happily for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Who fails tries again within this time, also when a try is one that has to run into its deadline. Who is silent for
/// longer after a failure is in order: a watch that was resumed says nothing until something happens.
const CALM: Duration = Duration::from_secs(60);

/// Something that must go on.
#[derive(Clone, Debug)]
pub struct Progress {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    patience: Duration,
    trouble: Mutex<Option<Trouble>>,
}

/// Failures without anything good between them.
#[derive(Clone, Debug)]
struct Trouble {
    since: Instant,
    last: Instant,
    failures: u32,
    why: String,
}

impl Progress {
    /// Something that must not fail for longer than `patience`.
    #[must_use]
    pub fn new(name: impl Into<String>, patience: Duration) -> Self {
        Self { inner: Arc::new(Inner { name: name.into(), patience, trouble: Mutex::new(None) }) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// It is in order.
    pub fn made(&self) {
        *self.lock() = None;
    }

    /// It failed, for this reason. Returns how often in a row by now.
    pub fn failed(&self, why: impl Into<String>) -> u32 {
        self.failed_at(why.into(), Instant::now())
    }

    /// Why it counts as dead: it has been failing for too long.
    #[must_use]
    pub fn death(&self) -> Option<String> {
        self.death_at(Instant::now())
    }

    /// For how long it has been failing and why, for people; nothing when it is in order.
    #[must_use]
    pub fn trouble(&self) -> Option<(Duration, String)> {
        let now = Instant::now();
        self.present(now).map(|trouble| (now.saturating_duration_since(trouble.since), trouble.why))
    }

    fn failed_at(&self, why: String, now: Instant) -> u32 {
        let before = self.present(now);
        let since = before.as_ref().map_or(now, |trouble| trouble.since);
        let failures = before.map_or(0, |trouble| trouble.failures).saturating_add(1);
        *self.lock() = Some(Trouble { since, last: now, failures, why });
        failures
    }

    fn death_at(&self, now: Instant) -> Option<String> {
        let Trouble { since, why, .. } = self.present(now)?;
        let failing = now.saturating_duration_since(since);
        (failing > self.inner.patience)
            .then(|| format!("{}: failing for {} s: {why}", self.inner.name, failing.as_secs()))
    }

    fn present(&self, now: Instant) -> Option<Trouble> {
        let trouble = self.lock().clone();
        trouble.filter(|trouble| now.saturating_duration_since(trouble.last) <= CALM)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Trouble>> {
        self.inner.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_for_long_is_death_and_resting_is_not() {
        let progress = Progress::new("watch nodes", Duration::from_secs(60));
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(progress.death_at(after(1_000_000)), None, "it rests");
        for (number, seconds) in [(1, 0), (2, 30), (3, 60)] {
            assert_eq!(progress.failed_at("connection refused".into(), after(seconds)), number);
            assert_eq!(progress.death_at(after(seconds)), None, "not yet, after {seconds} s");
        }
        progress.failed_at("connection refused".into(), after(90));
        let death = progress.death_at(after(91));
        assert_eq!(death.as_deref(), Some("watch nodes: failing for 91 s: connection refused"));
        progress.made();
        assert_eq!(progress.death_at(after(91)), None);
    }

    #[test]
    fn who_fails_once_and_is_silent_from_then_on_is_well() {
        let progress = Progress::new("watch nodes", Duration::from_secs(60));
        let begin = Instant::now();
        progress.failed_at("reset".into(), begin);
        let later = begin + Duration::from_secs(3600);
        assert_eq!(progress.death_at(later), None, "it was resumed, and nothing has happened since");
        assert_eq!(
            progress.failed_at("reset".into(), later),
            1,
            "a new failure, not one more of the old ones"
        );
    }
}
