//! How many exchanges with the upstream go on at once before others wait a moment for their turn.
//!
//! A connection to the upstream costs as much memory as one of a client, on both of its ends. When many clients ask at once and
//! the upstream is quick, a connection for each of them would mostly wait for the same processors: it is better to wait for one
//! that is about to be free. An upstream that is slow, or answers without end, is not waited for: whoever sees that nothing
//! comes free goes on, so that no number of such answers holds up anybody for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Exchanges of one worker that go on without anybody's waiting.
const PLACES: usize = 32;

/// An upstream in which nothing has ended for so long is slow: more connections help.
const STILL: Duration = Duration::from_millis(10);

/// The longest that anybody waits.
const PATIENCE: Duration = Duration::from_millis(100);

/// The places of one worker.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    began: Instant,
    /// When the last exchange ended, in milliseconds since the beginning.
    ended: AtomicU64,
}

/// A place that is taken until this is dropped; or none, for who goes on without one.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for Places {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(PLACES)), began: Instant::now(), ended: AtomicU64::new(0) }
    }
}

impl Places {
    /// A place, after a wait if need be. The second part says whether there was one.
    pub(crate) async fn take(&self) -> (Place, bool) {
        if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return (Place { _permit: Some(permit) }, false);
        }
        let mut turn = std::pin::pin!(self.free.clone().acquire_owned());
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(permit) = timeout(STILL, turn.as_mut()).await {
                return (Place { _permit: permit.ok() }, true);
            }
            if self.is_still() || Instant::now() >= until {
                return (Place { _permit: None }, true);
            }
        }
    }

    /// An exchange has ended well: the next may.
    pub(crate) fn ended(&self) {
        self.ended.store(self.now(), Ordering::Relaxed);
    }

    fn is_still(&self) -> bool {
        let since = self.now().saturating_sub(self.ended.load(Ordering::Relaxed));
        Duration::from_millis(since) > STILL
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn full() -> (Places, Vec<Place>) {
        let places = Places::default();
        let mut taken = Vec::new();
        for _ in 0..PLACES {
            let (place, waited) = places.take().await;
            assert!(!waited);
            taken.push(place);
        }
        (places, taken)
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_gets_the_next_that_is_free() {
        let (places, mut taken) = full().await;
        let free = async {
            tokio::time::sleep(STILL / 2).await;
            places.ended();
            taken.pop();
        };
        let begin = Instant::now();
        let ((place, waited), ()) = tokio::join!(places.take(), free);
        assert!(waited && place._permit.is_some());
        assert!(begin.elapsed() < STILL, "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_upstream_in_which_nothing_ends_is_not_waited_for() {
        let (places, _taken) = full().await;
        tokio::time::sleep(STILL * 2).await;
        let begin = Instant::now();
        // However many: they wait at the same time.
        let (first, second) = tokio::join!(places.take(), places.take());
        for (place, waited) in [first, second] {
            assert!(waited && place._permit.is_none());
        }
        assert!(begin.elapsed() < STILL * 2, "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_longer_than_a_bound_while_others_are_served() {
        let (places, _taken) = full().await;
        let others = async {
            loop {
                places.ended();
                tokio::time::sleep(STILL / 2).await;
            }
        };
        let begin = Instant::now();
        let (place, waited) = tokio::select! {
            place = places.take() => place,
            () = others => unreachable!("it has no end"),
        };
        assert!(waited && place._permit.is_none());
        let took = begin.elapsed();
        assert!(took >= PATIENCE && took < PATIENCE + STILL * 2, "{took:?}");
    }
}
