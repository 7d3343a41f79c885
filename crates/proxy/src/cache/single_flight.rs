//! Coalesces concurrent lookups of the same key into one.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::digest::{BuildDigestHasher, Digest};
use runtime::sync::lock;

type InFlight<V> = HashMap<Digest, watch::Receiver<Option<V>>, BuildDigestHasher>;

/// The lookup ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aborted;

/// The lookups in flight.
#[derive(Debug)]
pub(crate) struct SingleFlight<V> {
    runtime: Handle,
    in_flight: Arc<Mutex<InFlight<V>>>,
}

impl<V: Clone + Send + Sync + 'static> SingleFlight<V> {
    /// Runs lookups on `runtime`, detached from their first caller: when it disconnects, the others still get
    /// the result.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, in_flight: Arc::default() }
    }

    /// Returns the result of the lookup in flight, or starts one. The flag is true when an existing lookup
    /// was joined.
    pub(crate) async fn join<F>(&self, key: Digest, start: impl FnOnce() -> F) -> (Result<V, Aborted>, bool)
    where
        F: Future<Output = V> + Send + 'static,
    {
        let (mut receiver, joined) = {
            let mut in_flight = lock(&self.in_flight);
            match in_flight.get(&key) {
                Some(receiver) => (receiver.clone(), true),
                None => {
                    let (sender, receiver) = watch::channel(None);
                    in_flight.insert(key, receiver.clone());
                    // Dropped on a panic too, so that the next caller starts a new lookup.
                    let entry = RemoveOnDrop { key, in_flight: self.in_flight.clone() };
                    let lookup = start();
                    self.runtime.spawn(async move {
                        let value = lookup.await;
                        drop(entry);
                        sender.send_replace(Some(value));
                    });
                    (receiver, false)
                }
            }
        };
        let value = match receiver.wait_for(Option::is_some).await {
            Ok(value) => value.clone().ok_or(Aborted),
            Err(_) => Err(Aborted),
        };
        (value, joined)
    }
}

struct RemoveOnDrop<V> {
    key: Digest,
    in_flight: Arc<Mutex<InFlight<V>>>,
}

impl<V> Drop for RemoveOnDrop<V> {
    fn drop(&mut self) {
        lock(&self.in_flight).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn concurrent_callers_share_one_lookup_after_first_aborts() {
        let lookups = Arc::new(SingleFlight::new(Handle::current()));
        let (started, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
        let spawn_caller = || {
            let (lookups, started, release) = (lookups.clone(), started.clone(), release.clone());
            tokio::spawn(async move {
                lookups
                    .join(1, || async move {
                        started.fetch_add(1, Ordering::SeqCst);
                        release.acquire().await.unwrap().forget();
                        42
                    })
                    .await
            })
        };
        let first = spawn_caller();
        while started.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = (0..100).map(|_| spawn_caller()).collect();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        first.abort();
        release.add_permits(1);
        for other in others {
            assert_eq!(other.await.unwrap(), (Ok(42), true));
        }
        assert_eq!(started.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn panicking_lookup_is_aborted_and_retried() {
        let lookups = SingleFlight::new(Handle::current());
        assert_eq!(lookups.join(1, || async { panic!("on purpose") }).await.0, Err::<u8, _>(Aborted));
        assert_eq!(lookups.join(1, || async { 1 }).await, (Ok(1), false));
    }
}
