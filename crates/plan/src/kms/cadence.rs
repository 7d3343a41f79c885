//! Probe schedule of a reporter. Random values are arguments between 0 and 1.

use std::time::Duration;

/// Maximum delay before the first probe.
const MAX_FIRST_DELAY: Duration = Duration::from_secs(5);

/// Relative jitter of a period, in both directions.
const JITTER: f64 = 0.1;

/// Returns the delay of the first round. Pods of a Deployment start together and would otherwise keep writing together.
#[must_use]
pub fn first_delay(interval: Duration, random: f64) -> Duration {
    interval.min(MAX_FIRST_DELAY).mul_f64(random.clamp(0.0, 1.0))
}

/// Returns the time between the starts of two rounds. Its mean is the interval.
#[must_use]
pub fn period(interval: Duration, random: f64) -> Duration {
    interval.mul_f64(1.0 - JITTER + 2.0 * JITTER * random.clamp(0.0, 1.0))
}

/// Returns the remaining time until the next round, zero if it is overdue.
#[must_use]
pub fn wait(period: Duration, took: Duration) -> Duration {
    period.saturating_sub(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_is_jittered_and_first_delay_is_bounded() {
        let interval = Duration::from_secs(30);
        assert_eq!(period(interval, 0.0), Duration::from_secs(27));
        assert_eq!(period(interval, 0.5), interval);
        assert_eq!(period(interval, 1.0), Duration::from_secs(33));
        assert_eq!(first_delay(interval, 1.0), Duration::from_secs(5));
        assert_eq!(first_delay(Duration::from_secs(2), 0.5), Duration::from_secs(1));
    }

    #[test]
    fn overdue_round_starts_immediately() {
        assert_eq!(wait(Duration::from_secs(3), Duration::from_secs(4)), Duration::ZERO);
        assert_eq!(wait(Duration::from_secs(3), Duration::from_secs(1)), Duration::from_secs(2));
    }
}
