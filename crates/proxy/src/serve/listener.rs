//! Accepts connections and gives each to the worker that has fewest.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

use super::stop::Stop;
use super::worker::{Accepted, Handle, Purpose};

/// Connections that the kernel holds for us.
const BACKLOG: u32 = 4096;

/// How long is waited when there are no descriptors left: trying at once would take all of a processor.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    purpose: Purpose,
}

impl Listener {
    /// Listens at `HOST:PORT`; without a host, everywhere.
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

    /// Where it listens.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts until `stop`; then nobody listens any more.
    pub(crate) async fn run(self, workers: Arc<Vec<Handle>>, places: Arc<Semaphore>, stop: Stop) {
        loop {
            let accepted = tokio::select! {
                () = stop.heard() => return,
                accepted = self.accept(&places) => accepted,
            };
            match accepted {
                Ok(accepted) => {
                    if let Some(worker) = workers.iter().min_by_key(|worker| worker.open()) {
                        worker.give(accepted);
                    }
                }
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn accept(&self, places: &Arc<Semaphore>) -> std::io::Result<Accepted> {
        // More than may be open wait in the kernel, and are not answered by us.
        let place = places.clone().acquire_owned().await.map_err(std::io::Error::other)?;
        let (stream, address) = self.socket.accept().await?;
        // It belongs to this thread's runtime until it is given away.
        let stream = stream.into_std()?;
        Ok(Accepted { stream, address: address.ip(), purpose: self.purpose.clone(), place })
    }
}

/// Errors of the connection that was to be accepted, and not of ours.
fn is_of_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn resolve(address: &str) -> std::io::Result<SocketAddr> {
    let everywhere = address.starts_with(':').then(|| format!("[::]{address}"));
    let found = tokio::net::lookup_host(everywhere.as_deref().unwrap_or(address)).await?.next();
    found.ok_or_else(|| std::io::Error::other("no address has this name"))
}
