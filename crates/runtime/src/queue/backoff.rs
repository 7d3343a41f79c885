//! Exponential backoff.

use std::time::Duration;

/// Bounded exponential backoff: a key that keeps failing must not load the API server, and a key whose cause was fixed must not
/// wait forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub initial: Duration,
    /// Maximum delay.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_secs(1), max: Duration::from_secs(600) }
    }
}

impl Backoff {
    /// Returns the delay after this many consecutive failures (at least one). `jitter`, between 0 and 1, spreads it over the
    /// upper half, so that keys that failed together are not retried together.
    #[must_use]
    pub fn delay(&self, failures: u32, jitter: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.initial.saturating_mul(1 << doublings).min(self.max);
        full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_the_maximum_with_jitter() {
        let backoff = Backoff::default();
        let seconds = |failures, jitter| backoff.delay(failures, jitter).as_secs_f64();
        assert_eq!(
            [1, 2, 3, 10, 11, 4_000_000_000].map(|failures| seconds(failures, 1.0)),
            [1.0, 2.0, 4.0, 512.0, 600.0, 600.0]
        );
        assert_eq!(seconds(3, 0.0), 2.0);
        assert_eq!(seconds(0, 1.0), 1.0, "never zero");
    }
}
