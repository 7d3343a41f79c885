//! What happens on one connection, and for how long nothing does (W10).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Walker;
use crate::settings::ClientLimits;

/// Marks a time that is not there.
const NEVER: u64 = 0;

/// What happens on one connection. Times are milliseconds since it was opened, and one more.
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    requests: AtomicU32,
    head_since: AtomicU64,
    idle_since: AtomicU64,
    unread_since: AtomicU64,
    unsent_since: AtomicU64,
    /// Requests share the connection: bytes cannot be told to belong to one of them.
    shared: AtomicBool,
    /// How many requests have begun.
    begun: AtomicU64,
    /// The number of the first request whose head can be read in two ways.
    ambiguous: AtomicU64,
}

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Look again after so long.
    Wait(Duration),
    /// The client is too slow with a head.
    SlowHead,
    /// Nothing was asked for too long.
    Idle,
    /// The client neither reads nor sends what is waited for.
    Stalled,
}

impl Activity {
    /// A connection that was just opened: the first head is awaited.
    pub(crate) fn new() -> Self {
        Self {
            opened: Instant::now(),
            requests: AtomicU32::new(0),
            head_since: AtomicU64::new(1),
            idle_since: AtomicU64::new(1),
            unread_since: AtomicU64::new(NEVER),
            unsent_since: AtomicU64::new(NEVER),
            shared: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ambiguous: AtomicU64::new(u64::MAX),
        }
    }

    /// Requests will share this connection.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// A request begins; it is under way until what is returned is dropped. The second part says whether its head can be read in two
    /// ways.
    pub(crate) fn begin(self: &Arc<Self>, gauge: &Gauge) -> (InFlight, bool) {
        self.head_since.store(NEVER, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let ambiguous = number >= self.ambiguous.load(Ordering::Relaxed);
        gauge.inc();
        (InFlight { activity: self.clone(), gauge: gauge.clone() }, ambiguous)
    }

    /// Whether a client is waited for that sends a body.
    pub(crate) fn awaits_body(&self, pending: bool) {
        if !self.shared.load(Ordering::Relaxed) {
            self.since(&self.unsent_since, pending);
        }
    }

    fn since(&self, since: &AtomicU64, is: bool) {
        if !is {
            since.store(NEVER, Ordering::Relaxed);
        } else if since.load(Ordering::Relaxed) == NEVER {
            since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// A head has begun and has not ended.
    pub(crate) fn is_in_head(&self) -> bool {
        self.head_since.load(Ordering::Relaxed) != NEVER
    }

    /// Bytes were read: of a head, if no request is under way.
    fn read_some(&self) {
        if self.requests.load(Ordering::Relaxed) == 0 && !self.shared.load(Ordering::Relaxed) {
            self.since(&self.head_since, true);
        }
    }

    /// What is to be done now.
    pub(crate) fn verdict(&self, limits: &ClientLimits) -> Verdict {
        let now = self.now();
        let left = |since: &AtomicU64, limit: Duration| {
            let since = since.load(Ordering::Relaxed);
            (since != NEVER).then(|| limit.saturating_sub(Duration::from_millis(now.saturating_sub(since))))
        };
        let mut next = limits.stall;
        for since in [&self.unread_since, &self.unsent_since] {
            match left(since, limits.stall) {
                Some(Duration::ZERO) => return Verdict::Stalled,
                Some(left) => next = next.min(left),
                None => {}
            }
        }
        if self.requests.load(Ordering::Relaxed) == 0 {
            let (since, limit, verdict) = if self.is_in_head() {
                (&self.head_since, limits.head, Verdict::SlowHead)
            } else {
                (&self.idle_since, limits.idle, Verdict::Idle)
            };
            match left(since, limit) {
                Some(Duration::ZERO) => return verdict,
                Some(left) => next = next.min(left),
                None => {}
            }
        }
        Verdict::Wait(next.max(Duration::from_millis(1)))
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    activity: Arc<Activity>,
    gauge: Gauge,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
        self.activity.unsent_since.store(NEVER, Ordering::Relaxed);
        self.activity.idle_since.store(self.activity.now(), Ordering::Relaxed);
        self.activity.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that tells what happens on it.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    walker: Walker,
}

impl<S> Watched<S> {
    /// Watches a stream.
    pub(crate) fn new(stream: S, activity: &Arc<Activity>) -> Self {
        Self { stream, activity: activity.clone(), walker: Walker::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        if let Some(bytes) = buf.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            this.activity.read_some();
            if !this.activity.shared.load(Ordering::Relaxed)
                && let Some(head) = this.walker.feed(bytes)
            {
                this.activity.ambiguous.store(head, Ordering::Relaxed);
            }
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    fn wrote<T>(&self, polled: Poll<T>) -> Poll<T> {
        self.activity.since(&self.activity.unread_since, polled.is_pending());
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.wrote(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wrote(polled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ClientLimits = ClientLimits {
        connections: 1,
        head_bytes: 1,
        head: Duration::from_secs(10),
        idle: Duration::from_secs(120),
        stall: Duration::from_secs(300),
    };

    /// An activity whose connection was opened so long ago.
    fn opened(seconds: u64) -> Arc<Activity> {
        let opened = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        Arc::new(Activity { opened, ..Activity::new() })
    }

    /// W10, DOS-01.
    #[test]
    fn a_first_head_that_does_not_come_is_not_waited_for() {
        assert!(matches!(opened(1).verdict(&LIMITS), Verdict::Wait(left) if left <= Duration::from_secs(9)));
        assert_eq!(opened(11).verdict(&LIMITS), Verdict::SlowHead);
    }

    #[test]
    fn an_idle_connection_lives_as_long_as_it_may_and_a_busy_one_longer() {
        let activity = opened(200);
        let (request, _) = activity.begin(&Gauge::default());
        assert!(matches!(activity.verdict(&LIMITS), Verdict::Wait(_)), "a request is under way");
        drop(request);
        assert!(matches!(activity.verdict(&LIMITS), Verdict::Wait(_)), "it is idle from now on");
        activity.idle_since.store(1, Ordering::Relaxed);
        assert_eq!(activity.verdict(&LIMITS), Verdict::Idle);
        activity.read_some();
        assert!(matches!(activity.verdict(&LIMITS), Verdict::Wait(left) if left <= LIMITS.head));
    }

    #[test]
    fn a_client_that_does_not_read_or_send_is_stalled() {
        for which in [0, 1] {
            let activity = opened(400);
            let _request = activity.begin(&Gauge::default());
            let since = if which == 0 { &activity.unread_since } else { &activity.unsent_since };
            since.store(1, Ordering::Relaxed);
            assert_eq!(activity.verdict(&LIMITS), Verdict::Stalled);
            activity.since(since, false);
            assert!(matches!(activity.verdict(&LIMITS), Verdict::Wait(_)));
        }
    }

    #[test]
    fn bytes_of_a_shared_connection_are_no_head() {
        let activity = opened(50);
        activity.share();
        drop(activity.begin(&Gauge::default()));
        activity.read_some();
        assert!(!activity.is_in_head());
    }
}
