//! How long a key that failed waits before it is tried again.

use std::time::Duration;

/// Exponential, with a bound: a key that cannot succeed must not load the API server, and one whose cause was mended must
/// not wait for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// The most it grows to.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), most: Duration::from_secs(600) }
    }
}

impl Backoff {
    /// The wait after so many failures in a row (at least one). `jitter` is between 0 and 1 and spreads the wait over
    /// its upper half, so that keys that failed together do not come back together.
    #[must_use]
    pub fn after(&self, failures: u32, jitter: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.most);
        full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_bound_and_is_spread_over_the_upper_half() {
        let backoff = Backoff::default();
        let seconds = |failures, jitter| backoff.after(failures, jitter).as_secs_f64();
        assert_eq!(
            [1, 2, 3, 10, 11, 4_000_000_000].map(|failures| seconds(failures, 1.0)),
            [1.0, 2.0, 4.0, 512.0, 600.0, 600.0]
        );
        assert_eq!(seconds(3, 0.0), 2.0);
        assert_eq!(seconds(0, 1.0), 1.0, "a wait is never zero");
    }
}
