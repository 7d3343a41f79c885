//! Client side: listener, TLS, and closing or resetting connections.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::exchange::{self, Shared};
use super::identity::ClientIdentity;
use super::kill::PendingKill;
use crate::sync::lock;

/// Lets a request reset or close its connection.
#[derive(Debug, Default)]
pub(super) struct Control {
    reset: Notify,
    pending_kill: Mutex<Option<PendingKill>>,
}

impl Control {
    /// Resets the connection and aborts all requests on it.
    pub(super) async fn reset(&self) -> Infallible {
        self.reset.notify_one();
        std::future::pending().await
    }

    /// Kills a process when the connection ends: after a clean close, or before a reset is sent. The request cannot
    /// do this itself, because its task is aborted when the client disconnects.
    pub(super) fn kill_on_close(&self, kill: PendingKill) {
        *self.pending_kill() = Some(kill);
    }

    async fn run_pending_kill(&self, shared: &Shared) {
        let kill = self.pending_kill().take();
        if let Some(kill) = kill {
            kill.run(&shared.journal).await;
        }
    }

    fn pending_kill(&self) -> std::sync::MutexGuard<'_, Option<PendingKill>> {
        lock(&self.pending_kill)
    }
}

/// Serves until the task is aborted; all connections are closed with it.
pub(super) async fn serve(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    connections.spawn(serve_connection(tcp, acceptor.clone(), shared.clone()));
                }
                // A dead listener must be reported: otherwise it looks like an injected fault.
                Err(error) => return shared.journal.fail(format!("accepting connections: {error}")),
            },
            // Reaps closed connections.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(tcp: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    // Failure only costs latency. A failed handshake is reported to the client by TLS itself.
    let _ = tcp.set_nodelay(true);
    let Ok(stream) = acceptor.accept(tcp).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let identity = match certificate.map(ClientIdentity::from_certificate).transpose() {
        Ok(identity) => identity,
        Err(error) => return shared.journal.fail(error.to_string()),
    };
    let control = Arc::new(Control::default());
    let service = service_fn(|request| {
        let exchange = exchange::handle(shared.clone(), control.clone(), identity.clone(), request);
        async { Ok::<_, Infallible>(exchange.await) }
    });
    let mut connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = control.reset.notified() => {
            let stream = connection.into_parts().io.into_inner();
            control.run_pending_kill(&shared).await;
            // Makes the kernel send RST on close and discard unsent data.
            if let Err(error) = stream.get_ref().0.set_zero_linger() {
                shared.journal.fail(format!("resetting a connection: {error}"));
            }
        }
        // The client may disconnect at any time.
        _ = &mut connection => {}
    }
    control.run_pending_kill(&shared).await;
}
