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
pub enum End {
    /// Stored.
    Stored,
    /// The server is overloaded: it returned 429, the write conflicted, or it timed out.
    Busy,
    /// Another failure, which writing less often does not fix.
    Failed,
}

/// Completed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Outcome.
    pub end: End,
    /// Duration.
    pub took: Duration,
    /// Known number of reporters of the object.
    pub writers: usize,
    /// `Retry-After` of the server.
    pub after: Option<Duration>,
}

/// Write rate of one reporter. Times are relative to its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
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

impl Pace {
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
    pub fn writes(&self, has_changed: bool, now: Duration) -> bool {
        now >= self.not_before && (has_changed || now >= self.unchanged_not_before)
    }

    /// Returns the maximum time until the next report.
    #[must_use]
    pub fn promise(&self) -> Duration {
        self.max_gap
    }

    /// Reports whether the object has more writers than the server can handle. Writers should then send a resourceVersion, so that
    /// the server rejects a conflicting write instead of retrying it.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.max_gap > self.interval
    }

    /// Records a write. `random` is between 0 and 1.
    pub fn wrote(&mut self, write: &Write, now: Duration, random: f64) {
        let Write { end, took, writers, after } = *write;
        if self.has_interval_field && end != End::Failed {
            self.max_gap = self.fair_interval(end, took, writers);
        }
        let part = MIN_BACKOFF_FRACTION + (1.0 - MIN_BACKOFF_FRACTION) * random.clamp(0.0, 1.0);
        let backoff = if end == End::Busy && self.is_crowded() {
            self.max_gap.min(self.interval.saturating_mul(MAX_RETRY_INTERVALS)).mul_f64(part)
        } else {
            Duration::ZERO
        };
        let retry_after = after.unwrap_or_default().min(MAX_RETRY_AFTER);
        self.not_before = now.saturating_add(backoff.max(retry_after));
        self.unchanged_not_before = match end {
            // The next round starts about one interval after this one; it is written if it is less than half an interval early.
            End::Stored if self.is_crowded() => {
                now.saturating_add(self.max_gap.saturating_sub(took)).saturating_sub(self.interval / 2)
            }
            _ => self.not_before,
        };
    }

    fn fair_interval(&mut self, end: End, took: Duration, writers: usize) -> Duration {
        let average = match (self.average, end) {
            (Some(before), End::Stored) => (before + took) / 2,
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

    fn stored(writers: usize, milliseconds: u64) -> Write {
        Write { end: End::Stored, took: Duration::from_millis(milliseconds), writers, after: None }
    }

    fn busy(writers: usize) -> Write {
        Write { end: End::Busy, took: Duration::from_secs(10), writers, after: None }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn idle_server_gets_every_round() {
        for (writers, milliseconds) in [(1, 14_999), (3, 4_900), (50, 250), (500, 29)] {
            let mut pace = Pace::new(INTERVAL, true);
            pace.wrote(&stored(writers, milliseconds), seconds(5), 0.5);
            assert_eq!(pace.promise(), INTERVAL, "{writers}");
            assert!(pace.writes(false, seconds(5)) && !pace.is_crowded());
        }
    }

    #[test]
    fn unchanged_report_waits_and_change_does_not() {
        let mut pace = Pace::new(INTERVAL, true);
        assert!(pace.writes(true, Duration::ZERO));
        // 500 writers of 300 ms each use 150 s of server time.
        pace.wrote(&stored(500, 300), seconds(10), 0.5);
        assert_eq!(pace.promise(), seconds(300));
        assert!(pace.is_crowded());
        assert!(!pace.writes(false, seconds(10 + 280)));
        assert!(pace.writes(false, seconds(10 + 285)), "the nearest round");
        assert!(pace.writes(true, seconds(10)), "a change is written immediately");
    }

    #[test]
    fn promised_interval_is_bounded_and_recovers() {
        let mut pace = Pace::new(INTERVAL, true);
        pace.wrote(&busy(100_000), Duration::ZERO, 0.0);
        assert_eq!(pace.promise(), seconds(480), "upper bound");
        // Halves until every round is written again.
        let promises: Vec<u64> = (0..6)
            .map(|_| {
                pace.wrote(&stored(3, 0), Duration::ZERO, 0.0);
                pace.promise().as_secs()
            })
            .collect();
        assert_eq!(promises, [240, 120, 60, 30, 30, 30]);
    }

    #[test]
    fn failed_writers_retry_at_different_times() {
        for (random, wait) in [(0.0, 72), (1.0, 240)] {
            let mut pace = Pace::new(INTERVAL, true);
            pace.wrote(&busy(500), seconds(100), random);
            assert!(!pace.writes(true, seconds(100 + wait - 1)), "{random}");
            assert!(pace.writes(true, seconds(100 + wait)), "{random}");
        }
    }

    #[test]
    fn non_overload_failure_is_retried_next_round() {
        let mut pace = Pace::new(INTERVAL, true);
        pace.wrote(&Write { end: End::Failed, ..busy(500) }, seconds(10), 1.0);
        assert!(pace.writes(false, seconds(10)));
        // A few writers do not overload a server.
        pace.wrote(&busy(1), seconds(10), 1.0);
        assert!(pace.writes(false, seconds(10)));
    }

    #[test]
    fn without_interval_field_every_round_is_written() {
        let mut pace = Pace::new(INTERVAL, false);
        pace.wrote(&busy(200), seconds(10), 1.0);
        pace.wrote(&stored(200, 9_000), seconds(20), 1.0);
        assert!(pace.writes(false, seconds(20)));
        assert_eq!(pace.promise(), INTERVAL);
    }

    #[test]
    fn retry_after_is_honored_up_to_a_limit() {
        for has_interval_field in [false, true] {
            let mut pace = Pace::new(INTERVAL, has_interval_field);
            let throttled = |after| Write { after: Some(seconds(after)), took: Duration::ZERO, ..busy(3) };
            pace.wrote(&throttled(7), seconds(10), 0.5);
            assert!(!pace.writes(true, seconds(16)) && pace.writes(false, seconds(17)));
            pace.wrote(&throttled(1_000_000), seconds(10), 0.5);
            assert!(pace.writes(true, seconds(250)), "bounded");
        }
    }
}
