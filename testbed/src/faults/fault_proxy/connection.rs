//! The side of the clients: listening, TLS, and the two ends of a connection, an orderly one and a reset.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::exchange::{self, Shared};
use super::execution::Execution;
use super::identity::Holder;

/// What a request can do to the connection that it came over.
#[derive(Debug, Default)]
pub(super) struct Control {
    reset: Notify,
    last_act: Mutex<Option<Execution>>,
}

impl Control {
    /// Resets the connection, and everything that is done over it.
    pub(super) async fn reset(&self) -> Infallible {
        self.reset.notify_one();
        std::future::pending().await
    }

    /// Kills a process at the connection's end: after an orderly one, and before a reset is sent. The one who asks for it
    /// cannot do it himself: a client that goes away takes the work on its requests with it.
    pub(super) fn kill_at_the_end(&self, execution: Execution) {
        *self.last_act() = Some(execution);
    }

    async fn carry_out_last_act(&self, shared: &Shared) {
        let execution = self.last_act().take();
        if let Some(execution) = execution {
            execution.carry_out(&shared.journal).await;
        }
    }

    fn last_act(&self) -> std::sync::MutexGuard<'_, Option<Execution>> {
        self.last_act.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until it is dropped; every connection ends with it.
pub(super) async fn serve(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    connections.spawn(serve_one(tcp, acceptor.clone(), shared.clone()));
                }
                // A proxy that nobody can reach any more must say so, and not look like a fault.
                Err(error) => return shared.journal.fail(format!("listening for clients: {error}")),
            },
            // Those that have ended are forgotten.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_one(tcp: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    // What cannot be set only costs time; who does not get through TLS is told why by it.
    let _ = tcp.set_nodelay(true);
    let Ok(stream) = acceptor.accept(tcp).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let holder = match certificate.map(Holder::of).transpose() {
        Ok(holder) => holder,
        Err(error) => return shared.journal.fail(error.to_string()),
    };
    let control = Arc::new(Control::default());
    let service = service_fn(|request| {
        let exchange = exchange::handle(shared.clone(), control.clone(), holder.clone(), request);
        async { Ok::<_, Infallible>(exchange.await) }
    });
    let mut connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = control.reset.notified() => {
            let stream = connection.into_parts().io.into_inner();
            control.carry_out_last_act(&shared).await;
            // Closed with this set, the kernel sends RST and throws away what it has not sent yet.
            if let Err(error) = stream.get_ref().0.set_zero_linger() {
                shared.journal.fail(format!("resetting a connection: {error}"));
            }
        }
        // A client that goes away is no failure of ours.
        _ = &mut connection => {}
    }
    control.carry_out_last_act(&shared).await;
}
