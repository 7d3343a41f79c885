//! A node's sidecar, asked through its proxy by whoever has a token, or by nobody.

use std::net::IpAddr;

use api::names::port;
use api::sidecar_wire::path;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cluster::kubectl;
use crate::demo::platform;
use crate::demo::sei_nodes::{SOON, SeiNodes};
use crate::error::{Error, IoContext, Result};
use crate::harness::wait;

/// Whom tokens for the proxies of this platform are for.
const AUDIENCE: &str = "--audience=sidecars.sei.io";

/// Who asks: nobody, or an account with its token.
pub struct Caller {
    token: Option<String>,
}

impl Caller {
    /// One that shows no token.
    pub const NOBODY: Self = Self { token: None };

    /// An account of the namespace for nodes, with a token for the proxies of this platform.
    pub fn account(nodes: &SeiNodes<'_>, name: &str) -> Result<Self> {
        Self::with_token(nodes, &["create", "token", name, "--namespace", platform::NAMESPACE, AUDIENCE])
    }

    /// The operator.
    pub fn operator(nodes: &SeiNodes<'_>) -> Result<Self> {
        let (namespace, name) = platform::OPERATOR;
        Self::with_token(nodes, &["create", "token", name, "--namespace", namespace, AUDIENCE])
    }

    /// Whoever has the token that kubectl creates.
    pub fn with_token(nodes: &SeiNodes<'_>, create: &[&str]) -> Result<Self> {
        let token = kubectl::run(nodes.plane(), create, None)?;
        Ok(Self { token: Some(token.trim().to_owned()) })
    }

    /// The code and the body of the answer to a request.
    pub async fn ask(&self, host: IpAddr, path: &str, sent: Option<&Value>) -> Result<(u16, String)> {
        let what = || format!("asking {host} for {path}");
        let mut stream = TcpStream::connect((host, port::PROXY as u16)).await.context(what)?;
        let body = sent.map(Value::to_string).unwrap_or_default();
        let method = if sent.is_some() { "POST" } else { "GET" };
        let token = self.token.iter().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: sidecar\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n{body}",
            body.len(),
            token.collect::<String>(),
        );
        stream.write_all(request.as_bytes()).await.context(what)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.context(what)?;
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        code.map(|code| (code, body)).ok_or_else(|| Error::Refused(format!("{}: {answer:?}", what())))
    }

    /// Has a task done, and returns its result. One that failed is asked for again, as operators do: names may not
    /// resolve yet, and who is to be asked may be busy.
    pub async fn have_done(
        &self,
        nodes: &SeiNodes<'_>,
        node: &str,
        kind: &str,
        params: &Value,
    ) -> Result<Value> {
        let task = json!({ "id": id_of(node, kind, params), "type": kind, "params": params });
        let one = format!("{}/{}", path::TASKS, task["id"].as_str().unwrap_or_default());
        wait::until(format!("the end of {kind} of {node}"), SOON, || async {
            let host = nodes.address(node).await?;
            let (code, body) = self.ask(host, &one, None).await?;
            let seen: Value = serde_json::from_str(body.trim()).unwrap_or_default();
            let status = seen["status"].as_str();
            if status == Some("completed") {
                return Ok(seen["result"].clone());
            }
            let mut told = format!("{kind} of {node}: {code} {body}");
            if code == 404 || status == Some("failed") {
                let (code, body) = self.ask(host, path::TASKS, Some(&task)).await?;
                told = format!("{told}; asked for it: {code} {body}");
            }
            Err(Error::Refused(told))
        })
        .await
    }
}

/// The same for the same task: what was asked for twice is done once.
fn id_of(node: &str, kind: &str, params: &Value) -> String {
    let text = format!("{node} {kind} {params}");
    let number = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("00000000-0000-4000-8000-{:012x}", number & 0xffff_ffff_ffff)
}
