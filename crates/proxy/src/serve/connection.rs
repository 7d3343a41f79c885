//! Serves one client connection.

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

use super::activity::{Activity, MonitoredStream, TimeoutStatus};
use super::handler;
use super::peer::Peer;
use super::socket;
use super::worker::{Accepted, OpenConnection, Purpose, Worker};
use crate::settings::Http2Settings;
use crate::upstream::body::ResponseBody;

/// The HTTP/2 connection preface (prior knowledge).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Interval at which the rest of a preface is peeked for.
const PEEK_INTERVAL: Duration = Duration::from_millis(10);

/// HTTP/2 keep-alive: ping interval, and the deadline for the reply.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Streams reset by the client and not yet processed; more close the connection (rapid reset attack).
const MAX_PENDING_RESETS: usize = 20;
/// Streams reset by the proxy because of client errors; more close the connection.
const MAX_LOCAL_RESETS: usize = 256;

/// Connection-level receive window. Each stream alone may have the window of `--http2-max-size`; a hundred of
/// them at once would exhaust a sidecar's memory.
const MAX_CONNECTION_WINDOW: u32 = 4 << 20;

/// Send buffer per HTTP/2 stream.
const SEND_BUFFER: usize = 64 * 1024;

/// Serves one connection until it closes. Each branch is boxed: otherwise every connection would need the
/// memory of the largest branch for its whole lifetime.
pub(crate) async fn run(worker: Arc<Worker>, accepted: Accepted, open: OpenConnection) {
    let Accepted { stream, address, purpose, slot } = accepted;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    socket::set_options(&stream);
    let activity = Arc::new(Activity::new());
    let peer = |certificates| Arc::new(Peer::new(address, certificates, activity.clone(), slot));
    match purpose {
        Purpose::Plain => {
            let is_http2 = if worker.config.http2.enabled {
                match timeout(worker.config.limits.header_timeout, has_http2_preface(&stream)).await {
                    Ok(is_http2) => is_http2,
                    Err(_) => {
                        return tracing::debug!(client = %address, "timed out waiting for the first request");
                    }
                }
            } else {
                false
            };
            Box::pin(serve(worker, MonitoredStream::new(stream, &activity), peer(Vec::new()), is_http2))
                .await;
        }
        Purpose::Tls | Purpose::Endpoints(_) => {
            let Some(stream) = Box::pin(accept_tls(&worker, stream, address)).await else { return };
            let session = stream.get_ref().1;
            let is_http2 = session.alpn_protocol() == Some(b"h2");
            let presented = session.peer_certificates().unwrap_or_default();
            let certificates = presented.iter().map(|one| one.clone().into_owned()).collect();
            let peer = peer(certificates);
            match purpose {
                Purpose::Endpoints(endpoints) => {
                    Box::pin(endpoints.serve(
                        stream,
                        is_http2,
                        &worker.config.shutdown,
                        worker.config.limits.header_timeout,
                    ))
                    .await;
                }
                _ => Box::pin(serve(worker, MonitoredStream::new(stream, &activity), peer, is_http2)).await,
            }
        }
    }
    drop(open);
}

/// Performs the TLS handshake, in the task of the connection and with a deadline, so that a silent client
/// blocks no other one.
async fn accept_tls(worker: &Worker, stream: TcpStream, address: IpAddr) -> Option<TlsStream<TcpStream>> {
    let tls = TlsAcceptor::from(worker.config.tls.clone()?);
    match timeout(worker.config.limits.header_timeout, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(client = %address, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(client = %address, "TLS handshake timed out"),
    }
    None
}

/// Peeks whether the connection starts with the HTTP/2 preface.
async fn has_http2_preface(stream: &TcpStream) -> bool {
    let mut seen = [0; PREFACE.len()];
    loop {
        let Ok(count) = stream.peek(&mut seen).await else { return false };
        let (seen, expected) = (seen.get(..count), PREFACE.get(..count));
        if count == 0 || seen != expected {
            return false;
        }
        if count == PREFACE.len() {
            return true;
        }
        // The preface normally arrives in one packet; a client that splits it waits a little.
        tokio::time::sleep(PEEK_INTERVAL).await;
    }
}

async fn serve<S>(worker: Arc<Worker>, stream: S, peer: Arc<Peer>, is_http2: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (service_worker, activity) = (worker.clone(), peer.activity.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (worker, peer) = (service_worker.clone(), peer.clone());
        async move { Ok::<Response<ResponseBody>, Infallible>(handler::handle(&worker, &peer, request).await) }
    });
    if is_http2 {
        activity.set_multiplexed();
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
    // The header timeout is enforced by `drive`; hyper's would also close idle connections.
    builder
        .header_read_timeout(None)
        .max_header_size(worker.config.limits.max_header_bytes)
        .max_buf_size(worker.config.limits.max_header_bytes)
        .timer(TokioTimer::new());
    builder
}

fn http2(worker: &Worker) -> http2::Builder<TokioExecutor> {
    let Http2Settings { streams, size, .. } = worker.config.http2;
    let window = size.saturating_mul(streams).min(MAX_CONNECTION_WINDOW).max(size);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_frame_size(size)
        .initial_stream_window_size(size)
        .initial_connection_window_size(window)
        .max_header_list_size(u32::try_from(worker.config.limits.max_header_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_LOCAL_RESETS)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

enum Event {
    Ended,
    Shutdown,
    CheckTimeouts,
}

/// Drives a connection until it closes, is shut down, or times out.
async fn drive<C, E>(worker: &Worker, activity: &Activity, connection: C, graceful: impl Fn(Pin<&mut C>))
where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let mut connection = pin!(connection);
    let mut timer = pin!(sleep_until(Instant::now() + worker.config.limits.header_timeout));
    let mut shutdown = pin!(worker.config.shutdown.triggered());
    let mut is_shutting_down = false;
    // Timer and shutdown wake this task once registered, so they are polled again only when they can be
    // ready.
    let mut is_registered = false;
    loop {
        let event = std::future::poll_fn(|cx| {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection failed");
                }
                return Poll::Ready(Event::Ended);
            }
            let poll_shutdown = !is_registered || worker.config.shutdown.is_triggered();
            if !is_shutting_down && poll_shutdown && shutdown.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Shutdown);
            }
            // Reached only when headers arrive in pieces: their deadline is earlier than the timer's.
            if activity.is_reading_head()
                && timer.deadline() > Instant::now() + worker.config.limits.header_timeout
            {
                timer.as_mut().reset(Instant::now() + worker.config.limits.header_timeout);
                is_registered = false;
            }
            if is_registered && !timer.is_elapsed() {
                return Poll::Pending;
            }
            is_registered = true;
            timer.as_mut().poll(cx).map(|()| Event::CheckTimeouts)
        })
        .await;
        is_registered = false;
        match event {
            Event::Ended => return,
            Event::Shutdown => {
                is_shutting_down = true;
                graceful(connection.as_mut());
            }
            Event::CheckTimeouts => match activity.check_timeouts(&worker.config.limits) {
                TimeoutStatus::CheckAfter(wait) => timer.as_mut().reset(Instant::now() + wait),
                TimeoutStatus::Idle => {
                    // Sends GOAWAY on HTTP/2; the client may have sent a request just now.
                    graceful(connection.as_mut());
                    timer.as_mut().reset(Instant::now() + worker.config.limits.header_timeout);
                    if timeout(worker.config.limits.header_timeout, connection.as_mut()).await.is_ok() {
                        return;
                    }
                }
                status @ (TimeoutStatus::SlowHead | TimeoutStatus::Stalled) => {
                    tracing::debug!(?status, "client timed out; closing connection");
                    return;
                }
            },
        }
    }
}
