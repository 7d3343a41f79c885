//! A claim to the Lease, which permits writes.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::sync::lock;

/// A write was attempted without a valid claim: another process leads, or may lead by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader; nothing was sent")]
pub struct NotLeading;

/// A claim to be the leader. It expires by the clock instead of being revoked: a process that was suspended and resumes would
/// learn of a revocation too late.
#[derive(Clone, Debug)]
pub struct Claim {
    expiry: Arc<Mutex<Option<Instant>>>,
    lost: CancellationToken,
}

impl Claim {
    /// Returns a claim that never expires, for processes that run without leader election.
    #[must_use]
    pub fn permanent() -> Self {
        Self { expiry: Arc::new(Mutex::new(None)), lost: CancellationToken::new() }
    }

    /// Returns a claim that expires at a time, unless it is extended.
    #[must_use]
    pub fn until(expiry: Instant) -> Self {
        Self { expiry: Arc::new(Mutex::new(Some(expiry))), lost: CancellationToken::new() }
    }

    /// Fails if the claim has expired or was released.
    pub fn check(&self) -> Result<(), NotLeading> {
        let expiry = *lock(&self.expiry);
        if self.lost.is_cancelled() || expiry.is_some_and(|expiry| Instant::now() >= expiry) {
            return Err(NotLeading);
        }
        Ok(())
    }

    /// Waits until the elector notices that the claim was lost. It may have expired earlier: see [`check`](Self::check).
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    pub(super) fn extend(&self, expiry: Instant) {
        *lock(&self.expiry) = Some(expiry);
    }

    pub(super) fn release(&self) {
        self.lost.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn claim_expires_by_the_clock() {
        let claim = Claim::until(Instant::now() + Duration::from_secs(60));
        assert_eq!(claim.check(), Ok(()));
        claim.extend(Instant::now());
        assert_eq!(claim.check(), Err(NotLeading));
        claim.extend(Instant::now() + Duration::from_secs(60));
        claim.release();
        assert_eq!(claim.check(), Err(NotLeading), "a released claim cannot be extended");
        assert_eq!(Claim::permanent().check(), Ok(()));
    }
}
