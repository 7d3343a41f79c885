//! Submits tasks over keep-alive connections.

use std::time::{Duration, Instant};

use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use testbed::Error;
use testbed::harness::wait;
use tokio::net::TcpStream;

use crate::contender::Running;

/// A task that fails at once because of invalid parameters: the benchmark measures submission and storing the result.
const TASK: &str = r#""type":"await-condition","params":{"condition":"none"}"#;

/// Timeout of the last tasks.
const FINISH_TIMEOUT: Duration = Duration::from_secs(60);

fn request_failed(error: impl std::fmt::Display) -> Error {
    Error::Other(format!("request to the sidecar failed: {error}"))
}

async fn connect(port: u16) -> Result<SendRequest<Full<Bytes>>, Error> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(request_failed)?;
    stream.set_nodelay(true).map_err(request_failed)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(request_failed)?;
    // Ends when the sender is dropped.
    tokio::spawn(connection);
    Ok(sender)
}

async fn request(
    sender: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: String,
) -> Result<(u16, Bytes), Error> {
    sender.ready().await.map_err(request_failed)?;
    let builder = Request::builder().method(method).uri(path).header("host", "sidecar");
    let response = sender.send_request(builder.body(Full::new(body.into())).map_err(request_failed)?).await;
    let response = response.map_err(request_failed)?;
    let code = response.status().as_u16();
    Ok((code, response.into_body().collect().await.map_err(request_failed)?.to_bytes()))
}

/// Returns whether the sidecar serves.
pub async fn serves(port: u16) -> bool {
    let response = async {
        let mut sender = connect(port).await?;
        request(&mut sender, "GET", "/v0/livez", String::new()).await
    };
    matches!(response.await, Ok((200, _)))
}

/// Submits tasks and returns the duration of each submission.
pub async fn submit(port: u16, tasks: usize, connections: usize) -> Result<Vec<Duration>, Error> {
    let each = tasks.div_ceil(connections);
    let clients = (0..connections).map(|number| {
        let count = each.min(tasks.saturating_sub(number * each));
        tokio::spawn(async move {
            let mut sender = connect(port).await?;
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let body = format!("{{\"id\":\"{}\",{TASK}}}", uuid::Uuid::new_v4());
                let start = Instant::now();
                let (code, response) = request(&mut sender, "POST", "/v0/tasks", body).await?;
                times.push(start.elapsed());
                if code != 201 {
                    return Err(Error::Other(format!("{code}: {}", String::from_utf8_lossy(&response))));
                }
            }
            Ok(times)
        })
    });
    let mut all = Vec::with_capacity(tasks);
    for client in clients.collect::<Vec<_>>() {
        all.extend(client.await.map_err(request_failed)??);
    }
    Ok(all)
}

async fn newest(port: u16) -> Result<Vec<Value>, Error> {
    let mut sender = connect(port).await?;
    let (_, body) = request(&mut sender, "GET", "/v0/tasks", String::new()).await?;
    serde_json::from_slice(&body).map_err(request_failed)
}

/// Waits until the newest tasks have finished.
pub async fn wait_all_finished(running: &Running) -> Result<(), Error> {
    wait::until("all tasks to finish", FINISH_TIMEOUT, || async {
        let tasks = newest(running.port).await.map_err(|error| error.to_string())?;
        let left = tasks.iter().filter(|task| task["status"] == "running").count();
        if left == 0 { Ok(()) } else { Err(format!("{left} running")) }
    })
    .await
}

/// Fails if a task of the killed process is missing or unfinished.
pub async fn assert_nothing_lost(running: &Running) -> Result<(), Error> {
    let tasks = newest(running.port).await?;
    let finished = tasks.iter().filter(|task| task["status"] == "failed").count();
    if finished == 100 {
        Ok(())
    } else {
        Err(Error::Other(format!("{finished} of the newest 100 tasks are finished")))
    }
}
