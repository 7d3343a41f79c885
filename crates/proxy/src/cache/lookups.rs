//! Look-ups that are under way: whoever asks the same while one is, waits for its answer.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::digest::{ByHalf, Digest};

type Waiting<V> = HashMap<Digest, watch::Receiver<Option<V>>, ByHalf>;

/// The look-up ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// Look-ups under way.
#[derive(Debug)]
pub(crate) struct Lookups<V> {
    runtime: Handle,
    waiting: Arc<Mutex<Waiting<V>>>,
}

impl<V: Clone + Send + Sync + 'static> Lookups<V> {
    /// None yet; each will run on this runtime, detached from who asked first: when that one goes away, others still wait.
    pub(crate) fn on(runtime: Handle) -> Self {
        Self { runtime, waiting: Arc::default() }
    }

    /// The answer of the look-up that is under way, or of the one that is begun now. The second part says which.
    pub(crate) async fn join<F>(&self, key: Digest, begin: impl FnOnce() -> F) -> (Result<V, Lost>, bool)
    where
        F: Future<Output = V> + Send + 'static,
    {
        let (mut answer, joined) = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.get(&key) {
                Some(answer) => (answer.clone(), true),
                None => {
                    let (tell, answer) = watch::channel(None);
                    waiting.insert(key, answer.clone());
                    // Also when the look-up panics: the next one who asks must not wait for it.
                    let done = Done { key, waiting: self.waiting.clone() };
                    let look = begin();
                    self.runtime.spawn(async move {
                        let found = look.await;
                        drop(done);
                        tell.send_replace(Some(found));
                    });
                    (answer, false)
                }
            }
        };
        let found = match answer.wait_for(Option::is_some).await {
            Ok(found) => found.clone().ok_or(Lost),
            Err(_) => Err(Lost),
        };
        (found, joined)
    }
}

struct Done<V> {
    key: Digest,
    waiting: Arc<Mutex<Waiting<V>>>,
}

impl<V> Drop for Done<V> {
    fn drop(&mut self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// W8, CACHE-06, CACHE-07.
    #[tokio::test]
    async fn a_hundred_who_ask_the_same_are_one_look_up_also_when_the_first_goes_away() {
        let lookups = Arc::new(Lookups::on(Handle::current()));
        let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
        let ask = || {
            let (lookups, begun, gate) = (lookups.clone(), begun.clone(), gate.clone());
            tokio::spawn(async move {
                lookups
                    .join(1, || async move {
                        begun.fetch_add(1, Ordering::SeqCst);
                        gate.acquire().await.unwrap().forget();
                        42
                    })
                    .await
            })
        };
        let first = ask();
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = (0..100).map(|_| ask()).collect();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        first.abort();
        gate.add_permits(1);
        for other in others {
            assert_eq!(other.await.unwrap(), (Ok(42), true));
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_look_up_that_panics_loses_its_answer_and_the_next_begins_anew() {
        let lookups = Lookups::on(Handle::current());
        assert_eq!(lookups.join(1, || async { panic!("on purpose") }).await.0, Err::<u8, _>(Lost));
        assert_eq!(lookups.join(1, || async { 1 }).await, (Ok(1), false));
    }
}
