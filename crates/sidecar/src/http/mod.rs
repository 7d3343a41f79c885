//! The HTTP API: HTTP/1.0 and 1.1 in the clear.

mod answer;
mod authn;
mod io;
pub mod openapi;
mod path;
mod route;
mod submission;

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

use self::io::{Limited, Phase};
use self::route::Router;
use crate::engine::Engine;
use crate::metrics::Metrics;

/// The longest head of a request.
const LONGEST_HEAD: usize = 32 << 10;

/// Connections at once. Above that, others wait to be accepted.
const CONNECTIONS: usize = 256;

/// After a failure to accept, such as too many open files: else the loop spins.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Listens. Where there is no IPv6, on all addresses of IPv4.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(_) if address.is_ipv6() => TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await,
        bound => bound,
    }
}

/// Serves until the token is cancelled; then requests that are under way are answered, and connections close.
pub async fn serve(listener: TcpListener, engine: Engine, metrics: Metrics, end: CancellationToken) {
    let router = Router { engine, metrics };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = end.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                connections.spawn(connection(stream, place, router.clone(), end.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, Option<OwnedSemaphorePermit>)> {
    // It is never closed.
    let place = places.clone().acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn connection(
    stream: TcpStream,
    place: Option<OwnedSemaphorePermit>,
    router: Router,
    end: CancellationToken,
) {
    // Only slower without it.
    let _ = stream.set_nodelay(true);
    let phase = Phase::default();
    let io = TokioIo::new(Limited::new(stream, phase.clone()));
    let service = service_fn(move |request| {
        let (router, phase) = (router.clone(), phase.clone());
        async move {
            phase.answering();
            let answer = router.answer(request).await;
            phase.idle();
            Ok::<_, Infallible>(answer)
        }
    });
    let served = http1::Builder::new().max_buf_size(LONGEST_HEAD).serve_connection(io, service);
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = end.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
    drop(place);
}
