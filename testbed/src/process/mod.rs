//! A long-lived process of the test-bed: started with the site's marker, its output in a log of its own, ended with its
//! owner.

pub(crate) mod probe;
pub mod signals;
pub(crate) mod supervised;
pub(crate) mod tool;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cluster::site::{self, Site};
use crate::cluster::sweep;
use crate::error::{Error, IoContext, Result};
use crate::harness::logs;

/// Names a folder for notes about which functions of our program run.
const TRACE: &str = "OUTRIGGER_TRACE";

/// How often a process that should end is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// How long the kernel may take to end all that a killed process takes with it.
const KERNEL_GRACE: Duration = Duration::from_secs(10);

/// Where a program runs.
#[derive(Clone, Debug)]
enum Place {
    Host,
    Netns(String),
    /// Inside the namespaces of this process: network, mounts, processes and host name.
    Inside(u32),
}

/// A program that is about to be started.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    path: PathBuf,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
    place: Place,
    forks: bool,
}

impl Program {
    /// A program and the name its log gets.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            args: Vec::new(),
            envs: Vec::new(),
            place: Place::Host,
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
        self.place = Place::Netns(name.into());
        self
    }

    /// Runs it inside the network, mount, process and host-name namespaces of another process.
    #[must_use]
    pub(crate) fn inside(mut self, pid: u32) -> Self {
        self.place = Place::Inside(pid);
        // Entering a process namespace takes a fork.
        self.forks()
    }

    /// The program proper is the child of what is started, which waits for it.
    #[must_use]
    pub(crate) fn forks(mut self) -> Self {
        self.forks = true;
        self
    }

    /// Starts it on a site. Its environment holds the marker and what was asked for, and nothing of ours: a proxy
    /// setting or a KUBECONFIG of the person who runs the tests must not reach it.
    pub fn start(self, site: &Site) -> Result<Process> {
        if site::is_ending() {
            return Err(Error::Refused(format!("not starting {}: this process is being ended", self.name)));
        }
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
        Ok(Process { name: self.name, child: Mutex::new(child), log, forks: self.forks })
    }

    fn command(&self) -> Command {
        let mut words = self.tracer();
        words.push(self.path.clone().into());
        words.extend(self.args.iter().cloned());
        let mut command = match &self.place {
            Place::Host => {
                let mut words = words.into_iter();
                let mut command = Command::new(words.next().unwrap_or_default());
                command.args(words);
                return command;
            }
            Place::Netns(name) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{name}"));
                command
            }
            Place::Inside(pid) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--target={pid}")).args(["--net", "--mount", "--pid", "--uts"]);
                command
            }
        };
        command.arg("--").args(words);
        command
    }

    /// What our own program is run by when it is to be known which of its functions run: see `scripts/link-order`. Its notes are
    /// written every now and then, since many a process is killed.
    fn tracer(&self) -> Vec<OsString> {
        match std::env::var_os(TRACE) {
            Some(folder) if self.path.file_name().is_some_and(|name| name == "outrigger") => {
                let mut notes = OsString::from("--callgrind-out-file=");
                notes.push(Path::new(&folder).join("%p"));
                let valgrind =
                    ["valgrind", "--quiet", "--tool=callgrind", "--demangle=no", "--dump-every-bb=3000000"];
                valgrind.map(OsString::from).into_iter().chain([notes]).collect()
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
    /// The program is the child of the process we started.
    forks: bool,
}

impl Process {
    /// The name it was started with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The program's own process id on this machine.
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
            .ok_or_else(|| Error::Refused(format!("{} has not started yet, or has ended", self.name)))
    }

    /// Fails when the process has ended.
    pub fn check_alive(&self) -> Result<()> {
        let ended =
            self.with_child(Child::try_wait).context(|| format!("asking for the state of {}", self.name))?;
        match ended {
            None => Ok(()),
            Some(status) => Err(Error::Died {
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
        sweep::signal(pid, signal).context(|| format!("sending a signal to {}", self.name))
    }

    /// Asks it to end, and kills it when it has not done so in time. Returns how it ended.
    pub fn stop(&self, grace: Duration) -> Result<ExitStatus> {
        // The program may have ended already: then there is nothing to ask.
        let _ = self.signal(Signal::TERM);
        match self.ended_within(grace)? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(&self) -> Result<ExitStatus> {
        if self.forks
            && let Ok(pid) = self.pid()
        {
            let _ = sweep::signal(pid, Signal::KILL);
            // Who waits for the program ends when all of it is gone: every process of a box, for its first one.
            if let Some(status) = self.ended_within(KERNEL_GRACE)? {
                return Ok(status);
            }
        }
        self.with_child(|child| {
            // Refused only when it has ended already.
            let _ = child.kill();
            child.wait()
        })
        .context(|| format!("waiting for the end of {}", self.name))
    }

    fn ended_within(&self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            let ended = self.with_child(Child::try_wait).context(|| format!("waiting for {}", self.name))?;
            if ended.is_some() || Instant::now() > deadline {
                return Ok(ended);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn with_child<T>(&self, access: impl FnOnce(&mut Child) -> T) -> T {
        access(&mut self.child.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing to be done about a failure here; the site's sweep finds the process by its marker.
        let _ = self.kill();
    }
}
