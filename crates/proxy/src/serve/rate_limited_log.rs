//! Rate limit for log messages that every request could cause.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use runtime::sync::lock;

const INTERVAL: Duration = Duration::from_secs(1);

/// Allows one message per second and counts the suppressed ones.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedLog {
    /// Time of the last message, and how many were suppressed since.
    last: Mutex<Option<(Instant, u64)>>,
}

impl RateLimitedLog {
    /// Returns how many messages were suppressed since the last one, or `None` to suppress this one too.
    pub(crate) fn permit(&self, now: Instant) -> Option<u64> {
        let mut last = lock(&self.last);
        match last.as_mut() {
            Some((at, suppressed)) if now.saturating_duration_since(*at) < INTERVAL => {
                *suppressed += 1;
                None
            }
            previous => {
                let suppressed = previous.map_or(0, |(_, suppressed)| *suppressed);
                *last = Some((now, 0));
                Some(suppressed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_per_second_reports_suppressed_count() {
        let (log, now) = (RateLimitedLog::default(), Instant::now());
        assert_eq!(log.permit(now), Some(0));
        for _ in 0..10 {
            assert_eq!(log.permit(now), None);
        }
        assert_eq!(log.permit(now + INTERVAL), Some(10));
    }
}
