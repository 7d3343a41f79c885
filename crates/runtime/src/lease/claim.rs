//! The right to write, as long as it lasts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// Writing is not allowed: another process leads, or may do so by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead (any more); nothing was written")]
pub struct NotLeading;

/// A claim to lead. It ends by the clock, not by a message: a process that was stopped for a while and goes on hears no
/// message in time, but the clock has gone on.
#[derive(Clone, Debug)]
pub struct Claim {
    until: Arc<Mutex<Option<Instant>>>,
    lost: CancellationToken,
}

impl Claim {
    /// A claim without end, for processes that run alone.
    #[must_use]
    pub fn alone() -> Self {
        Self { until: Arc::new(Mutex::new(None)), lost: CancellationToken::new() }
    }

    pub(super) fn until(end: Instant) -> Self {
        Self { until: Arc::new(Mutex::new(Some(end))), lost: CancellationToken::new() }
    }

    /// Fails once it has ended.
    pub fn check(&self) -> Result<(), NotLeading> {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lost.is_cancelled() || until.is_some_and(|end| Instant::now() >= end) {
            return Err(NotLeading);
        }
        Ok(())
    }

    /// Waits until it is known to have ended.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    pub(super) fn extend(&self, end: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    pub(super) fn end(&self) {
        self.lost.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_claim_ends_by_the_clock_without_being_told() {
        let claim = Claim::until(Instant::now() + Duration::from_secs(60));
        assert_eq!(claim.check(), Ok(()));
        claim.extend(Instant::now());
        assert_eq!(claim.check(), Err(NotLeading));
        claim.extend(Instant::now() + Duration::from_secs(60));
        claim.end();
        assert_eq!(claim.check(), Err(NotLeading), "once lost it does not come back");
        assert_eq!(Claim::alone().check(), Ok(()));
    }
}
