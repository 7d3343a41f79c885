//! Client of the sidecar of a node, through its proxy, with or without a token.

use std::net::IpAddr;

use api::names::{object, port};
use api::sidecar_wire::path;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cluster::kubectl;
use crate::demo::platform;
use crate::demo::sei_nodes::{SeiNodes, TIMEOUT};
use crate::error::{Error, IoContext, Result};
use crate::harness::wait;

/// A client, anonymous or with a bearer token.
pub struct SidecarClient {
    token: Option<String>,
}

impl SidecarClient {
    /// Client without a token.
    pub const ANONYMOUS: Self = Self { token: None };

    /// Client with a token of a ServiceAccount in the namespace of the nodes. The proxy of `node` accepts it, and no other.
    pub fn service_account(nodes: &SeiNodes<'_>, name: &str, node: &str) -> Result<Self> {
        Self::with_token_for(nodes, (platform::NAMESPACE, name), node)
    }

    /// Client with a token of the operator. The proxy of `node` accepts it, and no other.
    pub fn operator(nodes: &SeiNodes<'_>, node: &str) -> Result<Self> {
        Self::with_token_for(nodes, platform::OPERATOR, node)
    }

    fn with_token_for(nodes: &SeiNodes<'_>, (namespace, name): (&str, &str), node: &str) -> Result<Self> {
        let audience = object::sidecar_audience(node, platform::NAMESPACE);
        Self::with_token(nodes, &["create", "token", name, "--namespace", namespace, "--audience", &audience])
    }

    /// Client with the token that a `kubectl create token` command prints.
    pub fn with_token(nodes: &SeiNodes<'_>, create: &[&str]) -> Result<Self> {
        let token = kubectl::run(nodes.plane(), create, None)?;
        Ok(Self { token: Some(token.trim().to_owned()) })
    }

    /// Sends a GET, or a POST if there is a body, and returns status code and body.
    pub async fn request(&self, host: IpAddr, path: &str, body: Option<&Value>) -> Result<(u16, String)> {
        let what = || format!("requesting {path} from {host}");
        let mut stream = TcpStream::connect((host, port::PROXY as u16)).await.context(what)?;
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.map(Value::to_string).unwrap_or_default();
        let token = self.token.iter().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: sidecar\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n{body}",
            body.len(),
            token.collect::<String>(),
        );
        stream.write_all(request.as_bytes()).await.context(what)?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await.context(what)?;
        let code = response.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        code.map(|code| (code, body)).ok_or_else(|| Error::Other(format!("{}: {response:?}", what())))
    }

    /// Submits a task, waits for its completion and returns its result. Resubmits failed tasks like the operator does:
    /// DNS names may not resolve yet, and servers may be busy.
    pub async fn run_task(
        &self,
        nodes: &SeiNodes<'_>,
        node: &str,
        kind: &str,
        params: &Value,
    ) -> Result<Value> {
        let task = json!({ "id": task_id(node, kind, params), "type": kind, "params": params });
        let task_path = format!("{}/{}", path::TASKS, task["id"].as_str().unwrap_or_default());
        wait::until(format!("{kind} of {node} to complete"), TIMEOUT, || async {
            let host = nodes.address(node).await?;
            let (code, body) = self.request(host, &task_path, None).await?;
            let observed: Value = serde_json::from_str(body.trim()).unwrap_or_default();
            let status = observed["status"].as_str();
            if status == Some("completed") {
                return Ok(observed["result"].clone());
            }
            let mut outcome = format!("{kind} of {node}: {code} {body}");
            if code == 404 || status == Some("failed") {
                let (code, body) = self.request(host, path::TASKS, Some(&task)).await?;
                outcome = format!("{outcome}; submitted: {code} {body}");
            }
            Err(Error::Other(outcome))
        })
        .await
    }
}

/// Returns the same ID for the same task, so that a task submitted twice runs once.
fn task_id(node: &str, kind: &str, params: &Value) -> String {
    let text = format!("{node} {kind} {params}");
    let number = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("00000000-0000-4000-8000-{:012x}", number & 0xffff_ffff_ffff)
}
