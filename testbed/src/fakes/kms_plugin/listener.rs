//! The socket of a plugin, and how whoever connects is met.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
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
use super::script::Stage;
use super::service::Aes;
use crate::error::{IoContext, Result};

/// How a connection is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It is served.
    Serve,
    /// It is accepted and closed.
    Close,
    /// It is accepted, and reset as soon as something was sent.
    Reset,
    /// It is accepted, and nothing else ever happens.
    Ignore,
    /// It is sent these bytes, and then nothing.
    Send(Vec<u8>),
    /// It is sent these bytes, and closed.
    SendAndClose(Vec<u8>),
}

impl Manner {
    /// A server that speaks HTTP/1.1.
    #[must_use]
    pub fn http1() -> Self {
        Self::SendAndClose(
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n".to_vec(),
        )
    }

    /// A server that speaks TLS: what it sends to somebody who does not, an alert.
    #[must_use]
    pub fn tls() -> Self {
        Self::SendAndClose(vec![0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46])
    }

    /// A server that stops in the middle of a frame.
    #[must_use]
    pub fn half_frame() -> Self {
        Self::Send(vec![0x00, 0x00, 0x12, 0x04, 0x00])
    }
}

/// A socket that is listened on; whoever is connected is cut when it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    accepting: JoinHandle<()>,
    open: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Listener {
    pub(super) fn bind(socket: &Path, stage: &Arc<Stage>) -> Result<Self> {
        let listener = UnixListener::bind(socket).context(|| format!("listening on {}", socket.display()))?;
        let open = Arc::new(Mutex::new(Vec::<AbortHandle>::new()));
        let (stage, connections) = (stage.clone(), open.clone());
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // Out of descriptors: some are given back soon.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                stage.count(|calls| calls.accepted += 1);
                let connection = tokio::spawn(meet(stream, stage.clone())).abort_handle();
                let mut open = connections.lock().unwrap_or_else(PoisonError::into_inner);
                open.retain(|connection| !connection.is_finished());
                open.push(connection);
            }
        });
        Ok(Self { accepting, open })
    }

    /// How many connections are open.
    pub(super) fn connections(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter(|connection| !connection.is_finished()).count()
    }

    /// Cuts every connection.
    pub(super) fn cut(&self) {
        for connection in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            connection.abort();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn meet(mut stream: UnixStream, stage: Arc<Stage>) {
    // Whoever connected may go at any time: nobody is told of that.
    match stage.manner() {
        Manner::Serve => serve(stream, stage).await,
        Manner::Close => {}
        Manner::Reset => {
            // Closing a socket with unread bytes resets it.
            let _ = stream.readable().await;
        }
        Manner::Ignore => std::future::pending().await,
        Manner::Send(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending().await
        }
        Manner::SendAndClose(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
    }
}

async fn serve(stream: UnixStream, stage: Arc<Stage>) {
    let service = KeyManagementServiceServer::new(Aes { stage: stage.clone() });
    let served = service_fn(move |mut request: Request<Incoming>| {
        if stage.script().other_service {
            *request.uri_mut() = http::Uri::from_static("/v1beta1.KeyManagementService/Version");
        }
        let mut service = service.clone();
        async move { Ok::<_, Infallible>(infallible(service.call(request).await)) }
    });
    // Ends when the client goes.
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), served).await;
}

fn infallible<T>(result: std::result::Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
    }
}
