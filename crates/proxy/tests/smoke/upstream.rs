//! An upstream that responds with the request headers it received.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use runtime::sync::lock;
use serde_json::Value;
use testbed::Error;
use testbed::harness::wait;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::fixture::SOON;

/// An upstream; stopped on drop.
pub struct Upstream {
    address: SocketAddr,
    stop: CancellationToken,
    requested: Arc<Mutex<Vec<String>>>,
    slow: Arc<Semaphore>,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Upstream {
    /// Starts an upstream.
    pub async fn start() -> Result<Self, Error> {
        let io = |source| Error::Io { what: "starting an upstream".into(), source };
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(io)?;
        let address = listener.local_addr().map_err(io)?;
        let (stop, requested, slow) = (CancellationToken::new(), Arc::default(), Arc::new(Semaphore::new(0)));
        let serving = serve(listener, stop.clone(), Arc::clone(&requested), slow.clone());
        let task = Some(tokio::spawn(serving));
        Ok(Self { address, stop, requested, slow, task })
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Stops listening and closes all connections.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }

    /// Completes the requests for `/slow`.
    pub fn release(&self) {
        self.slow.add_permits(1_000);
    }

    /// Waits until a path was requested `times` times.
    pub async fn wait_for_requests(&self, path: &str, times: usize) -> Result<(), Error> {
        wait::until(format!("{times} requests for {path}"), SOON, || async {
            let requested = lock(&self.requested).clone();
            if requested.iter().filter(|one| *one == path).count() == times {
                Ok(())
            } else {
                Err(format!("requested so far: {requested:?}"))
            }
        })
        .await
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn serve(
    listener: TcpListener,
    stop: CancellationToken,
    requested: Arc<Mutex<Vec<String>>>,
    slow: Arc<Semaphore>,
) {
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            Ok((stream, _)) = listener.accept() => stream,
        };
        let (stop, requested, slow) = (stop.clone(), requested.clone(), slow.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let (requested, slow) = (requested.clone(), slow.clone());
                async move {
                    let path = request.uri().path().to_owned();
                    lock(&requested).push(path.clone());
                    if path == "/slow" {
                        drop(slow.acquire().await);
                    }
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(headers(&request).to_string()))))
                }
            });
            let serving =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = stop.cancelled() => {}
                _ = serving => {}
            }
        });
    }
}

/// Returns each header with its value; a list when it occurs several times.
fn headers(request: &Request<Incoming>) -> Value {
    let text =
        |value: &http::HeaderValue| Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned());
    let one = |name: &http::HeaderName| {
        let mut lines: Vec<Value> = request.headers().get_all(name).iter().map(text).collect();
        let value = if lines.len() == 1 { lines.remove(0) } else { Value::from(lines) };
        (name.to_string(), value)
    };
    Value::Object(request.headers().keys().map(one).collect())
}
