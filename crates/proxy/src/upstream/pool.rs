//! Idle upstream connections of one worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};

use super::body::RequestBody;
use super::concurrency::{ConcurrencyLimit, ConcurrencyPermit};
use runtime::sync::lock;

/// Idle timeout. Below the 60 seconds after which the sidecar closes the connection: a request sent at that
/// moment would be lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// A connection idle for less than this was alive a moment ago, and its idle timeout is not close.
const RECENTLY_USED: Duration = Duration::from_secs(1);

/// Maximum number of idle connections.
const MAX_IDLE: usize = 512;

/// Deadline for a just released connection to become ready for the next request.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// Idle connections, and the shared HTTP/2 connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPool {
    idle: Mutex<Vec<Idle>>,
    shared: Mutex<Option<http2::SendRequest<RequestBody>>>,
    concurrency: ConcurrencyLimit,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Instant,
}

impl ConnectionPool {
    /// Returns the limit on concurrent requests.
    pub(crate) fn concurrency(&self) -> &ConcurrencyLimit {
        &self.concurrency
    }

    /// Returns the most recently used idle connection, the least likely to be dead. The flag is true when the
    /// upstream may be closing it because of its idle timeout.
    pub(crate) async fn take(&self) -> Option<(http1::SendRequest<RequestBody>, bool)> {
        loop {
            let Idle { mut sender, since } = lock(&self.idle).pop()?;
            let idle_for = since.elapsed();
            if sender.is_closed() || idle_for > IDLE_TIMEOUT {
                continue;
            }
            if sender.is_ready()
                || matches!(tokio::time::timeout(READY_TIMEOUT, sender.ready()).await, Ok(Ok(())))
            {
                return Some((sender, idle_for > RECENTLY_USED));
            }
        }
    }

    /// Returns the shared connection, if the upstream speaks HTTP/2.
    pub(crate) fn shared(&self) -> Option<http2::SendRequest<RequestBody>> {
        lock(&self.shared).clone().filter(|sender| !sender.is_closed())
    }

    /// Sets the shared HTTP/2 connection.
    pub(crate) fn set_shared(&self, sender: http2::SendRequest<RequestBody>) {
        *lock(&self.shared) = Some(sender);
    }

    /// Closes connections that exceeded the idle timeout. Returns how many are left.
    pub(crate) fn sweep(&self, now: Instant) -> usize {
        let mut idle = lock(&self.idle);
        idle.retain(|connection| {
            now.saturating_duration_since(connection.since) < IDLE_TIMEOUT && !connection.sender.is_closed()
        });
        if idle.capacity() > 32 && idle.capacity() > 4 * idle.len() {
            idle.shrink_to_fit();
        }
        idle.len()
    }

    fn insert(&self, sender: http1::SendRequest<RequestBody>) {
        let mut idle = lock(&self.idle);
        if idle.len() < MAX_IDLE && !sender.is_closed() {
            idle.push(Idle { sender, since: Instant::now() });
        }
    }
}

/// A connection in use. It returns to the pool only after both bodies have ended; dropped earlier, it is
/// closed, so that the upstream notices that the response is no longer needed.
#[derive(Debug)]
pub(crate) struct Lease {
    sender: http1::SendRequest<RequestBody>,
    request_has_ended: Option<Arc<AtomicBool>>,
    pool: Arc<ConnectionPool>,
    /// Released after the connection is back in the pool, so that the waiting request finds it.
    _permit: ConcurrencyPermit,
}

impl Lease {
    /// Leases a connection of the pool.
    pub(crate) fn new(
        sender: http1::SendRequest<RequestBody>,
        request_has_ended: Option<Arc<AtomicBool>>,
        pool: &Arc<ConnectionPool>,
        permit: ConcurrencyPermit,
    ) -> Self {
        Self { sender, request_has_ended, pool: pool.clone(), _permit: permit }
    }

    /// Returns the connection to the pool once the response body has ended.
    pub(crate) fn release(self) {
        if self.request_has_ended.is_none_or(|ended| ended.load(Ordering::Acquire)) {
            self.pool.insert(self.sender);
            self.pool.concurrency.record_completion();
        }
    }
}
