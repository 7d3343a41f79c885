//! Starts sidecar processes and sends requests to them.

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
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// Timeout of operations that should finish at once, on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns an unused port below the ephemeral range of the kernel.
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

/// The environment of a sidecar. Its home outlives the process.
pub struct Fixture {
    pub site: Arc<Site>,
    pub home: PathBuf,
    /// Root directory of the buckets.
    pub objects: PathBuf,
    /// Control directory of seid: other seid processes of this machine are not stopped.
    pub control: PathBuf,
    /// Private directory of the sidecar.
    pub private: PathBuf,
    /// Port of the node's RPC.
    pub rpc: u16,
    envs: Vec<(String, String)>,
    program: PathBuf,
}

impl Fixture {
    pub fn new(cx: &Context) -> Result<Self, Error> {
        Self::with_program(cx, &binaries::path("outrigger")?)
    }

    pub fn with_program(cx: &Context, program: &Path) -> Result<Self, Error> {
        let site = cx.site()?;
        let [home, objects, control, private] =
            ["home", "objects", "control", "private"].map(|dir| site.dir().join(dir));
        for dir in [&home, &objects, &control, &private] {
            std::fs::create_dir_all(dir)
                .map_err(|source| Error::Io { what: "creating a directory".into(), source })?;
        }
        Ok(Self {
            site,
            home,
            objects,
            control,
            private,
            rpc: free_port(),
            envs: Vec::new(),
            program: program.to_owned(),
        })
    }

    /// Creates a fixture that shares the buckets of another one.
    pub fn sharing_objects(cx: &Context, other: &Self) -> Result<Self, Error> {
        Ok(Self { objects: other.objects.clone(), ..Self::new(cx)? })
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }

    /// Resumes all unfinished tasks of the ledger, like upstream.
    pub fn without_private_dir(self) -> Self {
        self.env("OUTRIGGER_SIDECAR_PRIVATE_DIR", "")
    }

    /// Builds the command line with all required settings.
    pub fn command(&self, port: u16) -> Program {
        let bucket = format!("file://{}", self.objects.display());
        let mut program = Program::new("sidecar", &self.program);
        program = match self.program.ends_with("outrigger") {
            true => program.arg("sidecar"),
            false => program.arg("serve"),
        };
        let defaults = [
            ("SEI_HOME", self.home.display().to_string()),
            ("SEI_CHAIN_ID", "test-1".into()),
            ("SEI_GENESIS_BUCKET", bucket.clone()),
            ("SEI_GENESIS_REGION", "us-east-1".into()),
            ("SEI_SNAPSHOT_BUCKET", bucket),
            ("SEI_SNAPSHOT_REGION", "us-east-1".into()),
            ("SEI_SIDECAR_PORT", port.to_string()),
            ("SEI_SIDECAR_AUTHN_MODE", "unauthenticated".into()),
            ("OUTRIGGER_SEID_CONTROL_DIR", self.control.display().to_string()),
            ("OUTRIGGER_SIDECAR_PRIVATE_DIR", self.private.display().to_string()),
            ("OUTRIGGER_NODE_RPC", format!("http://127.0.0.1:{}", self.rpc)),
        ];
        let defaults = defaults.iter().map(|(name, value)| (*name, value.as_str()));
        let extra = self.envs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        defaults.chain(extra).fold(program, |program, (name, value)| program.env(name, value))
    }

    /// Starts a sidecar and waits until it serves.
    pub async fn start(&self) -> Result<Sidecar, Error> {
        let sidecar = self.spawn()?;
        wait::until("the sidecar to serve", TIMEOUT, || async {
            sidecar.process.check_alive()?;
            let response =
                sidecar.send_raw(b"GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
            if response.code == 200 {
                Ok(())
            } else {
                Err(Error::Other(format!("livez returned {}", response.code)))
            }
        })
        .await?;
        Ok(sidecar)
    }

    /// Starts a sidecar.
    pub fn spawn(&self) -> Result<Sidecar, Error> {
        let port = free_port();
        Ok(Sidecar::attach(self.command(port).start(&self.site)?, port, &self.site))
    }

    /// Starts a sidecar and waits until it exits; returns its exit code and output.
    pub async fn run_to_exit(&self) -> Result<(i32, String), Error> {
        let sidecar = self.spawn()?;
        let status = wait::until("the sidecar to exit", TIMEOUT, || async {
            match sidecar.process.check_alive() {
                Err(Error::ProcessExited { status, .. }) => Ok(status),
                _ => Err("still running"),
            }
        })
        .await?;
        let output = std::fs::read_to_string(sidecar.process.log()).unwrap_or_default();
        Ok((status.code().unwrap_or(-1), output))
    }
}

/// A running sidecar; killed when dropped.
pub struct Sidecar {
    pub process: Process,
    pub port: u16,
    user: Option<String>,
    /// Kills the process on drop, so it comes last.
    _site: Arc<Site>,
}

/// An HTTP response.
#[derive(Clone, Debug)]
pub struct Response {
    pub line: String,
    pub code: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Sidecar {
    /// Wraps a running process.
    pub fn attach(process: Process, port: u16, site: &Arc<Site>) -> Self {
        Self { process, port, user: None, _site: site.clone() }
    }

    /// Sends further requests as this user, as the proxy would.
    pub fn with_user(mut self, user: &str) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sends raw bytes and reads until the connection closes.
    pub async fn send_raw(&self, request: &[u8]) -> Result<Response, Error> {
        exchange(("127.0.0.1", self.port), request).await
    }

    pub async fn request(&self, method: &str, path: &str, body: &str) -> Result<Response, Error> {
        let user = self.user.as_ref().map(|user| format!("X-Remote-User: {user}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\n{user}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send_raw(request.as_bytes()).await
    }

    pub async fn get(&self, path: &str) -> Result<Response, Error> {
        self.request("GET", path, "").await
    }

    /// Submits a task, which must be accepted; returns its ID.
    pub async fn submit(&self, id: Option<&str>, task_type: &str, params: &Value) -> Result<String, Error> {
        let body = match id {
            Some(id) => json!({"id": id, "type": task_type, "params": params}),
            None => json!({"type": task_type, "params": params}),
        };
        let response = self.request("POST", "/v0/tasks", &body.to_string()).await?;
        assert_eq!(response.code, 201, "{response:?}");
        Ok(response.json()["id"].as_str().unwrap_or_default().to_owned())
    }

    pub async fn task(&self, id: &str) -> Result<Value, Error> {
        let response = self.get(&format!("/v0/tasks/{id}")).await?;
        assert_eq!(response.code, 200, "{response:?}");
        Ok(response.json())
    }

    /// Waits until a task has finished and returns it.
    pub async fn wait_finished(&self, id: &str) -> Result<Value, Error> {
        wait::until(format!("task {id} to finish"), TIMEOUT, || async {
            self.process.check_alive().map_err(|error| error.to_string())?;
            let task = self.task(id).await.map_err(|error| error.to_string())?;
            if task["status"] == "running" { Err(task.to_string()) } else { Ok(task) }
        })
        .await
    }

    /// Submits a task and waits until it has finished.
    pub async fn run_task(&self, task_type: &str, params: &Value) -> Result<Value, Error> {
        let id = self.submit(None, task_type, params).await?;
        self.wait_finished(&id).await
    }

    pub async fn is_ready(&self) -> Result<bool, Error> {
        Ok(self.get("/v0/healthz").await?.code == 200)
    }

    pub fn kill(&self) -> Result<(), Error> {
        self.process.kill().map(drop)
    }

    /// Sends SIGTERM; the process must exit successfully in time.
    pub fn stop(&self, timeout: Duration) -> Result<(), Error> {
        let status = self.process.stop(timeout)?;
        if status.success() { Ok(()) } else { Err(Error::Other(format!("exited with {status}"))) }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }
}

/// Sends raw bytes to an address and reads until the connection closes.
pub async fn exchange(address: (&str, u16), request: &[u8]) -> Result<Response, Error> {
    exchange_over(TcpStream::connect(address), request).await
}

/// Sends raw bytes to a Unix socket and reads until the connection closes.
pub async fn exchange_unix(socket: &Path, request: &[u8]) -> Result<Response, Error> {
    exchange_over(UnixStream::connect(socket), request).await
}

async fn exchange_over<S: AsyncRead + AsyncWrite + Unpin>(
    connecting: impl Future<Output = std::io::Result<S>>,
    request: &[u8],
) -> Result<Response, Error> {
    let io = |source| Error::Io { what: "connecting to the sidecar".into(), source };
    let read = async {
        let mut stream = connecting.await.map_err(io)?;
        // A server that responds early may close the connection: only the response matters.
        let _ = stream.write_all(request).await;
        let mut all = Vec::new();
        let read = stream.read_to_end(&mut all).await;
        if all.is_empty() {
            read.map_err(io)?;
        }
        Ok::<_, Error>(String::from_utf8_lossy(&all).into_owned())
    };
    let late = |_| Error::Other("no response in time".into());
    let text = tokio::time::timeout(TIMEOUT, read).await.map_err(late)??;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let line = head.lines().next().unwrap_or_default().to_owned();
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    let response = Response { line, code, head: head.to_owned(), body: body.to_owned() };
    Ok(if response.header("transfer-encoding").is_some() {
        Response { body: decode_chunks(body), ..response }
    } else {
        response
    })
}

/// Decodes a chunked body: upstream sends long responses chunked.
fn decode_chunks(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let chunk = usize::from_str_radix(length, 16).ok().and_then(|length| rest.split_at_checked(length));
        let Some((chunk, rest)) = chunk else { break };
        body.push_str(chunk);
        chunks = rest.trim_start_matches("\r\n");
    }
    body
}

/// Returns a new task ID.
pub fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
