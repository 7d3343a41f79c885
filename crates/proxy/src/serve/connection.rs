//! One connection of a client, from its first byte to its last.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::activity::{Activity, Verdict, Watched};
use super::handler;
use super::peer::Peer;
use super::socket;
use super::worker::{Accepted, Open, Purpose, Worker};
use crate::upstream::body::Reply;

/// How an HTTP/2 connection begins when both sides know beforehand.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long until the rest of a preface is looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How often a client of HTTP/2 is asked whether it is still there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// Streams that a client has reset and we have not looked at yet; more end the connection (rapid reset).
const PENDING_RESETS: usize = 20;
/// Streams that we had to reset; more end the connection.
const OUR_RESETS: usize = 256;

/// What a client of HTTP/2 may send before any of it is passed on, over all of its streams. Each of them alone may be as large as
/// the flag says; a hundred at once would take all of a sidecar's memory.
const LARGEST_WINDOW: u32 = 4 << 20;

/// What HTTP/2 holds back per stream until it can be written.
const SEND_BUFFER: usize = 64 * 1024;

/// Serves one connection to its end. Each way of that is in a box of its own: a connection would else take as much memory as the
/// largest of all ways, as long as it stands.
pub(crate) async fn run(worker: Arc<Worker>, accepted: Accepted, open: Open) {
    let Accepted { stream, address, purpose, place } = accepted;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    socket::prepare(&stream);
    let activity = Arc::new(Activity::new());
    let peer = |certificates| Arc::new(Peer::new(address, certificates, activity.clone(), place));
    match purpose {
        Purpose::Plain => {
            let is_http2 = if worker.http2.enabled {
                match timeout(worker.limits.head, begins_with_preface(&stream)).await {
                    Ok(is_http2) => is_http2,
                    Err(_) => return tracing::debug!(client = %address, "no request in time"),
                }
            } else {
                false
            };
            Box::pin(serve(worker, Watched::new(stream, &activity), peer(Vec::new()), is_http2)).await;
        }
        Purpose::Tls | Purpose::Endpoints(_) => {
            let Some(stream) = Box::pin(secured(&worker, stream, address)).await else { return };
            let session = stream.get_ref().1;
            let is_http2 = session.alpn_protocol() == Some(b"h2");
            let shown = session.peer_certificates().unwrap_or_default();
            let certificates = shown.iter().map(|one| one.clone().into_owned()).collect();
            let peer = peer(certificates);
            match purpose {
                Purpose::Endpoints(endpoints) => {
                    Box::pin(endpoints.serve(stream, is_http2, &worker.stop, worker.limits.head)).await;
                }
                _ => Box::pin(serve(worker, Watched::new(stream, &activity), peer, is_http2)).await,
            }
        }
    }
    drop(open);
}

/// The connection, once TLS is agreed on. In its own task and with a deadline: a client that says nothing holds up nobody.
async fn secured(worker: &Worker, stream: TcpStream, address: IpAddr) -> Option<TlsStream<TcpStream>> {
    let tls = TlsAcceptor::from(worker.tls.clone()?);
    match timeout(worker.limits.head, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(client = %address, %error, "no TLS"),
        Err(_) => tracing::debug!(client = %address, "no TLS in time"),
    }
    None
}

/// Whether the first bytes are those of HTTP/2. They stay where they are.
async fn begins_with_preface(stream: &TcpStream) -> bool {
    let mut seen = [0; PREFACE.len()];
    loop {
        let Ok(count) = stream.peek(&mut seen).await else { return false };
        let (seen, wanted) = (seen.get(..count), PREFACE.get(..count));
        if count == 0 || seen != wanted {
            return false;
        }
        if count == PREFACE.len() {
            return true;
        }
        // They come together; who sends them one by one waits a little.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn serve<S>(worker: Arc<Worker>, stream: S, peer: Arc<Peer>, is_http2: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (to, activity) = (worker.clone(), peer.activity.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (worker, peer) = (to.clone(), peer.clone());
        async move { Ok::<Response<Reply>, Infallible>(handler::serve(&worker, &peer, request).await) }
    });
    if is_http2 {
        activity.share();
        let connection = http2(&worker).serve_connection(io, service);
        let graceful = |connection: Pin<&mut http2::Connection<_, _, _>>| connection.graceful_shutdown();
        Box::pin(drive(&worker, &activity, connection, graceful)).await;
    } else {
        let connection = http1(&worker).serve_connection(io, service).with_upgrades();
        let graceful =
            |connection: Pin<&mut http1::UpgradeableConnection<_, _>>| connection.graceful_shutdown();
        Box::pin(drive(&worker, &activity, connection, graceful)).await;
    }
}

fn http1(worker: &Worker) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Heads have a deadline of ours, which leaves idle connections alone.
    builder
        .header_read_timeout(None)
        .max_header_size(worker.limits.head_bytes)
        .max_buf_size(worker.limits.head_bytes)
        .timer(TokioTimer::new());
    builder
}

fn http2(worker: &Worker) -> http2::Builder<TokioExecutor> {
    let window =
        worker.http2.size.saturating_mul(worker.http2.streams).min(LARGEST_WINDOW).max(worker.http2.size);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(worker.http2.streams)
        .max_frame_size(worker.http2.size)
        .initial_stream_window_size(worker.http2.size)
        .initial_connection_window_size(window)
        .max_header_list_size(u32::try_from(worker.limits.head_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(OUR_RESETS)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    builder
}

enum Event {
    Ended,
    Stop,
    Look,
}

/// Lets a connection go on until it ends, is told to, or does nothing for too long.
async fn drive<C, E>(worker: &Worker, activity: &Activity, connection: C, graceful: impl Fn(Pin<&mut C>))
where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let mut connection = pin!(connection);
    let mut look = pin!(sleep_until(Instant::now() + worker.limits.head));
    let mut stop = pin!(worker.stop.heard());
    let mut stopping = false;
    // Both wake this task by themselves, once they know it: they are asked again only when they have something to say.
    let mut known = false;
    loop {
        let event = std::future::poll_fn(|cx| {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke");
                }
                return Poll::Ready(Event::Ended);
            }
            let asked = !known || worker.stop.is_said();
            if !stopping && asked && stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Stop);
            }
            // Only a head that came in pieces is seen here: its deadline is nearer than the one that was set.
            if activity.is_in_head() && look.deadline() > Instant::now() + worker.limits.head {
                look.as_mut().reset(Instant::now() + worker.limits.head);
                known = false;
            }
            if known && !look.is_elapsed() {
                return Poll::Pending;
            }
            known = true;
            look.as_mut().poll(cx).map(|()| Event::Look)
        })
        .await;
        known = false;
        match event {
            Event::Ended => return,
            Event::Stop => {
                stopping = true;
                graceful(connection.as_mut());
            }
            Event::Look => match activity.verdict(&worker.limits) {
                Verdict::Wait(wait) => look.as_mut().reset(Instant::now() + wait),
                Verdict::Idle => {
                    // A client of HTTP/2 is told; it may have sent a request just now.
                    graceful(connection.as_mut());
                    look.as_mut().reset(Instant::now() + worker.limits.head);
                    if timeout(worker.limits.head, connection.as_mut()).await.is_ok() {
                        return;
                    }
                }
                verdict @ (Verdict::SlowHead | Verdict::Stalled) => {
                    tracing::debug!(?verdict, "a connection is closed");
                    return;
                }
            },
        }
    }
}
