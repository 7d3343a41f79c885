//! What a reporter leaves out while the API server is slow. All reporters write one object. A write that finds that another was
//! faster is done anew by the server, so that writes under way together cost each other: once they take longer than their deadline,
//! and all come again at once, none of them is stored any more. Reports that say nothing new are what can wait.

use std::time::Duration;

/// A write that takes longer than this part of the interval is slow.
const SLOW_PART: u32 = 10;

/// And no write is slow that takes less than this, however short the interval.
const NEVER_SLOW: Duration = Duration::from_secs(1);

/// Most rounds that are left out in a row. Who reads reports waits four intervals for the next one.
const MOST: u32 = 2;

/// What a reporter leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restraint {
    left_out: u32,
}

impl Restraint {
    /// A write has ended, well or not: how many rounds are left out now. Randomness, from 0 up to 1, keeps those apart that were
    /// slow together.
    pub fn wrote(&mut self, took: Duration, interval: Duration, random: f64) {
        self.left_out = if took <= NEVER_SLOW.max(interval / SLOW_PART) {
            0
        } else if random < 0.5 {
            1
        } else {
            MOST
        };
    }

    /// Whether this round is written. News always are.
    pub fn writes(&mut self, is_news: bool) -> bool {
        if is_news || self.left_out == 0 {
            return true;
        }
        self.left_out -= 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    #[test]
    fn while_writes_are_quick_every_round_is_written() {
        let mut restraint = Restraint::default();
        for _ in 0..3 {
            assert!(restraint.writes(false));
            restraint.wrote(Duration::from_secs(3), INTERVAL, 0.9);
        }
        restraint.wrote(Duration::from_millis(900), Duration::from_millis(5), 0.9);
        assert!(restraint.writes(false), "no write of less than a second is slow");
    }

    #[test]
    fn after_a_slow_write_one_or_two_rounds_without_news_are_left_out_and_news_are_not() {
        for (random, left_out) in [(0.0, 1), (0.49, 1), (0.5, 2), (1.0, 2)] {
            let mut restraint = Restraint::default();
            restraint.wrote(Duration::from_secs(10), INTERVAL, random);
            let skipped = (0..5).filter(|_| !restraint.writes(false)).count();
            assert_eq!(skipped, left_out, "{random}");
            restraint.wrote(Duration::from_secs(10), INTERVAL, random);
            assert!(restraint.writes(true));
        }
    }
}
