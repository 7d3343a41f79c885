//! Bodies on their way through: never gathered, never copied.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::pool::Lease;
use crate::request::connection;
use crate::request::protected::Protected;
use crate::serve::activity::{Activity, InFlight};

/// The body of a request on its way to the upstream.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// None.
    Empty,
    /// As the client sends it.
    Stream(Box<Stream>),
}

/// A body that the client is still sending.
#[derive(Debug)]
pub(crate) struct Stream {
    body: Incoming,
    ended: Arc<AtomicBool>,
    protected: Arc<Protected>,
    activity: Arc<Activity>,
}

impl Outgoing {
    /// Passes a body on. The second part tells whether it has ended.
    pub(crate) fn new(
        body: Incoming,
        protected: &Arc<Protected>,
        activity: &Arc<Activity>,
    ) -> (Self, Option<Arc<AtomicBool>>) {
        if body.is_end_stream() {
            return (Self::Empty, None);
        }
        let ended = Arc::new(AtomicBool::new(false));
        let (protected, activity) = (protected.clone(), activity.clone());
        (Self::Stream(Box::new(Stream { body, ended: ended.clone(), protected, activity })), Some(ended))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self::Stream(stream) = self.get_mut() else { return Poll::Ready(None) };
        let Stream { body, ended, protected, activity } = &mut **stream;
        let polled = Pin::new(&mut *body).poll_frame(cx);
        activity.awaits_body(polled.is_pending());
        polled.map(|frame| match frame {
            Some(Ok(frame)) => {
                if body.is_end_stream() {
                    ended.store(true, Ordering::Release);
                }
                match frame.into_trailers() {
                    Ok(mut trailers) => {
                        // Whoever may not say who he is in a header may not do so behind the body either.
                        protected.strip(&mut trailers);
                        connection::strip_response(&mut trailers);
                        Some(Ok(Frame::trailers(trailers)))
                    }
                    Err(frame) => Some(Ok(frame)),
                }
            }
            None => {
                ended.store(true, Ordering::Release);
                None
            }
            failed => failed,
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stream(stream) => stream.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Stream(stream) => stream.body.size_hint(),
        }
    }
}

/// The body of an answer on its way to the client.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The proxy's own.
    Text(Bytes),
    /// The upstream's.
    Upstream(Passing),
}

/// A body that the upstream is still sending. While it lives, the request is under way.
#[derive(Debug)]
pub(crate) struct Passing {
    body: Incoming,
    lease: Option<Lease>,
    _in_flight: InFlight,
}

impl Reply {
    /// Passes the upstream's body on; the connection is given back when it has ended.
    pub(crate) fn passing(body: Incoming, mut lease: Option<Lease>, in_flight: InFlight) -> Self {
        if body.is_end_stream() {
            give_back(&mut lease);
        }
        Self::Upstream(Passing { body, lease, _in_flight: in_flight })
    }
}

fn give_back(lease: &mut Option<Lease>) {
    if let Some(lease) = lease.take() {
        lease.give_back();
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Text(text) if text.is_empty() => Poll::Ready(None),
            Self::Text(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Self::Upstream(Passing { body, lease, .. }) => {
                let polled = Pin::new(&mut *body).poll_frame(cx);
                match &polled {
                    Poll::Ready(None) => give_back(lease),
                    Poll::Ready(Some(Ok(_))) if body.is_end_stream() => give_back(lease),
                    // A connection that broke is not used again.
                    Poll::Ready(Some(Err(_))) => drop(lease.take()),
                    _ => {}
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Upstream(passing) => passing.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(u64::try_from(text.len()).unwrap_or(u64::MAX)),
            Self::Upstream(passing) => passing.body.size_hint(),
        }
    }
}
