//! The process under test: Outrigger's proxy, or the peer.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use testbed::bench::usage;
use testbed::harness::binaries;
use testbed::harness::raw_http::{ClientTls, RawConnection, RawResponse};
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Error, Result};

use crate::checks::Implementation;
use crate::fixture::{Fixture, SOON};
use crate::raw_request::RawRequest;

/// The environment variable with the path of kube-rbac-proxy.
pub const PEER: &str = "OUTRIGGER_PEER_PROXY";

/// The ports of every proxy. Each has an address of its own.
pub const PLAIN: u16 = 8443;
pub const SECURE: u16 = 9443;
pub const ENDPOINTS: u16 = 10443;

/// The configuration of a proxy to start.
pub struct ProxyBuilder<'g> {
    fixture: &'g Fixture<'g>,
    implementation: Implementation,
    address: Ipv4Addr,
    name: String,
    listens: Vec<u16>,
    kubeconfig: Option<PathBuf>,
    flags: Vec<String>,
    envs: Vec<(String, String)>,
    wrapper: Vec<String>,
}

impl<'g> ProxyBuilder<'g> {
    /// Configures a proxy that listens in clear text and forwards to an upstream.
    pub fn new(fixture: &'g Fixture<'g>, implementation: Implementation, upstream: &str) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let site = fixture.plane.site().number();
        // No other proxy on this machine uses this address, so all can use the same ports.
        let address = Ipv4Addr::new(127, 1 + site, (number / 250 + 1) as u8, (number % 250 + 1) as u8);
        Self {
            fixture,
            implementation,
            address,
            name: format!("proxy-{}-{number}", fixture.namespace),
            listens: Vec::new(),
            kubeconfig: None,
            flags: vec![format!("--upstream={upstream}")],
            envs: Vec::new(),
            wrapper: Vec::new(),
        }
        .plain()
    }

    /// Listens in clear text.
    fn plain(mut self) -> Self {
        self.listens.push(PLAIN);
        self.flags.push(format!("--insecure-listen-address={}:{PLAIN}", self.address));
        self
    }

    /// Also listens with TLS.
    pub fn secure(mut self) -> Self {
        self.listens.push(SECURE);
        self.flags.push(format!("--secure-listen-address={}:{SECURE}", self.address));
        self
    }

    /// Sets --proxy-endpoints-port.
    pub fn endpoints(mut self) -> Self {
        self.listens.push(ENDPOINTS);
        self.flag(&format!("--proxy-endpoints-port={ENDPOINTS}"))
    }

    /// Removes all flags, including the listener.
    pub fn without_flags(mut self) -> Self {
        self.listens.clear();
        self.flags.clear();
        self
    }

    /// Returns the address assigned to the proxy.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Adds a flag.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Adds flags.
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Writes a configuration file and sets --config-file.
    pub fn config(self, text: &str) -> Result<Self> {
        let path = self.fixture.dir.path().join(format!("{}.yaml", self.name));
        std::fs::write(&path, text)
            .map_err(|source| Error::Io { what: "writing a configuration file".into(), source })?;
        Ok(self.flag(&format!("--config-file={}", path.display())))
    }

    /// Uses another address of the API server.
    pub fn api_server(mut self, url: &str) -> Result<Self> {
        let dir = self.fixture.dir.path().join(format!("{}-user", self.name));
        std::fs::create_dir_all(&dir)
            .map_err(|source| Error::Io { what: "creating a directory".into(), source })?;
        self.kubeconfig = Some(self.fixture.user.at(url).write_kubeconfig(&dir)?);
        Ok(self)
    }

    /// Starts the proxy through a command that takes the proxy and its flags as its last arguments.
    pub fn wrapped_by(mut self, command: &[&str]) -> Self {
        self.wrapper = command.iter().map(|argument| (*argument).to_owned()).collect();
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }

    fn spawn(&self) -> Result<Process> {
        let (binary, subcommand) = match self.implementation {
            Implementation::Ours => (binaries::path("outrigger")?, Some("proxy")),
            Implementation::Peer => {
                let path = std::env::var(PEER).map_err(|_| Error::Other(format!("{PEER} is not set")))?;
                (PathBuf::from(path), None)
            }
        };
        let program = match self.wrapper.split_first() {
            None => Program::new(&self.name, binary),
            Some((command, arguments)) => Program::new(&self.name, command).args(arguments).arg(binary),
        };
        let mut program = program.args(subcommand).args(&self.flags);
        if !self.flags.iter().any(|flag| flag.starts_with("--kubeconfig")) && self.envs.is_empty() {
            let kubeconfig = match &self.kubeconfig {
                Some(path) => path.clone(),
                None => self.fixture.user.write_kubeconfig(self.fixture.dir.path())?,
            };
            program = program.flag("kubeconfig", kubeconfig);
        }
        for (name, value) in &self.envs {
            program = program.env(name, value);
        }
        program.start(self.fixture.plane.site())
    }

    /// Starts the proxy and waits until it listens.
    pub async fn start(self) -> Result<Proxy> {
        let process = self.spawn()?;
        let proxy = Proxy { process, address: self.address };
        for port in &self.listens {
            let address = SocketAddr::from((self.address, *port));
            wait::until(format!("a listener on {address}"), SOON, || async {
                proxy.process.check_alive()?;
                RawConnection::connect(address).await.map(drop)
            })
            .await?;
        }
        Ok(proxy)
    }

    /// Starts the proxy and returns `serves` or its exit status such as `exit 1`, and its log.
    pub async fn start_outcome(self) -> Result<(String, String)> {
        let proxy = Proxy { process: self.spawn()?, address: self.address };
        let outcome = wait::until("an exit, or a listener on every port", SOON, || async {
            if let Some(status) = proxy.exit_status() {
                return Ok(status);
            }
            if self.listens.is_empty() {
                return Err(Error::Other("no listener is configured".into()));
            }
            for port in &self.listens {
                RawConnection::connect((self.address, *port).into()).await?;
            }
            Ok("serves".into())
        });
        let outcome = outcome.await.unwrap_or_else(|_| "neither serves nor exits".into());
        Ok((outcome, proxy.log()))
    }
}

/// A running proxy.
pub struct Proxy {
    pub process: Process,
    pub address: Ipv4Addr,
}

impl Proxy {
    /// Returns the address of the listener in clear text.
    pub fn plain(&self) -> SocketAddr {
        SocketAddr::from((self.address, PLAIN))
    }

    /// Returns the address of the TLS listener.
    pub fn secure(&self) -> SocketAddr {
        SocketAddr::from((self.address, SECURE))
    }

    /// Sends a request on a new connection in clear text.
    pub async fn send(&self, request: &RawRequest) -> Result<RawResponse> {
        let mut connection = RawConnection::connect(self.plain()).await?;
        connection.send(request.bytes()).await?;
        connection.read_response(&request.method).await
    }

    /// Sends a request and returns its status, or `no answer`.
    pub async fn status(&self, request: &RawRequest) -> String {
        status_text(&self.send(request).await)
    }

    /// Sends a request on a new TLS connection.
    pub async fn send_tls(&self, request: &RawRequest, trust: &ClientTls) -> Result<RawResponse> {
        let mut connection = RawConnection::connect_tls(self.secure(), trust.config()?).await?;
        connection.send(request.bytes()).await?;
        connection.read_response(&request.method).await
    }

    /// Returns the memory of the process in KiB.
    pub fn memory_kib(&self) -> Result<u64> {
        usage::rss_kib(self.process.pid()?)
    }

    /// Returns the CPU time of the process.
    pub fn cpu_time(&self) -> Result<Duration> {
        usage::cpu_time(self.process.pid()?)
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// Returns its exit status such as `exit 1`, if it has exited.
    pub fn exit_status(&self) -> Option<String> {
        match self.process.check_alive() {
            Err(Error::ProcessExited { status, .. }) => {
                Some(status.code().map_or_else(|| "killed".into(), |code| format!("exit {code}")))
            }
            _ => None,
        }
    }

    /// Returns `yes` while the process runs.
    pub fn is_running(&self) -> &'static str {
        if self.process.check_alive().is_ok() { "yes" } else { "no" }
    }
}

/// Returns the status of a response, or `no answer`.
pub fn status_text(response: &Result<RawResponse>) -> String {
    response.as_ref().map_or_else(|_| "no answer".into(), |response| response.status.to_string())
}
