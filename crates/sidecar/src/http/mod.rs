//! The HTTP API: HTTP/1.0 and HTTP/1.1 without TLS, on a TCP port or a Unix socket.

mod authn;
mod chain_request;
mod listener;
pub mod openapi;
mod path;
mod request_body;
mod response;
mod router;
mod task_kind;
mod task_response;
mod timeout_io;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::listener::Listener;

use self::listener::Connection;
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

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole API.
    Full,
    /// Only `GET /v0/healthz`: every container of a pod reaches its loopback ports.
    Health,
}

/// Serves until `shutdown` is cancelled, then finishes the requests in progress and closes all connections.
pub async fn serve(
    listener: Listener,
    scope: Scope,
    engine: Engine,
    metrics: Metrics,
    shutdown: CancellationToken,
) {
    let router = Router { engine, metrics, scope };
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        match accepted {
            Ok((connection, slot)) => {
                let (router, shutdown) = (router.clone(), shutdown.clone());
                match connection {
                    Connection::Tcp(stream) => {
                        connections.spawn(serve_connection(stream, slot, router, shutdown))
                    }
                    Connection::Unix(stream) => {
                        connections.spawn(serve_connection(stream, slot, router, shutdown))
                    }
                };
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
    listener: &Listener,
    slots: &Arc<Semaphore>,
) -> std::io::Result<(Connection, Option<OwnedSemaphorePermit>)> {
    // Never closed.
    let slot = slots.clone().acquire_owned().await.ok();
    Ok((listener.accept().await?, slot))
}

async fn serve_connection<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    slot: Option<OwnedSemaphorePermit>,
    router: Router,
    shutdown: CancellationToken,
) {
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
