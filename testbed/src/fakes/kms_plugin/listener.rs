//! The Unix socket of a plugin and its handling of connections.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinHandle};
use tonic::codegen::Service;

use super::interface::key_management_service_server::KeyManagementServiceServer;
use super::script::PluginState;
use super::service::KmsService;
use crate::error::{IoContext, Result};
use crate::sync::lock;

/// Behavior towards new connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionBehavior {
    /// Serves KMS v2.
    Serve,
    /// Accepts and closes.
    Close,
    /// Accepts, and resets after the first bytes.
    Reset,
    /// Accepts and does nothing.
    Ignore,
    /// Sends these bytes, then nothing.
    Send(Vec<u8>),
    /// Sends these bytes and closes.
    SendAndClose(Vec<u8>),
}

impl ConnectionBehavior {
    /// Behaves like an HTTP/1.1 server.
    #[must_use]
    pub fn http1() -> Self {
        Self::SendAndClose(
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n".to_vec(),
        )
    }

    /// Behaves like a TLS server: sends the alert for a plaintext client.
    #[must_use]
    pub fn tls() -> Self {
        Self::SendAndClose(vec![0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46])
    }

    /// Stops in the middle of a frame.
    #[must_use]
    pub fn half_frame() -> Self {
        Self::Send(vec![0x00, 0x00, 0x12, 0x04, 0x00])
    }
}

/// A listening socket; all connections are closed when it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    accepting: JoinHandle<()>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Listener {
    pub(super) fn bind(socket: &Path, state: &Arc<PluginState>) -> Result<Self> {
        let listener = UnixListener::bind(socket).context(|| format!("listening on {}", socket.display()))?;
        let connections = Arc::new(Mutex::new(Vec::<AbortHandle>::new()));
        let (state, spawned) = (state.clone(), connections.clone());
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // Out of file descriptors; some are freed soon.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                state.count(|calls| calls.accepted += 1);
                let connection = tokio::spawn(handle_connection(stream, state.clone())).abort_handle();
                let mut open = lock(&spawned);
                open.retain(|connection| !connection.is_finished());
                open.push(connection);
            }
        });
        Ok(Self { accepting, connections })
    }

    /// Returns the number of open connections.
    pub(super) fn open_connections(&self) -> usize {
        let open = lock(&self.connections);
        open.iter().filter(|connection| !connection.is_finished()).count()
    }

    /// Closes all connections.
    pub(super) fn close_all(&self) {
        for connection in lock(&self.connections).drain(..) {
            connection.abort();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
        self.close_all();
    }
}

async fn handle_connection(mut stream: UnixStream, state: Arc<PluginState>) {
    // The client may disconnect at any time.
    match state.manner() {
        ConnectionBehavior::Serve => serve(stream, state).await,
        ConnectionBehavior::Close => {}
        ConnectionBehavior::Reset => {
            // Closing a socket with unread data resets it.
            let _ = stream.readable().await;
        }
        ConnectionBehavior::Ignore => std::future::pending().await,
        ConnectionBehavior::Send(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending().await
        }
        ConnectionBehavior::SendAndClose(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
    }
}

async fn serve(stream: UnixStream, state: Arc<PluginState>) {
    let service = KeyManagementServiceServer::new(KmsService { state: state.clone() });
    let served = service_fn(move |mut request: Request<Incoming>| {
        if state.script().wrong_service {
            *request.uri_mut() = http::Uri::from_static("/v1beta1.KeyManagementService/Version");
        }
        let mut service = service.clone();
        async move { Ok::<_, Infallible>(infallible(service.call(request).await)) }
    });
    // Ends when the client disconnects.
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), served).await;
}

fn infallible<T>(result: std::result::Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
    }
}
