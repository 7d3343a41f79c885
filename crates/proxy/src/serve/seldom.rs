//! What could be told for every request is told once a second: a flood of requests must not become a flood of lines.

use std::sync::Mutex;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);

/// Remembers when something was told last.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// When, and how many times it was kept back since.
    last: Mutex<Option<(Instant, u64)>>,
}

impl Seldom {
    /// How many times it was kept back, if it may be told now.
    pub(crate) fn may_tell(&self, now: Instant) -> Option<u64> {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match last.as_mut() {
            Some((at, kept_back)) if now.saturating_duration_since(*at) < EVERY => {
                *kept_back += 1;
                None
            }
            known => {
                let kept_back = known.map_or(0, |(_, kept_back)| *kept_back);
                *last = Some((now, 0));
                Some(kept_back)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_second_that_says_how_many_there_were() {
        let (seldom, now) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.may_tell(now), Some(0));
        for _ in 0..10 {
            assert_eq!(seldom.may_tell(now), None);
        }
        assert_eq!(seldom.may_tell(now + EVERY), Some(10));
    }
}
