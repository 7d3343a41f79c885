//! Tracks activity on a connection, for the header, idle and stall timeouts.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::FramingScanner;
use crate::settings::ClientLimits;

/// Stands for "not set".
const NEVER: u64 = 0;

/// Activity on one connection. Times are milliseconds since it was opened, plus one.
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    requests: AtomicU32,
    head_since: AtomicU64,
    idle_since: AtomicU64,
    /// The client does not read the response.
    write_blocked_since: AtomicU64,
    /// The client does not send the rest of a body.
    body_pending_since: AtomicU64,
    /// Requests are multiplexed (HTTP/2): bytes cannot be attributed to one of them.
    is_multiplexed: AtomicBool,
    /// Number of requests started.
    started: AtomicU64,
    /// Number of the first request with ambiguous framing.
    first_ambiguous: AtomicU64,
}

/// Result of a timeout check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeoutStatus {
    /// No timeout yet; check again after this time.
    CheckAfter(Duration),
    /// The request headers did not arrive in time.
    SlowHead,
    /// No request for too long.
    Idle,
    /// The client neither reads nor sends what the proxy waits for.
    Stalled,
}

impl Activity {
    /// Starts with a new connection that waits for its first request headers.
    pub(crate) fn new() -> Self {
        Self {
            opened: Instant::now(),
            requests: AtomicU32::new(0),
            head_since: AtomicU64::new(1),
            idle_since: AtomicU64::new(1),
            write_blocked_since: AtomicU64::new(NEVER),
            body_pending_since: AtomicU64::new(NEVER),
            is_multiplexed: AtomicBool::new(false),
            started: AtomicU64::new(0),
            first_ambiguous: AtomicU64::new(u64::MAX),
        }
    }

    /// Marks the connection as multiplexed.
    pub(crate) fn set_multiplexed(&self) {
        self.is_multiplexed.store(true, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Starts a request, which is in flight until the guard is dropped. The flag is true when its framing is
    /// ambiguous.
    pub(crate) fn begin_request(self: &Arc<Self>, gauge: &Gauge) -> (InFlight, bool) {
        self.head_since.store(NEVER, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let is_ambiguous = number >= self.first_ambiguous.load(Ordering::Relaxed);
        gauge.inc();
        (InFlight { activity: self.clone(), gauge: gauge.clone() }, is_ambiguous)
    }

    /// Records whether the proxy waits for the client to send a body.
    pub(crate) fn set_body_pending(&self, pending: bool) {
        if !self.is_multiplexed.load(Ordering::Relaxed) {
            self.set_since(&self.body_pending_since, pending);
        }
    }

    fn set_since(&self, since: &AtomicU64, is_pending: bool) {
        if !is_pending {
            since.store(NEVER, Ordering::Relaxed);
        } else if since.load(Ordering::Relaxed) == NEVER {
            since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Returns whether request headers have started and not ended.
    pub(crate) fn is_reading_head(&self) -> bool {
        self.head_since.load(Ordering::Relaxed) != NEVER
    }

    /// Records a read. Without a request in flight, the bytes belong to request headers.
    fn record_read(&self) {
        if self.requests.load(Ordering::Relaxed) == 0 && !self.is_multiplexed.load(Ordering::Relaxed) {
            self.set_since(&self.head_since, true);
        }
    }

    /// Checks all timeouts.
    pub(crate) fn check_timeouts(&self, limits: &ClientLimits) -> TimeoutStatus {
        let now = self.now();
        let left = |since: &AtomicU64, limit: Duration| {
            let since = since.load(Ordering::Relaxed);
            (since != NEVER).then(|| limit.saturating_sub(Duration::from_millis(now.saturating_sub(since))))
        };
        let mut next = limits.stall_timeout;
        for since in [&self.write_blocked_since, &self.body_pending_since] {
            match left(since, limits.stall_timeout) {
                Some(Duration::ZERO) => return TimeoutStatus::Stalled,
                Some(left) => next = next.min(left),
                None => {}
            }
        }
        if self.requests.load(Ordering::Relaxed) == 0 {
            let (since, limit, expired) = if self.is_reading_head() {
                (&self.head_since, limits.header_timeout, TimeoutStatus::SlowHead)
            } else {
                (&self.idle_since, limits.idle_timeout, TimeoutStatus::Idle)
            };
            match left(since, limit) {
                Some(Duration::ZERO) => return expired,
                Some(left) => next = next.min(left),
                None => {}
            }
        }
        TimeoutStatus::CheckAfter(next.max(Duration::from_millis(1)))
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    activity: Arc<Activity>,
    gauge: Gauge,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
        self.activity.body_pending_since.store(NEVER, Ordering::Relaxed);
        self.activity.idle_since.store(self.activity.now(), Ordering::Relaxed);
        self.activity.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that reports its reads and writes to an [`Activity`] and scans HTTP/1 framing.
#[derive(Debug)]
pub(crate) struct MonitoredStream<S> {
    stream: S,
    activity: Arc<Activity>,
    scanner: FramingScanner,
}

impl<S> MonitoredStream<S> {
    /// Wraps a stream.
    pub(crate) fn new(stream: S, activity: &Arc<Activity>) -> Self {
        Self { stream, activity: activity.clone(), scanner: FramingScanner::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        if let Some(bytes) = buf.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            this.activity.record_read();
            if !this.activity.is_multiplexed.load(Ordering::Relaxed)
                && let Some(head) = this.scanner.scan(bytes)
            {
                this.activity.first_ambiguous.store(head, Ordering::Relaxed);
            }
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> MonitoredStream<S> {
    fn record_write<T>(&self, polled: Poll<T>) -> Poll<T> {
        self.activity.set_since(&self.activity.write_blocked_since, polled.is_pending());
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.record_write(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.record_write(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.record_write(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.record_write(polled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ClientLimits = ClientLimits {
        max_connections: 1,
        max_header_bytes: 1,
        header_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(120),
        stall_timeout: Duration::from_secs(300),
    };

    /// The activity of a connection opened this many seconds ago.
    fn opened(seconds: u64) -> Arc<Activity> {
        let opened = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        Arc::new(Activity { opened, ..Activity::new() })
    }

    #[test]
    fn missing_request_headers_time_out() {
        assert!(
            matches!(opened(1).check_timeouts(&LIMITS), TimeoutStatus::CheckAfter(left) if left <= Duration::from_secs(9))
        );
        assert_eq!(opened(11).check_timeouts(&LIMITS), TimeoutStatus::SlowHead);
    }

    #[test]
    fn idle_timeout_applies_only_without_requests() {
        let activity = opened(200);
        let (request, _) = activity.begin_request(&Gauge::default());
        assert!(
            matches!(activity.check_timeouts(&LIMITS), TimeoutStatus::CheckAfter(_)),
            "a request is in flight"
        );
        drop(request);
        assert!(matches!(activity.check_timeouts(&LIMITS), TimeoutStatus::CheckAfter(_)), "idle since now");
        activity.idle_since.store(1, Ordering::Relaxed);
        assert_eq!(activity.check_timeouts(&LIMITS), TimeoutStatus::Idle);
        activity.record_read();
        assert!(
            matches!(activity.check_timeouts(&LIMITS), TimeoutStatus::CheckAfter(left) if left <= LIMITS.header_timeout)
        );
    }

    #[test]
    fn client_that_neither_reads_nor_sends_is_stalled() {
        for which in [0, 1] {
            let activity = opened(400);
            let _request = activity.begin_request(&Gauge::default());
            let since = if which == 0 { &activity.write_blocked_since } else { &activity.body_pending_since };
            since.store(1, Ordering::Relaxed);
            assert_eq!(activity.check_timeouts(&LIMITS), TimeoutStatus::Stalled);
            activity.set_since(since, false);
            assert!(matches!(activity.check_timeouts(&LIMITS), TimeoutStatus::CheckAfter(_)));
        }
    }

    #[test]
    fn reads_on_multiplexed_connection_are_not_headers() {
        let activity = opened(50);
        activity.set_multiplexed();
        drop(activity.begin_request(&Gauge::default()));
        activity.record_read();
        assert!(!activity.is_reading_head());
    }
}
