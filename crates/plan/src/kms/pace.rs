//! Write rate of a reporter. All reporters of an object write to it, and the cost of a write grows with their number: about one
//! millisecond of CPU time of the API server per reporter. The server retries a write that conflicts with another, so concurrent
//! writes slow each other down. With several hundred reporters, none would succeed.
//!
//! Each reporter therefore limits itself to its share of server time: reports without changes are delayed more the more writers
//! there are and the longer a write takes. The report contains the maximum time until the next one, from which readers derive
//! staleness. If the report format has no such field, every round is written.

use std::time::Duration;

/// All writers together may use 1/SHARE of the server time.
const SHARE: u32 = 2;

/// Maximum number of intervals between two unchanged reports.
const MAX_INTERVALS: u32 = 16;

/// Maximum number of intervals until a failed write is retried.
const MAX_RETRY_INTERVALS: u32 = 8;

/// Maximum accepted `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(240);

/// Fixed part of the backoff after a failure. The rest is random, to spread writers that failed together.
const MIN_BACKOFF_FRACTION: f64 = 0.3;

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Stored.
    Stored,
    /// The server is overloaded: it returned 429, the write conflicted, or it timed out.
    Busy,
    /// Another failure, which writing less often does not fix.
    Failed,
}

/// Completed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedWrite {
    /// Outcome.
    pub outcome: WriteOutcome,
    /// Duration.
    pub took: Duration,
    /// Known number of reporters of the object.
    pub writers: usize,
    /// `Retry-After` of the server.
    pub retry_after: Option<Duration>,
}

/// Write rate of one reporter. Times are relative to its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePacer {
    interval: Duration,
    /// Whether reports have a field for the maximum time until the next one.
    has_interval_field: bool,
    /// Maximum time between two reports.
    max_gap: Duration,
    /// Moving average of the write duration.
    average: Option<Duration>,
    /// No write before this time.
    not_before: Duration,
    /// No write of unchanged reports before this time.
    unchanged_not_before: Duration,
}

impl WritePacer {
    /// Creates the pace of a reporter that has not written yet.
    #[must_use]
    pub fn new(interval: Duration, has_interval_field: bool) -> Self {
        let none = Duration::ZERO;
        Self {
            interval,
            has_interval_field,
            max_gap: interval,
            average: None,
            not_before: none,
            unchanged_not_before: none,
        }
    }

    /// Reports whether to write now.
    #[must_use]
    pub fn should_write(&self, has_changed: bool, now: Duration) -> bool {
        now >= self.not_before && (has_changed || now >= self.unchanged_not_before)
    }

    /// Returns the maximum time until the next report.
    #[must_use]
    pub fn max_interval(&self) -> Duration {
        self.max_gap
    }

    /// Reports whether the object has more writers than the server can handle. Writers should then send a resourceVersion, so that
    /// the server rejects a conflicting write instead of retrying it.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.max_gap > self.interval
    }

    /// Records a write. `random` is between 0 and 1.
    pub fn record_write(&mut self, write: &CompletedWrite, now: Duration, random: f64) {
        let CompletedWrite { outcome, took, writers, retry_after } = *write;
        if self.has_interval_field && outcome != WriteOutcome::Failed {
            self.max_gap = self.fair_interval(outcome, took, writers);
        }
        let fraction = MIN_BACKOFF_FRACTION + (1.0 - MIN_BACKOFF_FRACTION) * random.clamp(0.0, 1.0);
        let backoff = if outcome == WriteOutcome::Busy && self.is_overloaded() {
            self.max_gap.min(self.interval.saturating_mul(MAX_RETRY_INTERVALS)).mul_f64(fraction)
        } else {
            Duration::ZERO
        };
        let retry_after = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        self.not_before = now.saturating_add(backoff.max(retry_after));
        self.unchanged_not_before = match outcome {
            // The next round starts about one interval after this one; it is written if it is less than half an interval early.
            WriteOutcome::Stored if self.is_overloaded() => {
                now.saturating_add(self.max_gap.saturating_sub(took)).saturating_sub(self.interval / 2)
            }
            _ => self.not_before,
        };
    }

    fn fair_interval(&mut self, outcome: WriteOutcome, took: Duration, writers: usize) -> Duration {
        let average = match (self.average, outcome) {
            (Some(before), WriteOutcome::Stored) => (before + took) / 2,
            // A failed write may have been cut short.
            (Some(before), _) => before.max(took),
            (None, _) => took,
        };
        self.average = Some(average);
        let writers = u32::try_from(writers).unwrap_or(u32::MAX);
        let fair = average.saturating_mul(writers).saturating_mul(SHARE);
        // Speed up gradually: a server that is fast for a moment would be overloaded again.
        fair.max(self.max_gap / 2).clamp(self.interval, self.interval.saturating_mul(MAX_INTERVALS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    fn stored(writers: usize, milliseconds: u64) -> CompletedWrite {
        CompletedWrite {
            outcome: WriteOutcome::Stored,
            took: Duration::from_millis(milliseconds),
            writers,
            retry_after: None,
        }
    }

    fn busy(writers: usize) -> CompletedWrite {
        CompletedWrite {
            outcome: WriteOutcome::Busy,
            took: Duration::from_secs(10),
            writers,
            retry_after: None,
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn idle_server_gets_every_round() {
        for (writers, milliseconds) in [(1, 14_999), (3, 4_900), (50, 250), (500, 29)] {
            let mut pace = WritePacer::new(INTERVAL, true);
            pace.record_write(&stored(writers, milliseconds), seconds(5), 0.5);
            assert_eq!(pace.max_interval(), INTERVAL, "{writers}");
            assert!(pace.should_write(false, seconds(5)) && !pace.is_overloaded());
        }
    }

    #[test]
    fn unchanged_report_waits_and_change_does_not() {
        let mut pace = WritePacer::new(INTERVAL, true);
        assert!(pace.should_write(true, Duration::ZERO));
        // 500 writers of 300 ms each use 150 s of server time.
        pace.record_write(&stored(500, 300), seconds(10), 0.5);
        assert_eq!(pace.max_interval(), seconds(300));
        assert!(pace.is_overloaded());
        assert!(!pace.should_write(false, seconds(10 + 280)));
        assert!(pace.should_write(false, seconds(10 + 285)), "the nearest round");
        assert!(pace.should_write(true, seconds(10)), "a change is written immediately");
    }

    #[test]
    fn promised_interval_is_bounded_and_recovers() {
        let mut pace = WritePacer::new(INTERVAL, true);
        pace.record_write(&busy(100_000), Duration::ZERO, 0.0);
        assert_eq!(pace.max_interval(), seconds(480), "upper bound");
        // Halves until every round is written again.
        let promises: Vec<u64> = (0..6)
            .map(|_| {
                pace.record_write(&stored(3, 0), Duration::ZERO, 0.0);
                pace.max_interval().as_secs()
            })
            .collect();
        assert_eq!(promises, [240, 120, 60, 30, 30, 30]);
    }

    #[test]
    fn failed_writers_retry_at_different_times() {
        for (random, wait) in [(0.0, 72), (1.0, 240)] {
            let mut pace = WritePacer::new(INTERVAL, true);
            pace.record_write(&busy(500), seconds(100), random);
            assert!(!pace.should_write(true, seconds(100 + wait - 1)), "{random}");
            assert!(pace.should_write(true, seconds(100 + wait)), "{random}");
        }
    }

    #[test]
    fn non_overload_failure_is_retried_next_round() {
        let mut pace = WritePacer::new(INTERVAL, true);
        pace.record_write(&CompletedWrite { outcome: WriteOutcome::Failed, ..busy(500) }, seconds(10), 1.0);
        assert!(pace.should_write(false, seconds(10)));
        // A few writers do not overload a server.
        pace.record_write(&busy(1), seconds(10), 1.0);
        assert!(pace.should_write(false, seconds(10)));
    }

    #[test]
    fn without_interval_field_every_round_is_written() {
        let mut pace = WritePacer::new(INTERVAL, false);
        pace.record_write(&busy(200), seconds(10), 1.0);
        pace.record_write(&stored(200, 9_000), seconds(20), 1.0);
        assert!(pace.should_write(false, seconds(20)));
        assert_eq!(pace.max_interval(), INTERVAL);
    }

    #[test]
    fn retry_after_is_honored_up_to_a_limit() {
        for has_interval_field in [false, true] {
            let mut pace = WritePacer::new(INTERVAL, has_interval_field);
            let throttled =
                |after| CompletedWrite { retry_after: Some(seconds(after)), took: Duration::ZERO, ..busy(3) };
            pace.record_write(&throttled(7), seconds(10), 0.5);
            assert!(!pace.should_write(true, seconds(16)) && pace.should_write(false, seconds(17)));
            pace.record_write(&throttled(1_000_000), seconds(10), 0.5);
            assert!(pace.should_write(true, seconds(250)), "bounded");
        }
    }
}
