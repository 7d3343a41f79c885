//! One HTTP/2 connection to a plugin. Dropping it aborts all of its tasks: a plugin that hangs must not leak a file descriptor per
//! probe.

use std::path::Path;
use std::sync::{Arc, Mutex};

use http::Uri;
use http::uri::PathAndQuery;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use plan::kms::call::CallError;
use runtime::sync::lock;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use tower::service_fn;

use super::codec::{Bytes, BytesCodec};
use super::failure;

/// Maximum size of response headers and trailers. The error message is in the trailers, percent-encoded to up to three times its size.
const HEADERS_LIMIT: u32 = 64 * 1024;

/// Flow control window: how much a plugin may send before it is read. Larger than any valid response.
const WINDOW: u32 = 128 * 1024;

#[derive(Debug)]
pub(super) struct Connection {
    send: http2::SendRequest<tonic::body::Body>,
    _abort: AbortOnDrop,
}

impl Connection {
    /// Connects. A failure is returned immediately.
    pub(super) async fn open(socket: &Path) -> Result<Self, CallError> {
        let stream =
            UnixStream::connect(socket).await.map_err(|error| failure::from_connect_error(&error))?;
        let tasks = ConnectionTasks::default();
        let abort = AbortOnDrop(tasks.clone());
        let (send, driver) = http2::Builder::new(tasks.clone())
            .max_header_list_size(HEADERS_LIMIT)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failure::from_transport_error(&error))?;
        hyper::rt::Executor::execute(&tasks, async move {
            // The pending call reports why the connection ended.
            let _ = driver.await;
        });
        Ok(Self { send, _abort: abort })
    }

    /// Reports whether the connection is usable, as far as this side knows.
    pub(super) fn is_open(&self) -> bool {
        !self.send.is_closed()
    }

    /// Makes a unary call.
    pub(super) async fn unary(
        &self,
        method: PathAndQuery,
        request: Bytes,
        response_limit: usize,
    ) -> Result<Bytes, CallError> {
        let send = self.send.clone();
        let service = service_fn(move |request| {
            let mut send = send.clone();
            async move {
                send.ready().await?;
                send.send_request(request).await
            }
        });
        let mut client = tonic::client::Grpc::with_origin(service, Uri::from_static("http://localhost"))
            .max_decoding_message_size(response_limit);
        client.ready().await.map_err(|error| failure::from_transport_error(&error))?;
        let response = client.unary(tonic::Request::new(request), method, BytesCodec).await;
        response.map(tonic::Response::into_inner).map_err(|status| failure::from_status(&status))
    }
}

/// Spawns the tasks of a connection and keeps their abort handles.
#[derive(Clone, Debug, Default)]
struct ConnectionTasks {
    running: Arc<Mutex<Vec<AbortHandle>>>,
}

impl<F> hyper::rt::Executor<F> for ConnectionTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let handle = tokio::spawn(task).abort_handle();
        let mut running = lock(&self.running);
        // Each call may spawn tasks, and one connection may serve very many calls.
        running.retain(|task| !task.is_finished());
        running.push(handle);
    }
}

/// Aborts the tasks of a connection.
#[derive(Debug)]
struct AbortOnDrop(ConnectionTasks);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        for task in lock(&self.0.running).drain(..) {
            task.abort();
        }
    }
}
