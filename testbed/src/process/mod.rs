//! Long-running processes of the testbed: started with the marker of their site, with their own log, killed with
//! their owner.

pub(crate) mod probe;
pub mod signals;
pub(crate) mod supervised;
pub(crate) mod tool;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cluster::site::{self, Site};
use crate::cluster::sweep;
use crate::error::{Error, IoContext, Result};
use crate::harness::logs;
use crate::sync::lock;

/// Directory for callgrind profiles of our binary.
const TRACE: &str = "OUTRIGGER_TRACE";

/// Poll interval while waiting for an exit.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time the kernel may need to end all descendants of a killed process.
const KERNEL_GRACE: Duration = Duration::from_secs(10);

/// Namespaces that a program runs in.
#[derive(Clone, Debug)]
enum Namespaces {
    Host,
    Network(String),
    /// The network, mount, PID and UTS namespaces of this process.
    OfProcess(u32),
}

/// A program to be started.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    path: PathBuf,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
    namespaces: Namespaces,
    forks: bool,
}

impl Program {
    /// Creates a program; `name` names its log.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            args: Vec::new(),
            envs: Vec::new(),
            namespaces: Namespaces::Host,
            forks: false,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Adds `--name=value`.
    #[must_use]
    pub fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut arg = OsString::from(format!("--{name}="));
        arg.push(value);
        self.arg(arg)
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.envs.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it in a network namespace.
    #[must_use]
    pub fn in_netns(mut self, name: impl Into<String>) -> Self {
        self.namespaces = Namespaces::Network(name.into());
        self
    }

    /// Runs it in the network, mount, PID and UTS namespaces of another process.
    #[must_use]
    pub(crate) fn inside(mut self, pid: u32) -> Self {
        self.namespaces = Namespaces::OfProcess(pid);
        // Entering a PID namespace requires a fork.
        self.forks()
    }

    /// The program is a child of the started process, which waits for it.
    #[must_use]
    pub(crate) fn forks(mut self) -> Self {
        self.forks = true;
        self
    }

    /// Starts it on a site. Its environment contains the marker and the given variables only: proxy settings or
    /// KUBECONFIG of the developer must not leak into it.
    pub fn start(self, site: &Site) -> Result<Process> {
        let Some(_guard) = site::allow_start() else {
            return Err(Error::Other(format!("not starting {}: cleanup is in progress", self.name)));
        };
        let log = site.logs().join(format!("{}.log", self.name));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .context(|| format!("opening {}", log.display()))?;
        let errors = output.try_clone().context(|| format!("opening {}", log.display()))?;
        let (marker, number) = site.marker();
        let mut command = self.command();
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", site.dir())
            .env(marker, number)
            .envs(self.envs.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        let child = command.spawn().context(|| format!("starting {}", self.path.display()))?;
        sweep::wait_for_marker(child.id(), site.number());
        Ok(Process { name: self.name, child: Mutex::new(child), log, forks: self.forks })
    }

    fn command(&self) -> Command {
        let mut line = self.callgrind_prefix();
        line.push(self.path.clone().into());
        line.extend(self.args.iter().cloned());
        let mut command = match &self.namespaces {
            Namespaces::Host => {
                let mut line = line.into_iter();
                let mut command = Command::new(line.next().unwrap_or_default());
                command.args(line);
                return command;
            }
            Namespaces::Network(name) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{name}"));
                command
            }
            Namespaces::OfProcess(pid) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--target={pid}")).args(["--net", "--mount", "--pid", "--uts"]);
                command
            }
        };
        command.arg("--").args(line);
        command
    }

    /// Returns the callgrind prefix for our own binary if `OUTRIGGER_TRACE` is set; see `scripts/link-order`.
    /// Profiles are dumped periodically, because many processes are killed.
    fn callgrind_prefix(&self) -> Vec<OsString> {
        match std::env::var_os(TRACE) {
            Some(folder) if self.path.file_name().is_some_and(|name| name == "outrigger") => {
                let mut output = OsString::from("--callgrind-out-file=");
                output.push(Path::new(&folder).join("%p"));
                let valgrind =
                    ["valgrind", "--quiet", "--tool=callgrind", "--demangle=no", "--dump-every-bb=3000000"];
                valgrind.map(OsString::from).into_iter().chain([output]).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Mutex<Child>,
    log: PathBuf,
    /// The program is a child of the process that was started.
    forks: bool,
}

impl Process {
    /// Returns the name of the program.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of its log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the process ID of the program on this machine.
    pub fn pid(&self) -> Result<u32> {
        let direct = self.with_child(|child| child.id());
        if !self.forks {
            return Ok(direct);
        }
        let path = format!("/proc/{direct}/task/{direct}/children");
        let children = fs::read_to_string(&path).context(|| format!("reading {path}"))?;
        children
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok())
            .ok_or_else(|| Error::Other(format!("{} is not running", self.name)))
    }

    /// Fails if the process has exited.
    pub fn check_alive(&self) -> Result<()> {
        let ended = self.with_child(Child::try_wait).context(|| format!("checking {}", self.name))?;
        match ended {
            None => Ok(()),
            Some(status) => Err(Error::ProcessExited {
                name: self.name.clone(),
                status,
                log: self.log.clone(),
                tail: logs::tail(&self.log, 20),
            }),
        }
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid()?;
        sweep::signal(pid, signal).context(|| format!("signaling {}", self.name))
    }

    /// Sends SIGTERM, then SIGKILL after `grace`. Returns the exit status.
    pub fn stop(&self, grace: Duration) -> Result<ExitStatus> {
        // Fails if it has already exited.
        let _ = self.signal(Signal::TERM);
        match self.wait_exit(grace)? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Kills it and waits for its exit.
    pub fn kill(&self) -> Result<ExitStatus> {
        if self.forks
            && let Ok(pid) = self.pid()
        {
            let _ = sweep::signal(pid, Signal::KILL);
            // The wrapper exits when all processes of the PID namespace are gone.
            if let Some(status) = self.wait_exit(KERNEL_GRACE)? {
                return Ok(status);
            }
        }
        self.with_child(|child| {
            // Fails only if it has already exited.
            let _ = child.kill();
            child.wait()
        })
        .context(|| format!("waiting for {}", self.name))
    }

    fn wait_exit(&self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            let ended = self.with_child(Child::try_wait).context(|| format!("waiting for {}", self.name))?;
            if ended.is_some() || Instant::now() > deadline {
                return Ok(ended);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn with_child<T>(&self, access: impl FnOnce(&mut Child) -> T) -> T {
        access(&mut lock(&self.child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failure leaves the process to the sweep of the site, which finds it by its marker.
        let _ = self.kill();
    }
}
