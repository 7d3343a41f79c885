//! Submissions over connections that stay open.

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

/// A task that ends at once, whoever does it: its parameters are wrong. What is measured is taking it, and storing its end.
const TASK: &str = r#""type":"await-condition","params":{"condition":"none"}"#;

/// How long the last tasks may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

fn broken(error: impl std::fmt::Display) -> Error {
    Error::Refused(format!("talking to the sidecar: {error}"))
}

async fn connect(port: u16) -> Result<SendRequest<Full<Bytes>>, Error> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It ends with the sender.
    tokio::spawn(connection);
    Ok(sender)
}

async fn ask(
    sender: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: String,
) -> Result<(u16, Bytes), Error> {
    sender.ready().await.map_err(broken)?;
    let request = Request::builder().method(method).uri(path).header("host", "sidecar");
    let answer = sender.send_request(request.body(Full::new(body.into())).map_err(broken)?).await;
    let answer = answer.map_err(broken)?;
    let code = answer.status().as_u16();
    Ok((code, answer.into_body().collect().await.map_err(broken)?.to_bytes()))
}

/// Whether it serves.
pub async fn serves(port: u16) -> bool {
    let asked = async {
        let mut sender = connect(port).await?;
        ask(&mut sender, "GET", "/v0/livez", String::new()).await
    };
    matches!(asked.await, Ok((200, _)))
}

/// Submits so many tasks, and tells how long each took.
pub async fn submit(port: u16, tasks: usize, connections: usize) -> Result<Vec<Duration>, Error> {
    let each = tasks.div_ceil(connections);
    let clients = (0..connections).map(|number| {
        let count = each.min(tasks.saturating_sub(number * each));
        tokio::spawn(async move {
            let mut sender = connect(port).await?;
            let mut times = Vec::with_capacity(count);
            for _ in 0..count {
                let body = format!("{{\"id\":\"{}\",{TASK}}}", uuid::Uuid::new_v4());
                let begin = Instant::now();
                let (code, answer) = ask(&mut sender, "POST", "/v0/tasks", body).await?;
                times.push(begin.elapsed());
                if code != 201 {
                    return Err(Error::Refused(format!("{code}: {}", String::from_utf8_lossy(&answer))));
                }
            }
            Ok(times)
        })
    });
    let mut all = Vec::with_capacity(tasks);
    for client in clients.collect::<Vec<_>>() {
        all.extend(client.await.map_err(broken)??);
    }
    Ok(all)
}

async fn newest(port: u16) -> Result<Vec<Value>, Error> {
    let mut sender = connect(port).await?;
    let (_, body) = ask(&mut sender, "GET", "/v0/tasks", String::new()).await?;
    serde_json::from_slice(&body).map_err(broken)
}

/// Waits until the newest tasks have ended.
pub async fn all_ended(running: &Running) -> Result<(), Error> {
    wait::until("the end of all tasks", ENDS_WITHIN, || async {
        let tasks = newest(running.port).await.map_err(|error| error.to_string())?;
        let left = tasks.iter().filter(|task| task["status"] == "running").count();
        if left == 0 { Ok(()) } else { Err(format!("{left} run")) }
    })
    .await
}

/// Fails if a task of the process that was killed is not there, or has not ended.
pub async fn nothing_lost(running: &Running) -> Result<(), Error> {
    let tasks = newest(running.port).await?;
    let ended = tasks.iter().filter(|task| task["status"] == "failed").count();
    if ended == 100 {
        Ok(())
    } else {
        Err(Error::Refused(format!("{ended} of the newest 100 tasks have ended")))
    }
}
