//! How often the API server is asked, and how much of that one client may cause.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A rate with a burst, as `--kube-api-qps` and `--kube-api-burst` say.
#[derive(Debug)]
pub(crate) struct Limiter {
    every: Duration,
    burst: u32,
    /// When the bucket would have been empty.
    empty_at: Mutex<Instant>,
}

impl Limiter {
    /// So many a second, and so many at once.
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        let every = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::ZERO);
        Self { every, burst, empty_at: Mutex::new(Instant::now()) }
    }

    /// Waits for one's turn.
    pub(crate) async fn turn(&self) {
        let at = self.reserve(Instant::now());
        tokio::time::sleep_until(at).await;
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut empty_at = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.every * self.burst.saturating_sub(1);
        let at = (*empty_at).max(now);
        *empty_at = at + self.every;
        at.checked_sub(free).map_or(now, |at| at.max(now))
    }
}

/// Equal shares of something for each who asks.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    each: usize,
    taken: Arc<Mutex<HashMap<K, Arc<Semaphore>>>>,
}

/// A share that is given back when dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Eq + Hash> {
    permit: Option<OwnedSemaphorePermit>,
    of: K,
    taken: Arc<Mutex<HashMap<K, Arc<Semaphore>>>>,
}

impl<K: Eq + Hash + Clone> Shares<K> {
    /// So many for each.
    pub(crate) fn new(each: usize) -> Self {
        Self { each, taken: Arc::default() }
    }

    /// Waits until one of the shares of `of` is free.
    pub(crate) async fn take(&self, of: K) -> Share<K> {
        let semaphore = {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.entry(of.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.each))).clone()
        };
        // It is never closed. Who gives up waiting must leave nothing behind either.
        let mut share = Share { permit: None, of, taken: self.taken.clone() };
        share.permit = semaphore.acquire_owned().await.ok();
        share
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.permit.take());
        // Nobody else holds or awaits one: addresses that are gone are not remembered.
        if taken.get(&self.of).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            taken.remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let limiter = Limiter::new(5.0, 10);
        let begin = Instant::now();
        for _ in 0..10 {
            limiter.turn().await;
        }
        assert!(begin.elapsed() < Duration::from_millis(5), "{:?}", begin.elapsed());
        for _ in 0..10 {
            limiter.turn().await;
        }
        let took = begin.elapsed();
        assert!(took >= Duration::from_secs(2) && took < Duration::from_millis(2_050), "{took:?}");
    }

    /// W7: whoever floods waits for himself.
    #[tokio::test]
    async fn one_who_has_used_up_his_share_waits_and_others_do_not() {
        let shares = Shares::new(2);
        let (first, second) = (shares.take("flood").await, shares.take("flood").await);
        let third = tokio::time::timeout(Duration::from_millis(20), shares.take("flood")).await;
        assert!(third.is_err());
        drop(shares.take("good").await);
        drop(first);
        let third = shares.take("flood").await;
        drop((second, third));
        assert!(shares.taken.lock().unwrap().is_empty(), "addresses that are gone are forgotten");
    }
}
