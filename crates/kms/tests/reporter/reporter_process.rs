//! Reporter processes: flags, logs, metrics and resource usage.

use std::path::{Path, PathBuf};

use serde_json::Value;
use testbed::Error;
use testbed::cluster::control_plane::User;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fixture::{Fixture, INTERVAL, TIMEOUT};

/// Configures a reporter process.
pub struct ReporterBuilder<'g> {
    fixture: &'g Fixture<'g>,
    node: String,
    numbers: Vec<u32>,
    target: String,
    form: String,
    interval: String,
    kubeconfig: Option<PathBuf>,
    more: Vec<String>,
    wrapper: Vec<String>,
}

impl<'g> ReporterBuilder<'g> {
    /// Returns a reporter for one node and one plugin, on the test's KubeAPIServer.
    pub fn new(fixture: &'g Fixture<'g>, node: &str) -> Self {
        Self {
            fixture,
            node: node.into(),
            numbers: vec![1],
            target: "kubeapiserver".into(),
            form: "typed".into(),
            interval: INTERVAL.into(),
            kubeconfig: None,
            more: Vec::new(),
            wrapper: Vec::new(),
        }
    }

    /// Sets the keys of its plugins.
    pub fn keys(mut self, numbers: &[u32]) -> Self {
        self.numbers = numbers.to_vec();
        self
    }

    /// Sets target and report format.
    pub fn on(mut self, target: &str, form: &str) -> Self {
        (self.target, self.form) = (target.into(), form.into());
        self
    }

    /// Sets the interval.
    pub fn interval(mut self, interval: &str) -> Self {
        self.interval = interval.into();
        self
    }

    /// Sets the kubeconfig, instead of the administrator's.
    pub fn kubeconfig(mut self, kubeconfig: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(kubeconfig.into());
        self
    }

    /// Runs as this user, at the user's API server address.
    pub fn for_user(self, user: &User) -> Result<Self, Error> {
        let dir = self.fixture.logs.join(format!("user-{}", self.node));
        std::fs::create_dir_all(&dir)
            .map_err(|source| Error::Io { what: "creating a directory".into(), source })?;
        let kubeconfig = user.write_kubeconfig(&dir)?;
        Ok(self.kubeconfig(kubeconfig))
    }

    /// Adds a flag, as `--name=value`.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.more.push(flag.into());
        self
    }

    /// Starts it with a program that takes it as its last arguments.
    pub fn wrapped_by(mut self, program: &[&str]) -> Self {
        self.wrapper = program.iter().map(|arg| (*arg).to_owned()).collect();
        self
    }

    /// Starts the process.
    pub fn start(self) -> Result<Reporter, Error> {
        let Self { fixture, node, numbers, target, form, interval, kubeconfig, more, wrapper } = self;
        let binary = binaries::path("outrigger")?;
        let site = fixture.plane.site();
        let kubeconfig = match kubeconfig {
            Some(kubeconfig) => kubeconfig,
            None => fixture.plane.admin().write_kubeconfig(&fixture.logs)?,
        };
        let dir = fixture.dir.path().display().to_string();
        let sockets: Vec<String> =
            numbers.iter().map(|number| format!("unix://{dir}/kms-{number}.sock")).collect();
        let short: String = node.chars().take(40).collect();
        let log = format!("reporter-{}-{short}-{target}-{form}", fixture.name);
        let program = match wrapper.split_first() {
            None => Program::new(log, binary),
            Some((first, others)) => Program::new(log, first).args(others).arg(binary),
        };
        let process = program
            .arg("kms-reporter")
            .flag("kms-sockets", sockets.join(","))
            .flag("socket-dir", dir)
            .flag("interval", interval)
            .flag("node-name", &node)
            .flag("kubeconfig", kubeconfig)
            .flag("target", &target)
            .flag("publish", &form)
            .flag("target-name", &fixture.name)
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
    /// Returns the log so far. Several runs of one reporter share a file.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// Returns the number of log lines that contain all texts.
    pub fn count_logged(&self, texts: &[&str]) -> usize {
        self.log().lines().filter(|line| texts.iter().all(|text| line.contains(text))).count()
    }

    /// Returns the `seconds` field of each log line that contains a text.
    pub fn seconds(&self, text: &str) -> Vec<f64> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains(text));
        let read = |line: &str| serde_json::from_str::<Value>(line).ok()?["seconds"].as_f64();
        lines.filter_map(read).collect()
    }

    /// Waits for a log line that contains all texts.
    pub async fn until_logged(&self, texts: &[&str]) -> Result<(), Error> {
        wait::until(format!("a log line with {texts:?}"), TIMEOUT, || async {
            if self.count_logged(texts) > 0 { Ok(()) } else { Err(format!("the log is\n{}", self.log())) }
        })
        .await
    }

    /// Returns a metric: the sum over all series whose labels contain `labels`.
    pub async fn metric(&self, name: &str, labels: &str) -> Result<f64, Error> {
        let failed = |source| Error::Io { what: "reading metrics".into(), source };
        let mut stream =
            tokio::net::TcpStream::connect(self.metrics_address().await?).await.map_err(failed)?;
        let request = "GET /metrics HTTP/1.1\r\nHost: reporter\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await.map_err(failed)?;
        let samples = response.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        Ok(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Waits until a metric has at least a value.
    pub async fn until_metric(&self, name: &str, labels: &str, least: f64) -> Result<(), Error> {
        wait::until(format!("{name}{{{labels}}} of {least}"), 2 * TIMEOUT, || async {
            let value = self.metric(name, labels).await?;
            if value >= least { Ok(()) } else { Err(Error::Other(format!("{value}"))) }
        })
        .await
    }

    /// Returns the number of completed rounds.
    pub async fn rounds(&self) -> Result<f64, Error> {
        self.metric("outrigger_kms_round_duration_seconds_count", "").await
    }

    async fn metrics_address(&self) -> Result<String, Error> {
        wait::until("the address of metrics", TIMEOUT, || async {
            let log = self.log();
            let line = log.lines().rev().find(|line| line.contains("\"server\":\"metrics\""));
            let line: Value = line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
            line["address"].as_str().map(str::to_owned).ok_or_else(|| format!("the log is\n{log}"))
        })
        .await
    }

    /// Returns the resident memory in KiB.
    pub fn memory(&self) -> Result<u64, Error> {
        let status = read(&format!("/proc/{}/status", self.process.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        Ok(line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0))
    }

    /// Returns the number of open file descriptors.
    pub fn descriptors(&self) -> Result<usize, Error> {
        let dir = format!("/proc/{}/fd", self.process.pid()?);
        let open = std::fs::read_dir(&dir).map_err(|source| Error::Io { what: dir, source })?;
        Ok(open.count())
    }
}

fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(Path::new(path))
        .map_err(|source| Error::Io { what: format!("reading {path}"), source })
}
