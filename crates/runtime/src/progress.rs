//! Whether something that must go on still does. Liveness is asked of these, never of a handler that always says yes: a
//! process whose watches hang answers such a handler happily for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Something that must go on.
#[derive(Clone, Debug)]
pub struct Progress {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    silence: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When it was last in order, or began.
    last: Instant,
    /// What went wrong since then.
    failure: Option<String>,
}

impl Progress {
    /// Something that must not be out of order for longer than `silence`.
    #[must_use]
    pub fn new(name: impl Into<String>, silence: Duration) -> Self {
        let state = Mutex::new(State { last: Instant::now(), failure: None });
        Self { inner: Arc::new(Inner { name: name.into(), silence, state }) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// It is in order.
    pub fn made(&self) {
        self.with(|state| *state = State { last: Instant::now(), failure: None });
    }

    /// It is out of order, for this reason. Says nothing about since when.
    pub fn failed(&self, why: String) {
        self.with(|state| state.failure = Some(why));
    }

    /// Why it counts as dead: it has been out of order for too long. Silence without a failure is rest.
    #[must_use]
    pub fn death(&self) -> Option<String> {
        self.death_at(Instant::now())
    }

    fn death_at(&self, now: Instant) -> Option<String> {
        self.with(|state| {
            let failure = state.failure.as_ref()?;
            let out_of_order = now.saturating_duration_since(state.last);
            (out_of_order > self.inner.silence).then(|| {
                format!("{}: out of order for {} s: {failure}", self.inner.name, out_of_order.as_secs())
            })
        })
    }

    /// Since when it is out of order and why, for people; nothing when it is in order.
    #[must_use]
    pub fn trouble(&self) -> Option<(Duration, String)> {
        self.with(|state| state.failure.clone().map(|failure| (state.last.elapsed(), failure)))
    }

    fn with<T>(&self, access: impl FnOnce(&mut State) -> T) -> T {
        access(&mut self.inner.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_for_long_is_death_and_resting_is_not() {
        let progress = Progress::new("watch nodes", Duration::from_secs(60));
        let later = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert_eq!(progress.death_at(later(1_000_000)), None, "it rests");
        progress.failed("connection refused".into());
        assert_eq!(progress.death_at(later(59)), None, "not yet");
        let death = progress.death_at(later(62)).unwrap_or_default();
        assert!(
            death.starts_with("watch nodes: out of order for 6") && death.ends_with("connection refused"),
            "{death}"
        );
        progress.made();
        assert_eq!(progress.death_at(later(62)), None);
    }
}
