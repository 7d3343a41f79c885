//! When a round of a reporter is written. All reporters of an object write it, and each write costs an API server time that grows with
//! their number: about a millisecond of a processor for each of them. A write that finds that another was faster is done anew by
//! the server, so that writes under way together cost each other. Beyond some hundred reporters none would be stored any more.
//!
//! So a reporter takes no more than its share of the server's time: what says nothing new waits for longer the more writers there are
//! and the longer a write takes. How long at most until the next one is told in the report itself, by which readers judge
//! whether it is fresh. Where reports have no place for that, every round is written.

use std::time::Duration;

/// All writers together may keep the server busy for one part of so many of the time.
const SHARE: u32 = 2;

/// Most intervals between two reports that say nothing new.
const LONGEST: u32 = 16;

/// Most intervals until what could not be written is tried again.
const LONGEST_AGAIN: u32 = 8;

/// The longest that a server may ask not to be asked.
const LONGEST_ASKED: Duration = Duration::from_secs(240);

/// The least part of a wait after a failure; the rest is chance, which keeps those apart that failed together.
const LEAST_PART: f64 = 0.3;

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is stored.
    Stored,
    /// The server had too much to do: it said so, another write was faster, or no answer came in time.
    Busy,
    /// Something else was wrong. Whatever it was, it is not cured by asking less often.
    Failed,
}

/// A write that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// How.
    pub end: End,
    /// How long it took.
    pub took: Duration,
    /// How many reporters write the object, as far as it is known.
    pub writers: usize,
    /// How long the server asks not to be asked again.
    pub after: Option<Duration>,
}

/// When rounds of one reporter are written. Times are those since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    interval: Duration,
    /// Whether reports have a place for how long it may take until the next.
    told: bool,
    /// The longest time between two reports.
    between: Duration,
    /// How long writes take, the last ones more than those before.
    takes: Option<Duration>,
    /// Nothing is written before.
    not_before: Duration,
    /// What says nothing new is not written before.
    old_not_before: Duration,
}

impl Pace {
    /// That of a reporter that has not written yet.
    #[must_use]
    pub fn new(interval: Duration, told: bool) -> Self {
        let none = Duration::ZERO;
        Self { interval, told, between: interval, takes: None, not_before: none, old_not_before: none }
    }

    /// Whether a round is written now.
    #[must_use]
    pub fn writes(&self, is_news: bool, now: Duration) -> bool {
        now >= self.not_before && (is_news || now >= self.old_not_before)
    }

    /// How long at most it takes until the report after this one.
    #[must_use]
    pub fn promise(&self) -> Duration {
        self.between
    }

    /// Whether the object has more writers than its server has time for. Each of them should then ask that its write be refused if
    /// another was faster: the server does it anew otherwise, again and again, while everybody waits.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.between > self.interval
    }

    /// A write has ended. Randomness is from 0 up to 1.
    pub fn wrote(&mut self, write: &Write, now: Duration, random: f64) {
        let Write { end, took, writers, after } = *write;
        if self.told && end != End::Failed {
            self.between = self.fitting(end, took, writers);
        }
        let part = LEAST_PART + (1.0 - LEAST_PART) * random.clamp(0.0, 1.0);
        let again = if end == End::Busy && self.is_crowded() {
            self.between.min(self.interval.saturating_mul(LONGEST_AGAIN)).mul_f64(part)
        } else {
            Duration::ZERO
        };
        let asked = after.unwrap_or_default().min(LONGEST_ASKED);
        self.not_before = now.saturating_add(again.max(asked));
        self.old_not_before = match end {
            // The next round comes about an interval after this one began; it counts when it is less than half of one early.
            End::Stored if self.is_crowded() => {
                now.saturating_add(self.between.saturating_sub(took)).saturating_sub(self.interval / 2)
            }
            _ => self.not_before,
        };
    }

    fn fitting(&mut self, end: End, took: Duration, writers: usize) -> Duration {
        let takes = match (self.takes, end) {
            (Some(before), End::Stored) => (before + took) / 2,
            // One that failed might have taken longer.
            (Some(before), _) => before.max(took),
            (None, _) => took,
        };
        self.takes = Some(takes);
        let writers = u32::try_from(writers).unwrap_or(u32::MAX);
        let fair = takes.saturating_mul(writers).saturating_mul(SHARE);
        // Not all at once: a server that was quick for a moment would be as slow as before.
        fair.max(self.between / 2).clamp(self.interval, self.interval.saturating_mul(LONGEST))
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
    fn a_server_that_has_time_gets_every_round() {
        for (writers, milliseconds) in [(1, 14_999), (3, 4_900), (50, 250), (500, 29)] {
            let mut pace = Pace::new(INTERVAL, true);
            pace.wrote(&stored(writers, milliseconds), seconds(5), 0.5);
            assert_eq!(pace.promise(), INTERVAL, "{writers}");
            assert!(pace.writes(false, seconds(5)) && !pace.is_crowded());
        }
    }

    #[test]
    fn what_says_nothing_new_waits_for_its_share_and_news_do_not() {
        let mut pace = Pace::new(INTERVAL, true);
        assert!(pace.writes(true, Duration::ZERO));
        // 500 writers of 300 ms each keep a server busy for 150 s.
        pace.wrote(&stored(500, 300), seconds(10), 0.5);
        assert_eq!(pace.promise(), seconds(300));
        assert!(pace.is_crowded());
        assert!(!pace.writes(false, seconds(10 + 280)));
        assert!(pace.writes(false, seconds(10 + 285)), "the round that is nearest");
        assert!(pace.writes(true, seconds(10)), "news are written at once");
    }

    #[test]
    fn a_report_promises_what_readers_can_wait_for() {
        let mut pace = Pace::new(INTERVAL, true);
        pace.wrote(&busy(100_000), Duration::ZERO, 0.0);
        assert_eq!(pace.promise(), seconds(480), "never longer");
        // By halves back to every round.
        let promises: Vec<u64> = (0..6)
            .map(|_| {
                pace.wrote(&stored(3, 0), Duration::ZERO, 0.0);
                pace.promise().as_secs()
            })
            .collect();
        assert_eq!(promises, [240, 120, 60, 30, 30, 30]);
    }

    #[test]
    fn those_that_failed_together_come_again_apart() {
        for (random, wait) in [(0.0, 72), (1.0, 240)] {
            let mut pace = Pace::new(INTERVAL, true);
            pace.wrote(&busy(500), seconds(100), random);
            assert!(!pace.writes(true, seconds(100 + wait - 1)), "{random}");
            assert!(pace.writes(true, seconds(100 + wait)), "{random}");
        }
    }

    #[test]
    fn what_is_not_for_want_of_time_is_tried_in_the_next_round() {
        let mut pace = Pace::new(INTERVAL, true);
        pace.wrote(&Write { end: End::Failed, ..busy(500) }, seconds(10), 1.0);
        assert!(pace.writes(false, seconds(10)));
        // A few writers cannot be why a server is slow.
        pace.wrote(&busy(1), seconds(10), 1.0);
        assert!(pace.writes(false, seconds(10)));
    }

    #[test]
    fn where_a_promise_has_no_place_every_round_is_written() {
        let mut pace = Pace::new(INTERVAL, false);
        pace.wrote(&busy(200), seconds(10), 1.0);
        pace.wrote(&stored(200, 9_000), seconds(20), 1.0);
        assert!(pace.writes(false, seconds(20)));
        assert_eq!(pace.promise(), INTERVAL);
    }

    #[test]
    fn a_server_that_asks_for_time_gets_it() {
        for told in [false, true] {
            let mut pace = Pace::new(INTERVAL, told);
            let asks = |after| Write { after: Some(seconds(after)), took: Duration::ZERO, ..busy(3) };
            pace.wrote(&asks(7), seconds(10), 0.5);
            assert!(!pace.writes(true, seconds(16)) && pace.writes(false, seconds(17)));
            pace.wrote(&asks(1_000_000), seconds(10), 0.5);
            assert!(pace.writes(true, seconds(250)), "not for ever");
        }
    }
}
