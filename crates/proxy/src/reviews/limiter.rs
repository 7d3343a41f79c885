//! Rate limit of requests to the API server, and a concurrency limit per client.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use runtime::sync::lock;

/// A token bucket, configured by `--kube-api-qps` and `--kube-api-burst`.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    interval: Duration,
    burst: u32,
    /// When the bucket runs empty.
    empty_at: Mutex<Instant>,
}

impl RateLimiter {
    /// Allows `per_second` requests, and `burst` at once.
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        let interval = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::ZERO);
        Self { interval, burst, empty_at: Mutex::new(Instant::now()) }
    }

    /// Waits until a request is allowed.
    pub(crate) async fn acquire(&self) {
        let at = self.reserve(Instant::now());
        tokio::time::sleep_until(at).await;
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut empty_at = lock(&self.empty_at);
        let burst_window = self.interval * self.burst.saturating_sub(1);
        let at = (*empty_at).max(now);
        *empty_at = at + self.interval;
        at.checked_sub(burst_window).map_or(now, |at| at.max(now))
    }
}

/// The same number of concurrent permits for each key.
#[derive(Debug)]
pub(crate) struct PerKeyLimit<K> {
    per_key: usize,
    semaphores: Arc<Mutex<HashMap<K, Arc<Semaphore>>>>,
}

/// A permit of one key, released on drop.
#[derive(Debug)]
pub(crate) struct PerKeyPermit<K: Eq + Hash> {
    permit: Option<OwnedSemaphorePermit>,
    key: K,
    semaphores: Arc<Mutex<HashMap<K, Arc<Semaphore>>>>,
}

impl<K: Eq + Hash + Clone> PerKeyLimit<K> {
    /// Allows `per_key` permits per key.
    pub(crate) fn new(per_key: usize) -> Self {
        Self { per_key, semaphores: Arc::default() }
    }

    /// Waits until the key has a free permit.
    pub(crate) async fn acquire(&self, key: K) -> PerKeyPermit<K> {
        let semaphore = {
            let mut semaphores = lock(&self.semaphores);
            semaphores.entry(key.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.per_key))).clone()
        };
        // The semaphore is never closed. The permit exists before the wait, so that a cancelled wait also
        // removes the entry.
        let mut permit = PerKeyPermit { permit: None, key, semaphores: self.semaphores.clone() };
        permit.permit = semaphore.acquire_owned().await.ok();
        permit
    }
}

impl<K: Eq + Hash> Drop for PerKeyPermit<K> {
    fn drop(&mut self) {
        let mut semaphores = lock(&self.semaphores);
        drop(self.permit.take());
        // No other holder or waiter: forget the key, so that the map does not grow with every address seen.
        if semaphores.get(&self.key).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            semaphores.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_passes_then_requests_are_paced() {
        let limiter = RateLimiter::new(5.0, 10);
        let start = Instant::now();
        for _ in 0..10 {
            limiter.acquire().await;
        }
        assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
        for _ in 0..10 {
            limiter.acquire().await;
        }
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(2) && took < Duration::from_millis(2_050), "{took:?}");
    }

    #[tokio::test]
    async fn exhausted_key_waits_without_blocking_others() {
        let limit = PerKeyLimit::new(2);
        let (first, second) = (limit.acquire("flood").await, limit.acquire("flood").await);
        let third = tokio::time::timeout(Duration::from_millis(20), limit.acquire("flood")).await;
        assert!(third.is_err());
        drop(limit.acquire("good").await);
        drop(first);
        let third = limit.acquire("flood").await;
        drop((second, third));
        assert!(limit.semaphores.lock().unwrap().is_empty(), "idle keys are forgotten");
    }
}
