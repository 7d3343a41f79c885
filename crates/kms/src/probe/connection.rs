//! One connection to a plugin. Whatever runs for it ends when it is dropped: a plugin that hangs must not cost a descriptor for
//! each probe.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;
use http::uri::PathAndQuery;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use plan::kms::call::Failure;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use tower::service_fn;

use super::codec::{Bytes, Raw};
use super::failure;

/// Most bytes of the heads and trailers of an answer: an error's text is in them, in which every other byte may take three.
const HEADERS_LIMIT: u32 = 64 * 1024;

/// How much a plugin may send unasked. More than an answer is never needed.
const WINDOW: u32 = 128 * 1024;

#[derive(Debug)]
pub(super) struct Connection {
    send: http2::SendRequest<tonic::body::Body>,
    _tasks: Tether,
}

impl Connection {
    /// Dials, and says at once when that fails.
    pub(super) async fn open(socket: &Path) -> Result<Self, Failure> {
        let stream = UnixStream::connect(socket).await.map_err(|error| failure::of_dial(&error))?;
        let tasks = Tasks::default();
        let tether = Tether(tasks.clone());
        let (send, driver) = http2::Builder::new(tasks.clone())
            .max_header_list_size(HEADERS_LIMIT)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failure::of_transport(&error))?;
        hyper::rt::Executor::execute(&tasks, async move {
            // How it ended is told to whoever waits for the answer.
            let _ = driver.await;
        });
        Ok(Self { send, _tasks: tether })
    }

    /// Whether its other end has not closed it, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.send.is_closed()
    }

    /// Makes one call.
    pub(super) async fn unary(
        &self,
        method: PathAndQuery,
        request: Bytes,
        answer_limit: usize,
    ) -> Result<Bytes, Failure> {
        let send = self.send.clone();
        let service = service_fn(move |request| {
            let mut send = send.clone();
            async move {
                send.ready().await?;
                send.send_request(request).await
            }
        });
        let mut client = tonic::client::Grpc::with_origin(service, Uri::from_static("http://localhost"))
            .max_decoding_message_size(answer_limit);
        client.ready().await.map_err(|error| failure::of_transport(&error))?;
        let answer = client.unary(tonic::Request::new(request), method, Raw).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failure::of_status(&status))
    }
}

/// Starts the tasks of a connection, and remembers them.
#[derive(Clone, Debug, Default)]
struct Tasks {
    running: Arc<Mutex<Vec<AbortHandle>>>,
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let handle = tokio::spawn(task).abort_handle();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Each call may have tasks of its own, and there may be very many calls.
        running.retain(|task| !task.is_finished());
        running.push(handle);
    }
}

/// Ends the tasks of a connection.
#[derive(Debug)]
struct Tether(Tasks);

impl Drop for Tether {
    fn drop(&mut self) {
        for task in self.0.running.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}
