//! A stream with read and write timeouts, so that idle or stalled clients do not hold connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Timeout of a request head, and of the first byte on a new connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout between two requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a write may be blocked by a client that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The phase of a connection; it selects the read timeout.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionPhase(Arc<AtomicU8>);

const HEAD: u8 = 0;
const RESPONDING: u8 = 1;
const IDLE: u8 = 2;

impl ConnectionPhase {
    /// A request head was read. Reading the body has its own timeout.
    pub(super) fn set_responding(&self) {
        self.0.store(RESPONDING, Ordering::Relaxed);
    }

    /// The request was answered.
    pub(super) fn set_idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// A stream with timeouts.
pub(super) struct TimeoutStream<S> {
    stream: S,
    phase: ConnectionPhase,
    /// The phase the read timer was started for.
    timer_phase: Option<u8>,
    read_timer: Pin<Box<Sleep>>,
    write_timer: Pin<Box<Sleep>>,
    is_writing: bool,
}

impl<S> TimeoutStream<S> {
    pub(super) fn new(stream: S, phase: ConnectionPhase) -> Self {
        let now = || Box::pin(tokio::time::sleep_until(Instant::now()));
        Self { stream, phase, timer_phase: None, read_timer: now(), write_timer: now(), is_writing: false }
    }

    fn poll_write_timeout(&mut self, context: &mut Context<'_>, pending: bool) -> Poll<io::Error> {
        if !pending {
            self.is_writing = false;
            return Poll::Pending;
        }
        if !self.is_writing {
            self.is_writing = true;
            self.write_timer.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        }
        self.write_timer.as_mut().poll(context).map(|()| timed_out())
    }
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let phase = self.phase.0.load(Ordering::Relaxed);
        if read.is_ready() {
            if phase == IDLE && buffer.filled().len() > before {
                self.phase.0.store(HEAD, Ordering::Relaxed);
            }
            return read;
        }
        let limit = match phase {
            HEAD => HEAD_TIMEOUT,
            IDLE => IDLE_TIMEOUT,
            _ => {
                self.timer_phase = None;
                return Poll::Pending;
            }
        };
        if self.timer_phase != Some(phase) {
            self.timer_phase = Some(phase);
            self.read_timer.as_mut().reset(Instant::now() + limit);
        }
        self.read_timer.as_mut().poll(context).map(|()| Err(timed_out()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        match self.poll_write_timeout(context, written.is_pending()) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => written,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
