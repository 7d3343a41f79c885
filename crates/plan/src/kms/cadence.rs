//! When a reporter looks at its plugins. Randomness is an argument, from 0 up to 1.

use std::time::Duration;

/// The longest that a reporter waits before its first round.
const LONGEST_FIRST: Duration = Duration::from_secs(5);

/// How far a period may be from the interval, in either direction.
const JITTER: f64 = 0.1;

/// How long the first round is put off: the pods of a Deployment start together, and would write together for ever.
#[must_use]
pub fn first_delay(interval: Duration, random: f64) -> Duration {
    interval.min(LONGEST_FIRST).mul_f64(random.clamp(0.0, 1.0))
}

/// Time from the begin of one round to that of the next: around the interval, so that the mean is what was asked for.
#[must_use]
pub fn period(interval: Duration, random: f64) -> Duration {
    interval.mul_f64(1.0 - JITTER + 2.0 * JITTER * random.clamp(0.0, 1.0))
}

/// How long to wait for the next round when this one took so long; nothing when it is overdue.
#[must_use]
pub fn wait(period: Duration, took: Duration) -> Duration {
    period.saturating_sub(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_around_the_interval_and_the_first_wait_is_short() {
        let interval = Duration::from_secs(30);
        assert_eq!(period(interval, 0.0), Duration::from_secs(27));
        assert_eq!(period(interval, 0.5), interval);
        assert_eq!(period(interval, 1.0), Duration::from_secs(33));
        assert_eq!(first_delay(interval, 1.0), Duration::from_secs(5));
        assert_eq!(first_delay(Duration::from_secs(2), 0.5), Duration::from_secs(1));
    }

    #[test]
    fn a_round_that_overruns_is_followed_at_once() {
        assert_eq!(wait(Duration::from_secs(3), Duration::from_secs(4)), Duration::ZERO);
        assert_eq!(wait(Duration::from_secs(3), Duration::from_secs(1)), Duration::from_secs(2));
    }
}
