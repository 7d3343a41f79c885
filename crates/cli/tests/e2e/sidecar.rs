//! A node's sidecar, asked through its proxy by somebody who is not the operator.

use std::net::IpAddr;

use api::names::port;
use api::sidecar_wire::path;
use serde_json::{Value, json};
use testbed::platform::NAMESPACE;
use testbed::{Error, kubectl, wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::ground::{Ground, SOON};

/// Who asks: nobody, or an account with its token.
pub struct Caller {
    token: Option<String>,
}

impl Caller {
    /// One that shows no token.
    pub const NOBODY: Self = Self { token: None };

    /// An account, with a token for the proxies of this platform.
    pub fn account(ground: &Ground<'_>, name: &str) -> Result<Self, Error> {
        Self::with_token(
            ground,
            &["create", "token", name, "--namespace", NAMESPACE, "--audience", "sidecars.sei.io"],
        )
    }

    /// Whoever has the token that kubectl creates.
    pub fn with_token(ground: &Ground<'_>, create: &[&str]) -> Result<Self, Error> {
        let token = kubectl::run(ground.plane(), create, None)?;
        Ok(Self { token: Some(token.trim().to_owned()) })
    }

    /// The code and the body of the answer to a request.
    pub async fn ask(&self, host: IpAddr, path: &str, sent: Option<&Value>) -> Result<(u16, String), Error> {
        let what = || format!("asking {host} for {path}");
        let io = |source| Error::Io { what: what(), source };
        let mut stream = TcpStream::connect((host, port::PROXY as u16)).await.map_err(io)?;
        let body = sent.map(Value::to_string).unwrap_or_default();
        let method = if sent.is_some() { "POST" } else { "GET" };
        let token = self.token.iter().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: sidecar\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n{body}",
            body.len(),
            token.collect::<String>(),
        );
        stream.write_all(request.as_bytes()).await.map_err(io)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(io)?;
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        code.map(|code| (code, body)).ok_or_else(|| Error::Refused(format!("{}: {answer:?}", what())))
    }

    /// Has a task done, and returns its result.
    pub async fn have_done(
        &self,
        ground: &Ground<'_>,
        node: &str,
        kind: &str,
        params: &Value,
    ) -> Result<Value, Error> {
        let task = json!({ "id": id_of(node, kind, params), "type": kind, "params": params });
        let refused = |code: u16, body: &str| Error::Refused(format!("{kind} of {node}: {code} {body}"));
        wait::until(format!("{kind} of {node} to be taken"), SOON, || async {
            let (code, body) = self.ask(ground.address(node).await?, path::TASKS, Some(&task)).await?;
            if code < 300 { Ok(()) } else { Err(refused(code, &body)) }
        })
        .await?;
        let one = format!("{}/{}", path::TASKS, task["id"].as_str().unwrap_or_default());
        wait::until(format!("the end of {kind} of {node}"), SOON, || async {
            let (code, body) = self.ask(ground.address(node).await?, &one, None).await?;
            let task: Value = serde_json::from_str(body.trim()).unwrap_or_default();
            match task["status"].as_str() {
                Some("completed") => Ok(task["result"].clone()),
                _ => Err(refused(code, &body)),
            }
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
