//! Streaming bodies: never buffered as a whole, never copied.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::pool::Lease;
use crate::request::hop_by_hop;
use crate::request::protected::ProtectedHeaders;
use crate::serve::activity::{Activity, InFlight};

/// The request body sent to the upstream.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// No body.
    Empty,
    /// Streamed from the client.
    Stream(Box<ClientBody>),
}

/// A request body that the client is still sending.
#[derive(Debug)]
pub(crate) struct ClientBody {
    body: Incoming,
    has_ended: Arc<AtomicBool>,
    not_in_trailers: Arc<ProtectedHeaders>,
    activity: Arc<Activity>,
}

impl RequestBody {
    /// Forwards a client body without these headers as trailers. The flag is set once the body has ended.
    pub(crate) fn new(
        body: Incoming,
        not_in_trailers: &Arc<ProtectedHeaders>,
        activity: &Arc<Activity>,
    ) -> (Self, Option<Arc<AtomicBool>>) {
        if body.is_end_stream() {
            return (Self::Empty, None);
        }
        let has_ended = Arc::new(AtomicBool::new(false));
        let body = ClientBody {
            body,
            has_ended: has_ended.clone(),
            not_in_trailers: not_in_trailers.clone(),
            activity: activity.clone(),
        };
        (Self::Stream(Box::new(body)), Some(has_ended))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self::Stream(stream) = self.get_mut() else { return Poll::Ready(None) };
        let ClientBody { body, has_ended, not_in_trailers, activity } = &mut **stream;
        let polled = Pin::new(&mut *body).poll_frame(cx);
        activity.set_body_pending(polled.is_pending());
        polled.map(|frame| match frame {
            Some(Ok(frame)) => {
                if body.is_end_stream() {
                    has_ended.store(true, Ordering::Release);
                }
                match frame.into_trailers() {
                    Ok(mut trailers) => {
                        // Headers that the proxy sets or authorizes must not arrive as trailers either.
                        not_in_trailers.strip(&mut trailers);
                        hop_by_hop::strip_response(&mut trailers);
                        Some(Ok(Frame::trailers(trailers)))
                    }
                    Err(frame) => Some(Ok(frame)),
                }
            }
            None => {
                has_ended.store(true, Ordering::Release);
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

/// The response body sent to the client.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// Text of the proxy itself.
    Text(Bytes),
    /// Streamed from the upstream.
    Upstream(UpstreamBody),
}

/// A response body that the upstream is still sending. The request is in flight as long as it lives.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    body: Incoming,
    lease: Option<Lease>,
    _in_flight: InFlight,
}

impl ResponseBody {
    /// Forwards an upstream body and releases the connection when it has ended.
    pub(crate) fn from_upstream(body: Incoming, mut lease: Option<Lease>, in_flight: InFlight) -> Self {
        if body.is_end_stream() {
            release(&mut lease);
        }
        Self::Upstream(UpstreamBody { body, lease, _in_flight: in_flight })
    }
}

fn release(lease: &mut Option<Lease>) {
    if let Some(lease) = lease.take() {
        lease.release();
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Text(text) if text.is_empty() => Poll::Ready(None),
            Self::Text(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Self::Upstream(UpstreamBody { body, lease, .. }) => {
                let polled = Pin::new(&mut *body).poll_frame(cx);
                match &polled {
                    Poll::Ready(None) => release(lease),
                    Poll::Ready(Some(Ok(_))) if body.is_end_stream() => release(lease),
                    // A failed connection is not reused.
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
            Self::Upstream(upstream) => upstream.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(u64::try_from(text.len()).unwrap_or(u64::MAX)),
            Self::Upstream(upstream) => upstream.body.size_hint(),
        }
    }
}
