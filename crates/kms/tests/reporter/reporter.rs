//! Reporters as processes: what they are told, what they log, what they cost.

use std::path::{Path, PathBuf};

use serde_json::Value;
use testbed::Error;
use testbed::cluster::control_plane::User;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::ground::{Ground, INTERVAL, SOON};

/// What a reporter is told.
pub struct Orders<'g> {
    ground: &'g Ground<'g>,
    node: String,
    numbers: Vec<u32>,
    target: String,
    form: String,
    interval: String,
    kubeconfig: Option<PathBuf>,
    more: Vec<String>,
    through: Vec<String>,
}

impl<'g> Orders<'g> {
    /// A reporter for one node and one plugin, on the test's KubeAPIServer.
    pub fn new(ground: &'g Ground<'g>, node: &str) -> Self {
        Self {
            ground,
            node: node.into(),
            numbers: vec![1],
            target: "kubeapiserver".into(),
            form: "typed".into(),
            interval: INTERVAL.into(),
            kubeconfig: None,
            more: Vec::new(),
            through: Vec::new(),
        }
    }

    /// The keys of its plugins.
    pub fn keys(mut self, numbers: &[u32]) -> Self {
        self.numbers = numbers.to_vec();
        self
    }

    /// Where and how it publishes.
    pub fn on(mut self, target: &str, form: &str) -> Self {
        (self.target, self.form) = (target.into(), form.into());
        self
    }

    /// Another interval.
    pub fn every(mut self, interval: &str) -> Self {
        self.interval = interval.into();
        self
    }

    /// Another way to the API server than the administrator's.
    pub fn by(mut self, kubeconfig: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(kubeconfig.into());
        self
    }

    /// As this user, at the address that it knows.
    pub fn for_user(self, user: &User) -> Result<Self, Error> {
        let folder = self.ground.logs.join(format!("user-{}", self.node));
        std::fs::create_dir_all(&folder)
            .map_err(|source| Error::Io { what: "making a folder".into(), source })?;
        let kubeconfig = user.write_kubeconfig(&folder)?;
        Ok(self.by(kubeconfig))
    }

    /// One more flag, as `--name=value`.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.more.push(flag.into());
        self
    }

    /// Started by a program that takes it as its last arguments.
    pub fn through(mut self, program: &[&str]) -> Self {
        self.through = program.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Starts it.
    pub fn start(self) -> Result<Reporter, Error> {
        let Self { ground, node, numbers, target, form, interval, kubeconfig, more, through } = self;
        let binary = binaries::path("outrigger")?;
        let site = ground.plane.site();
        let kubeconfig = match kubeconfig {
            Some(kubeconfig) => kubeconfig,
            None => ground.plane.admin().write_kubeconfig(&ground.logs)?,
        };
        let folder = ground.folder.path().display().to_string();
        let sockets: Vec<String> =
            numbers.iter().map(|number| format!("unix://{folder}/kms-{number}.sock")).collect();
        let short: String = node.chars().take(40).collect();
        let log = format!("reporter-{}-{short}-{target}-{form}", ground.name);
        let program = match through.split_first() {
            None => Program::new(log, binary),
            Some((first, others)) => Program::new(log, first).args(others).arg(binary),
        };
        let process = program
            .arg("kms-reporter")
            .flag("kms-sockets", sockets.join(","))
            .flag("socket-dir", folder)
            .flag("interval", interval)
            .flag("node-name", &node)
            .flag("kubeconfig", kubeconfig)
            .flag("target", &target)
            .flag("publish", &form)
            .flag("target-name", &ground.name)
            .flag("metrics-bind-address", "127.0.0.1:0")
            .args(more)
            .start(site)?;
        Ok(Reporter { process, target, form, node })
    }
}

/// A running reporter; killed when dropped.
pub struct Reporter {
    pub process: Process,
    pub target: String,
    pub form: String,
    pub node: String,
}

impl Reporter {
    /// Its log lines so far. Logs of several runs of one reporter stand in one file.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// How many of its log lines hold all of these texts.
    pub fn told(&self, texts: &[&str]) -> usize {
        self.log().lines().filter(|line| texts.iter().all(|text| line.contains(text))).count()
    }

    /// The seconds in each line with this text.
    pub fn seconds(&self, text: &str) -> Vec<f64> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains(text));
        let read = |line: &str| serde_json::from_str::<Value>(line).ok()?["seconds"].as_f64();
        lines.filter_map(read).collect()
    }

    /// Waits until it has logged a line with all of these texts.
    pub async fn until_told(&self, texts: &[&str]) -> Result<(), Error> {
        wait::until(format!("a log line with {texts:?}"), SOON, || async {
            if self.told(texts) > 0 { Ok(()) } else { Err(format!("its log is\n{}", self.log())) }
        })
        .await
    }

    /// One of its metrics: the sum over all label sets that hold `labels`.
    pub async fn metric(&self, name: &str, labels: &str) -> Result<f64, Error> {
        let what = |source| Error::Io { what: "asking for metrics".into(), source };
        let mut stream = tokio::net::TcpStream::connect(self.admin().await?).await.map_err(what)?;
        let request = "GET /metrics HTTP/1.1\r\nHost: reporter\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.map_err(what)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(what)?;
        let samples = answer.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        Ok(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Waits until a metric is at least so much.
    pub async fn until_metric(&self, name: &str, labels: &str, least: f64) -> Result<(), Error> {
        wait::until(format!("{name}{{{labels}}} of {least}"), 2 * SOON, || async {
            let value = self.metric(name, labels).await?;
            if value >= least { Ok(()) } else { Err(Error::Refused(format!("it is {value}"))) }
        })
        .await
    }

    /// How many rounds it has ended.
    pub async fn rounds(&self) -> Result<f64, Error> {
        self.metric("outrigger_kms_round_duration_seconds_count", "").await
    }

    async fn admin(&self) -> Result<String, Error> {
        wait::until("its address", SOON, || async {
            let log = self.log();
            let line = log.lines().rev().find(|line| line.contains("serving health, metrics and state"));
            let line: Value = line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
            line["address"].as_str().map(str::to_owned).ok_or_else(|| format!("its log is\n{log}"))
        })
        .await
    }

    /// Its resident memory, in KiB.
    pub fn memory(&self) -> Result<u64, Error> {
        let status = read(&format!("/proc/{}/status", self.process.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        Ok(line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0))
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> Result<usize, Error> {
        let folder = format!("/proc/{}/fd", self.process.pid()?);
        let open = std::fs::read_dir(&folder).map_err(|source| Error::Io { what: folder, source })?;
        Ok(open.count())
    }
}

fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(Path::new(path))
        .map_err(|source| Error::Io { what: format!("reading {path}"), source })
}
