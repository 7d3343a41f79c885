//! Soft limit on concurrent upstream requests of one worker.
//!
//! An upstream connection costs as much memory as a client connection, on both ends. When many clients send
//! requests at once and the upstream is fast, a connection for each of them would mostly wait for the same
//! CPUs, so a request waits for one that is about to become free. A slow upstream, or one that streams
//! without end, does not hold requests back: a request that sees no completion proceeds without a permit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Concurrent requests per worker before others wait.
const MAX_CONCURRENT: usize = 32;

/// Without a completion for this long, the upstream counts as slow and more connections help.
const STALL_AFTER: Duration = Duration::from_millis(10);

/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// The concurrency limit of one worker.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    semaphore: Arc<Semaphore>,
    started: Instant,
    /// Time of the last completion, in milliseconds since the start.
    last_completion: AtomicU64,
}

/// A permit, released on drop; empty for a request that proceeded without one.
#[derive(Debug)]
pub(crate) struct ConcurrencyPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for ConcurrencyLimit {
    fn default() -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            started: Instant::now(),
            last_completion: AtomicU64::new(0),
        }
    }
}

impl ConcurrencyLimit {
    /// Acquires a permit, waiting if necessary. The flag is true when the request waited.
    pub(crate) async fn acquire(&self) -> (ConcurrencyPermit, bool) {
        if let Ok(permit) = self.semaphore.clone().try_acquire_owned() {
            return (ConcurrencyPermit { _permit: Some(permit) }, false);
        }
        let mut waiting = std::pin::pin!(self.semaphore.clone().acquire_owned());
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            if let Ok(permit) = timeout(STALL_AFTER, waiting.as_mut()).await {
                return (ConcurrencyPermit { _permit: permit.ok() }, true);
            }
            if self.is_stalled() || Instant::now() >= deadline {
                return (ConcurrencyPermit { _permit: None }, true);
            }
        }
    }

    /// Records a completed request.
    pub(crate) fn record_completion(&self) {
        self.last_completion.store(self.now(), Ordering::Relaxed);
    }

    fn is_stalled(&self) -> bool {
        let idle_for = self.now().saturating_sub(self.last_completion.load(Ordering::Relaxed));
        Duration::from_millis(idle_for) > STALL_AFTER
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn saturated() -> (ConcurrencyLimit, Vec<ConcurrencyPermit>) {
        let limit = ConcurrencyLimit::default();
        let mut permits = Vec::new();
        for _ in 0..MAX_CONCURRENT {
            let (permit, waited) = limit.acquire().await;
            assert!(!waited);
            permits.push(permit);
        }
        (limit, permits)
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_request_gets_next_free_permit() {
        let (limit, mut permits) = saturated().await;
        let complete_one = async {
            tokio::time::sleep(STALL_AFTER / 2).await;
            limit.record_completion();
            permits.pop();
        };
        let start = Instant::now();
        let ((permit, waited), ()) = tokio::join!(limit.acquire(), complete_one);
        assert!(waited && permit._permit.is_some());
        assert!(start.elapsed() < STALL_AFTER, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_upstream_does_not_delay_requests() {
        let (limit, _permits) = saturated().await;
        tokio::time::sleep(STALL_AFTER * 2).await;
        let start = Instant::now();
        // Requests wait concurrently, not one after another.
        let (first, second) = tokio::join!(limit.acquire(), limit.acquire());
        for (permit, waited) in [first, second] {
            assert!(waited && permit._permit.is_none());
        }
        assert!(start.elapsed() < STALL_AFTER * 2, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn wait_is_bounded_while_others_complete() {
        let (limit, _permits) = saturated().await;
        let others = async {
            loop {
                limit.record_completion();
                tokio::time::sleep(STALL_AFTER / 2).await;
            }
        };
        let start = Instant::now();
        let (permit, waited) = tokio::select! {
            permit = limit.acquire() => permit,
            () = others => unreachable!("never completes"),
        };
        assert!(waited && permit._permit.is_none());
        let took = start.elapsed();
        assert!(took >= MAX_WAIT && took < MAX_WAIT + STALL_AFTER * 2, "{took:?}");
    }
}
