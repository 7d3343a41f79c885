//! A sidecar as a process, and what it is asked.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testbed::cluster::site::Site;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Long enough for what should be over at once, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);

/// A port that nobody listens on, below those that the kernel gives to connections.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + (std::process::id() % 180) as u16 * 100;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 1000;
        if TcpListener::bind(("::", port)).is_ok() {
            return port;
        }
    }
}

/// Where a sidecar lives: its home outlives it.
pub struct Ground {
    pub site: Arc<Site>,
    pub home: PathBuf,
    /// Objects, as folders.
    pub objects: PathBuf,
    /// Where the node's RPC would be.
    pub rpc: u16,
    envs: Vec<(String, String)>,
    program: PathBuf,
}

impl Ground {
    pub fn new(cx: &Context) -> Result<Self, Error> {
        Self::with(cx, &binaries::path("outrigger")?)
    }

    pub fn with(cx: &Context, program: &Path) -> Result<Self, Error> {
        let site = cx.site()?;
        let (home, objects) = (site.dir().join("home"), site.dir().join("objects"));
        for folder in [&home, &objects] {
            std::fs::create_dir_all(folder)
                .map_err(|source| Error::Io { what: "making a folder".into(), source })?;
        }
        Ok(Self { site, home, objects, rpc: free_port(), envs: Vec::new(), program: program.to_owned() })
    }

    /// Another one, with the same objects.
    pub fn beside(cx: &Context, other: &Self) -> Result<Self, Error> {
        Ok(Self { objects: other.objects.clone(), ..Self::new(cx)? })
    }

    /// One more variable.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }

    /// What it is started as, with everything that it needs.
    fn command(&self, port: u16) -> Program {
        let place = format!("file://{}", self.objects.display());
        let mut program = Program::new("sidecar", &self.program);
        program = match self.program.ends_with("outrigger") {
            true => program.arg("sidecar"),
            false => program.arg("serve"),
        };
        let own = [
            ("SEI_HOME", self.home.display().to_string()),
            ("SEI_CHAIN_ID", "test-1".into()),
            ("SEI_GENESIS_BUCKET", place.clone()),
            ("SEI_GENESIS_REGION", "us-east-1".into()),
            ("SEI_SNAPSHOT_BUCKET", place),
            ("SEI_SNAPSHOT_REGION", "us-east-1".into()),
            ("SEI_SIDECAR_PORT", port.to_string()),
            ("OUTRIGGER_NODE_RPC", format!("http://127.0.0.1:{}", self.rpc)),
        ];
        let all = own.iter().map(|(name, value)| (*name, value.as_str()));
        let given = self.envs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.chain(given).fold(program, |program, (name, value)| program.env(name, value))
    }

    /// Starts it and waits until it serves.
    pub async fn start(&self) -> Result<Sidecar, Error> {
        let sidecar = self.begin()?;
        wait::until("a sidecar that serves", SOON, || async {
            sidecar.process.check_alive()?;
            let answer =
                sidecar.raw(b"GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
            if answer.code == 200 {
                Ok(())
            } else {
                Err(Error::Refused(format!("livez says {}", answer.code)))
            }
        })
        .await?;
        Ok(sidecar)
    }

    /// Starts it.
    pub fn begin(&self) -> Result<Sidecar, Error> {
        let port = free_port();
        Ok(Sidecar::beside(self.command(port).start(&self.site)?, port, &self.site))
    }

    /// Starts it, and waits until it has ended by itself; returns its code and what it said.
    pub async fn ended(&self) -> Result<(i32, String), Error> {
        let sidecar = self.begin()?;
        let status = wait::until("an end", SOON, || async {
            match sidecar.process.check_alive() {
                Err(Error::Died { status, .. }) => Ok(status),
                _ => Err("it lives"),
            }
        })
        .await?;
        let said = std::fs::read_to_string(sidecar.process.log()).unwrap_or_default();
        Ok((status.code().unwrap_or(-1), said))
    }
}

/// A running sidecar; killed when dropped.
pub struct Sidecar {
    pub process: Process,
    pub port: u16,
    user: Option<String>,
    /// Ends it when it is dropped, so it comes last.
    _site: Arc<Site>,
}

/// What was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub line: String,
    pub code: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Sidecar {
    /// One that somebody else has started.
    pub fn beside(process: Process, port: u16, site: &Arc<Site>) -> Self {
        Self { process, port, user: None, _site: site.clone() }
    }

    /// As this user, through a proxy that says so.
    pub fn by(mut self, user: &str) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Says exactly this, and reads until the end.
    pub async fn raw(&self, request: &[u8]) -> Result<Answer, Error> {
        exchange(("127.0.0.1", self.port), request).await
    }

    pub async fn ask(&self, method: &str, path: &str, body: &str) -> Result<Answer, Error> {
        let user = self.user.as_ref().map(|user| format!("X-Remote-User: {user}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\n{user}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.raw(request.as_bytes()).await
    }

    pub async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.ask("GET", path, "").await
    }

    /// Gives a task, which must be taken; returns its id.
    pub async fn submit(&self, id: Option<&str>, kind: &str, params: &Value) -> Result<String, Error> {
        let body = match id {
            Some(id) => json!({"id": id, "type": kind, "params": params}),
            None => json!({"type": kind, "params": params}),
        };
        let answer = self.ask("POST", "/v0/tasks", &body.to_string()).await?;
        assert_eq!(answer.code, 201, "{answer:?}");
        Ok(answer.json()["id"].as_str().unwrap_or_default().to_owned())
    }

    pub async fn task(&self, id: &str) -> Result<Value, Error> {
        let answer = self.get(&format!("/v0/tasks/{id}")).await?;
        assert_eq!(answer.code, 200, "{answer:?}");
        Ok(answer.json())
    }

    /// Waits until a task has ended, and returns it.
    pub async fn ended(&self, id: &str) -> Result<Value, Error> {
        wait::until(format!("the end of task {id}"), SOON, || async {
            self.process.check_alive().map_err(|error| error.to_string())?;
            let task = self.task(id).await.map_err(|error| error.to_string())?;
            if task["status"] == "running" { Err(task.to_string()) } else { Ok(task) }
        })
        .await
    }

    /// Gives a task and waits for its end.
    pub async fn done(&self, kind: &str, params: &Value) -> Result<Value, Error> {
        let id = self.submit(None, kind, params).await?;
        self.ended(&id).await
    }

    pub async fn is_ready(&self) -> Result<bool, Error> {
        Ok(self.get("/v0/healthz").await?.code == 200)
    }

    pub fn kill(&self) -> Result<(), Error> {
        self.process.kill().map(drop)
    }

    /// Asks it to end; it must do so by itself, and well.
    pub fn stop(&self, within: Duration) -> Result<(), Error> {
        let status = self.process.stop(within)?;
        if status.success() { Ok(()) } else { Err(Error::Refused(format!("it ended with {status}"))) }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }
}

/// Says exactly this to an address, and reads until the end.
pub async fn exchange(address: (&str, u16), request: &[u8]) -> Result<Answer, Error> {
    let io = |source| Error::Io { what: "talking to the sidecar".into(), source };
    let read = async {
        let mut stream = TcpStream::connect(address).await.map_err(io)?;
        // Who answers before everything was said may close: the answer is what counts.
        let _ = stream.write_all(request).await;
        let mut all = Vec::new();
        let read = stream.read_to_end(&mut all).await;
        if all.is_empty() {
            read.map_err(io)?;
        }
        Ok::<_, Error>(String::from_utf8_lossy(&all).into_owned())
    };
    let late = |_| Error::Refused("no answer in time".into());
    let text = tokio::time::timeout(SOON, read).await.map_err(late)??;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let line = head.lines().next().unwrap_or_default().to_owned();
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    let answer = Answer { line, code, head: head.to_owned(), body: body.to_owned() };
    Ok(if answer.header("transfer-encoding").is_some() {
        Answer { body: whole(body), ..answer }
    } else {
        answer
    })
}

/// A body without the lengths of its chunks: the program that we replace sends long ones so.
fn whole(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let chunk = usize::from_str_radix(length, 16).ok().and_then(|length| rest.split_at_checked(length));
        let Some((chunk, rest)) = chunk else { break };
        body.push_str(chunk);
        chunks = rest.trim_start_matches("\r\n");
    }
    body
}

/// A new id.
pub fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
