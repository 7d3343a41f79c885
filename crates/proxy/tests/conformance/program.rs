//! The program under test as a process: ours, or the peer's.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use testbed::bench::usage;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::harness::wire::{Answer, Trust, Wire};
use testbed::process::{Process, Program};
use testbed::{Error, Result};

use crate::ask::Ask;
use crate::ground::{Ground, SOON};
use crate::verdict::Target;

/// Names the upstream program.
pub const PEER: &str = "OUTRIGGER_PEER_PROXY";

/// The ports of every proxy; its address is its own.
pub const PLAIN: u16 = 8443;
pub const SECURE: u16 = 9443;
pub const ENDPOINTS: u16 = 10443;

/// What a proxy is told.
pub struct Orders<'g> {
    ground: &'g Ground<'g>,
    target: Target,
    address: Ipv4Addr,
    name: String,
    listens: Vec<u16>,
    kubeconfig: Option<PathBuf>,
    flags: Vec<String>,
    envs: Vec<(String, String)>,
    through: Vec<String>,
}

impl<'g> Orders<'g> {
    /// A proxy in clear text before an upstream.
    pub fn new(ground: &'g Ground<'g>, target: Target, upstream: &str) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let site = ground.plane.site().number();
        // No other proxy on this machine has this address, so every one may have the same ports.
        let address = Ipv4Addr::new(127, 1 + site, (number / 250 + 1) as u8, (number % 250 + 1) as u8);
        Self {
            ground,
            target,
            address,
            name: format!("proxy-{}-{number}", ground.namespace),
            listens: Vec::new(),
            kubeconfig: None,
            flags: vec![format!("--upstream={upstream}")],
            envs: Vec::new(),
            through: Vec::new(),
        }
        .plain()
    }

    /// Listens in clear text.
    fn plain(mut self) -> Self {
        self.listens.push(PLAIN);
        self.flags.push(format!("--insecure-listen-address={}:{PLAIN}", self.address));
        self
    }

    /// Listens with TLS too.
    pub fn secure(mut self) -> Self {
        self.listens.push(SECURE);
        self.flags.push(format!("--secure-listen-address={}:{SECURE}", self.address));
        self
    }

    /// Has a port for its own endpoints.
    pub fn endpoints(mut self) -> Self {
        self.listens.push(ENDPOINTS);
        self.flag(&format!("--proxy-endpoints-port={ENDPOINTS}"))
    }

    /// No flags but those that follow.
    pub fn bare(mut self) -> Self {
        self.listens.clear();
        self.flags.clear();
        self
    }

    /// The address that it is given.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// One more flag.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// More flags.
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// A configuration file with this text.
    pub fn config(self, text: &str) -> Result<Self> {
        let path = self.ground.folder.path().join(format!("{}.yaml", self.name));
        std::fs::write(&path, text).map_err(|source| Error::Io { what: "writing a file".into(), source })?;
        Ok(self.flag(&format!("--config-file={}", path.display())))
    }

    /// Reaches the API server at another address.
    pub fn api(mut self, url: &str) -> Result<Self> {
        let folder = self.ground.folder.path().join(format!("{}-user", self.name));
        std::fs::create_dir_all(&folder)
            .map_err(|source| Error::Io { what: "making a folder".into(), source })?;
        self.kubeconfig = Some(self.ground.user.at(url).write_kubeconfig(&folder)?);
        Ok(self)
    }

    /// Started by a program that takes it as its last arguments.
    pub fn through(mut self, program: &[&str]) -> Self {
        self.through = program.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// With a variable in its environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }

    fn spawn(&self) -> Result<Process> {
        let (binary, first) = match self.target {
            Target::Ours => (binaries::path("outrigger")?, Some("proxy")),
            Target::Peer => {
                let named = std::env::var(PEER).map_err(|_| Error::Refused(format!("{PEER} is not set")))?;
                (PathBuf::from(named), None)
            }
        };
        let program = match self.through.split_first() {
            None => Program::new(&self.name, binary),
            Some((first, others)) => Program::new(&self.name, first).args(others).arg(binary),
        };
        let mut program = program.args(first).args(&self.flags);
        if !self.flags.iter().any(|flag| flag.starts_with("--kubeconfig")) && self.envs.is_empty() {
            let kubeconfig = match &self.kubeconfig {
                Some(path) => path.clone(),
                None => self.ground.user.write_kubeconfig(self.ground.folder.path())?,
            };
            program = program.flag("kubeconfig", kubeconfig);
        }
        for (name, value) in &self.envs {
            program = program.env(name, value);
        }
        program.start(self.ground.plane.site())
    }

    /// Starts it and waits until it listens.
    pub async fn start(self) -> Result<Proxy> {
        let process = self.spawn()?;
        let proxy = Proxy { process, address: self.address };
        for port in &self.listens {
            let address = SocketAddr::from((self.address, *port));
            wait::until(format!("a listener on {address}"), SOON, || async {
                proxy.process.check_alive()?;
                Wire::connect(address).await.map(drop)
            })
            .await?;
        }
        Ok(proxy)
    }

    /// Starts it and waits until it listens, which it may not come to: then how it ended, as `exit 1`, and what it said.
    pub async fn outcome(self) -> Result<(String, String)> {
        let proxy = Proxy { process: self.spawn()?, address: self.address };
        let outcome = wait::until("an end, or a listener on every port", SOON, || async {
            if let Some(end) = proxy.ended() {
                return Ok(end);
            }
            if self.listens.is_empty() {
                return Err(Error::Refused("nothing is listened on".into()));
            }
            for port in &self.listens {
                Wire::connect((self.address, *port).into()).await?;
            }
            Ok("serves".into())
        });
        let outcome = outcome.await.unwrap_or_else(|_| "neither serves nor ends".into());
        Ok((outcome, proxy.log()))
    }
}

/// A running proxy.
pub struct Proxy {
    pub process: Process,
    pub address: Ipv4Addr,
}

impl Proxy {
    /// Its listener in clear text.
    pub fn plain(&self) -> SocketAddr {
        SocketAddr::from((self.address, PLAIN))
    }

    /// Its listener with TLS.
    pub fn secure(&self) -> SocketAddr {
        SocketAddr::from((self.address, SECURE))
    }

    /// Asks on a connection of its own, in clear text.
    pub async fn ask(&self, ask: &Ask) -> Result<Answer> {
        let mut wire = Wire::connect(self.plain()).await?;
        wire.send(ask.bytes()).await?;
        wire.answer(&ask.method).await
    }

    /// The code of an answer, or `no answer`: an observation.
    pub async fn code(&self, ask: &Ask) -> String {
        code(&self.ask(ask).await)
    }

    /// Asks on a connection of its own with TLS.
    pub async fn ask_secure(&self, ask: &Ask, trust: &Trust) -> Result<Answer> {
        let mut wire = Wire::encrypted(self.secure(), trust.config()?).await?;
        wire.send(ask.bytes()).await?;
        wire.answer(&ask.method).await
    }

    /// The process's memory in KiB.
    pub fn memory(&self) -> Result<u64> {
        usage::kibibytes(self.process.pid()?)
    }

    /// The processor time it has taken.
    pub fn processor_time(&self) -> Result<Duration> {
        usage::cpu(self.process.pid()?)
    }

    /// What it said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// How it ended, as `exit 1`, if it did: an observation.
    pub fn ended(&self) -> Option<String> {
        match self.process.check_alive() {
            Err(Error::Died { status, .. }) => {
                Some(status.code().map_or_else(|| "killed".into(), |code| format!("exit {code}")))
            }
            _ => None,
        }
    }

    /// `yes` while it runs: an observation.
    pub fn runs(&self) -> &'static str {
        if self.process.check_alive().is_ok() { "yes" } else { "no" }
    }
}

/// The code of an answer, or `no answer`: an observation.
pub fn code(answer: &Result<Answer>) -> String {
    answer.as_ref().map_or_else(|_| "no answer".into(), |answer| answer.status.to_string())
}
