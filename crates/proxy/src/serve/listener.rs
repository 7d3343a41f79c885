//! Accepts connections and assigns each to the worker with the fewest.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};

use super::shutdown::Shutdown;
use super::slots::ConnectionSlots;
use super::worker::{Accepted, Handle, Purpose};

/// Connections queued by the kernel.
const BACKLOG: u32 = 4096;

/// Pause after a failed accept, e.g. without free file descriptors: an immediate retry would take a whole
/// CPU.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    purpose: Purpose,
}

impl Listener {
    /// Listens on `HOST:PORT`; without a host, on all interfaces.
    pub(crate) async fn bind(address: &str, purpose: Purpose) -> std::io::Result<Self> {
        let address = resolve(address).await?;
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { socket: socket.listen(BACKLOG)?, purpose })
    }

    /// Returns the local address.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts connections until the shutdown; then the socket is closed.
    pub(crate) async fn run(
        self,
        workers: Arc<Vec<Handle>>,
        slots: Arc<ConnectionSlots>,
        shutdown: Shutdown,
    ) {
        loop {
            let accepted = tokio::select! {
                () = shutdown.triggered() => return,
                accepted = self.accept(&slots) => accepted,
            };
            match accepted {
                Ok(accepted) => {
                    if let Some(worker) = workers.iter().min_by_key(|worker| worker.open_connections()) {
                        worker.assign(accepted);
                    }
                }
                Err(error) if is_client_error(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "accept failed; retrying");
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
    }

    async fn accept(&self, slots: &ConnectionSlots) -> std::io::Result<Accepted> {
        let (stream, address) = self.socket.accept().await?;
        // Deregisters the stream from this thread's runtime; the worker registers it with its own.
        let stream = stream.into_std()?;
        Ok(Accepted { stream, address: address.ip(), purpose: self.purpose.clone(), slot: slots.take() })
    }
}

/// Returns whether the error concerns the client's connection and not the listener.
fn is_client_error(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn resolve(address: &str) -> std::io::Result<SocketAddr> {
    let all_interfaces = address.starts_with(':').then(|| format!("[::]{address}"));
    let found = tokio::net::lookup_host(all_interfaces.as_deref().unwrap_or(address)).await?.next();
    found.ok_or_else(|| std::io::Error::other("host name resolves to no address"))
}
