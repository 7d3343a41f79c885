//! A connection whose reads and writes have limits: who opens one and says nothing, or does not read, is not kept.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// From the first byte of a head to its last; also how long a new connection may say nothing.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Between two requests.
const IDLE_FOR: Duration = Duration::from_secs(60);
/// How long a client may not read.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);

/// Where a connection stands, as far as reading goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase(Arc<AtomicU8>);

const HEAD: u8 = 0;
const ANSWERING: u8 = 1;
const IDLE: u8 = 2;

impl Phase {
    /// A request was read; its body has a limit of its own.
    pub(super) fn answering(&self) {
        self.0.store(ANSWERING, Ordering::Relaxed);
    }

    /// It was answered.
    pub(super) fn idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// A connection with limits.
pub(super) struct Limited {
    stream: TcpStream,
    phase: Phase,
    /// For which phase the timer runs.
    timed: Option<u8>,
    reading: Pin<Box<Sleep>>,
    writing: Pin<Box<Sleep>>,
    is_writing: bool,
}

impl Limited {
    pub(super) fn new(stream: TcpStream, phase: Phase) -> Self {
        let now = || Box::pin(tokio::time::sleep_until(Instant::now()));
        Self { stream, phase, timed: None, reading: now(), writing: now(), is_writing: false }
    }

    fn write_limit(&mut self, context: &mut Context<'_>, pending: bool) -> Poll<io::Error> {
        if !pending {
            self.is_writing = false;
            return Poll::Pending;
        }
        if !self.is_writing {
            self.is_writing = true;
            self.writing.as_mut().reset(Instant::now() + WRITTEN_WITHIN);
        }
        self.writing.as_mut().poll(context).map(|()| timed_out())
    }
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

impl AsyncRead for Limited {
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
            HEAD => HEAD_WITHIN,
            IDLE => IDLE_FOR,
            _ => {
                self.timed = None;
                return Poll::Pending;
            }
        };
        if self.timed != Some(phase) {
            self.timed = Some(phase);
            self.reading.as_mut().reset(Instant::now() + limit);
        }
        self.reading.as_mut().poll(context).map(|()| Err(timed_out()))
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        match self.write_limit(context, written.is_pending()) {
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
