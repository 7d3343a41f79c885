//! Connections to the upstream that wait to be used again: those of one worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};

use super::body::Outgoing;
use super::places::{Place, Places};

/// How long a connection waits. Less than the 60 seconds after which the sidecar closes it: a request that is sent at that moment
/// would be lost.
const KEPT: Duration = Duration::from_secs(50);

/// Whoever waited for less than this was alive a moment ago, and is not about to be closed for its idleness.
const ALIVE: Duration = Duration::from_secs(1);

/// How many wait at most.
const MOST: usize = 512;

/// How long one that has just ended its exchange may take to be ready for the next.
const READY_WITHIN: Duration = Duration::from_millis(100);

/// Connections that wait.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Idle>>,
    shared: Mutex<Option<http2::SendRequest<Outgoing>>>,
    places: Places,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<Outgoing>,
    since: Instant,
}

impl Pool {
    /// How many exchanges go on at once.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// One that waits: the one that was used last, since it is the least likely to be dead. The second part says whether it may be
    /// closed by the upstream just now, as one that is idle for too long.
    pub(crate) async fn take(&self) -> Option<(http1::SendRequest<Outgoing>, bool)> {
        loop {
            let Idle { mut sender, since } = lock(&self.idle).pop()?;
            let waited = since.elapsed();
            if sender.is_closed() || waited > KEPT {
                continue;
            }
            if sender.is_ready()
                || matches!(tokio::time::timeout(READY_WITHIN, sender.ready()).await, Ok(Ok(())))
            {
                return Some((sender, waited > ALIVE));
            }
        }
    }

    /// The one that all share, if the upstream speaks HTTP/2.
    pub(crate) fn shared(&self) -> Option<http2::SendRequest<Outgoing>> {
        lock(&self.shared).clone().filter(|sender| !sender.is_closed())
    }

    /// Shares one.
    pub(crate) fn share(&self, sender: http2::SendRequest<Outgoing>) {
        *lock(&self.shared) = Some(sender);
    }

    /// Closes what has waited for too long. Says how many wait still.
    pub(crate) fn sweep(&self, now: Instant) -> usize {
        let mut idle = lock(&self.idle);
        idle.retain(|one| now.saturating_duration_since(one.since) < KEPT && !one.sender.is_closed());
        if idle.capacity() > 32 && idle.capacity() > 4 * idle.len() {
            idle.shrink_to_fit();
        }
        idle.len()
    }

    fn put(&self, sender: http1::SendRequest<Outgoing>) {
        let mut idle = lock(&self.idle);
        if idle.len() < MOST && !sender.is_closed() {
            idle.push(Idle { sender, since: Instant::now() });
        }
    }
}

/// A connection in use. It goes back only after both bodies have ended; dropped before, it is closed, and the upstream learns that
/// nobody wants its answer any more.
#[derive(Debug)]
pub(crate) struct Lease {
    sender: http1::SendRequest<Outgoing>,
    request_ended: Option<Arc<AtomicBool>>,
    pool: Arc<Pool>,
    /// Free again after the connection is back: whoever waits for the one finds the other.
    _place: Place,
}

impl Lease {
    /// Uses a connection of a pool.
    pub(crate) fn new(
        sender: http1::SendRequest<Outgoing>,
        request_ended: Option<Arc<AtomicBool>>,
        pool: &Arc<Pool>,
        place: Place,
    ) -> Self {
        Self { sender, request_ended, pool: pool.clone(), _place: place }
    }

    /// The answer has ended.
    pub(crate) fn give_back(self) {
        if self.request_ended.is_none_or(|ended| ended.load(Ordering::Acquire)) {
            self.pool.put(self.sender);
            self.pool.places.ended();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
