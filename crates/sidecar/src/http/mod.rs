//! The HTTP API: HTTP/1.0 and HTTP/1.1 without TLS.

mod authn;
mod chain_request;
pub mod openapi;
mod path;
mod response;
mod router;
mod task_request;
mod task_response;
mod timeout_io;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::router::Router;
use self::timeout_io::{ConnectionPhase, TimeoutStream};
use crate::engine::Engine;
use crate::metrics::Metrics;

/// The largest accepted request head.
const MAX_HEAD: usize = 32 << 10;

/// Maximum number of connections; further ones wait in the accept queue.
const MAX_CONNECTIONS: usize = 256;

/// Pause after a failed accept, for example with too many open files, to avoid a busy loop.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Binds the listener. Falls back to IPv4 if the host has no IPv6.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(_) if address.is_ipv6() => TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await,
        bound => bound,
    }
}

/// Serves until `shutdown` is cancelled, then finishes the requests in progress and closes all connections.
pub async fn serve(listener: TcpListener, engine: Engine, metrics: Metrics, shutdown: CancellationToken) {
    let router = Router { engine, metrics };
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        match accepted {
            Ok((stream, slot)) => {
                connections.spawn(serve_connection(stream, slot, router.clone(), shutdown.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, Option<OwnedSemaphorePermit>)> {
    // Never closed.
    let slot = slots.clone().acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}

async fn serve_connection(
    stream: TcpStream,
    slot: Option<OwnedSemaphorePermit>,
    router: Router,
    shutdown: CancellationToken,
) {
    // An optimization only.
    let _ = stream.set_nodelay(true);
    let phase = ConnectionPhase::default();
    let io = TokioIo::new(TimeoutStream::new(stream, phase.clone()));
    let service = service_fn(move |request| {
        let (router, phase) = (router.clone(), phase.clone());
        async move {
            phase.set_responding();
            let response = router.handle(request).await;
            phase.set_idle();
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new().max_buf_size(MAX_HEAD).serve_connection(io, service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection error");
    }
    drop(slot);
}
