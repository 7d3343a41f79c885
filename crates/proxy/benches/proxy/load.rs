//! Generates load: as much as a program can take, or at a moderate rate.

use std::path::PathBuf;
use std::time::Duration;

use testbed::Error;
use testbed::bench::{float, quantile};
use tokio::process::Command;

use crate::contender::Contender;
use crate::environment::{AUTHORIZED_PATH, Environment, IGNORED_PATH};
use crate::tools::Tools;

/// Numbers of concurrent connections.
pub const CONNECTIONS: [usize; 3] = [1, 32, 512];

/// Moderate load: connections, and requests per second on each. Even the slowest proxy is mostly idle.
const MODERATE_LOAD: (usize, usize) = (32, 40);

/// Interval at which memory is sampled under load.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// Deadline of one h2load run.
const TIMEOUT: Duration = Duration::from_secs(120);

/// HTTP version, in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge, one request at a time.
    Http2,
}

impl Protocol {
    /// Returns the short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
        }
    }
}

/// The requested path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// Authorized from the cache.
    Authorized,
    /// Ignored: not authorized.
    Ignored,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub protocol: Protocol,
    pub path: Path,
    pub connections: usize,
}

impl Cell {
    /// Returns all combinations.
    pub fn all() -> impl Iterator<Item = Self> {
        let each = |protocol| {
            CONNECTIONS.into_iter().flat_map(move |connections| {
                [Path::Authorized, Path::Ignored].map(|path| Self { protocol, path, connections })
            })
        };
        [Protocol::Http1, Protocol::Http2].into_iter().flat_map(each)
    }
}

/// Measurements of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Saturated {
    /// Requests per second of CPU time.
    pub per_cpu_second: f64,
    /// Requests per second.
    pub per_second: f64,
    /// Peak resident memory in MB.
    pub memory: f64,
}

/// Sends requests as fast as responses arrive.
pub async fn saturate(
    environment: &Environment,
    contender: &Contender,
    tools: &Tools,
    cell: Cell,
    seconds: usize,
) -> Result<Saturated, Error> {
    let load_request = |seconds: usize| {
        LoadRequest {
            environment,
            contender,
            protocol: cell.protocol,
            path: cell.path,
            connections: cell.connections,
        }
        .command(tools, &["-D", &seconds.to_string()])
    };
    // Warm-up: opens upstream connections and fills expired caches. A traced proxy may not answer within a second.
    output(load_request(1)).await?;
    let before = contender.cpu()?;
    let mut peak = 0.0_f64;
    let mut run = std::pin::pin!(count_successful(contender, load_request(seconds)));
    let requests = loop {
        tokio::select! {
            requests = &mut run => break requests?,
            () = tokio::time::sleep(SAMPLE_INTERVAL) => peak = peak.max(contender.memory()?),
        }
    };
    let used = contender.cpu()? - before;
    let measured =
        Saturated { per_cpu_second: requests / used, per_second: requests / float(seconds), memory: peak };
    println!(
        "  {}, {:?} over {}, {} connections: {:.0} requests per CPU-second, {:.0} requests per second, {:.1} MB",
        contender.name,
        cell.path,
        cell.protocol.name(),
        cell.connections,
        measured.per_cpu_second,
        measured.per_second,
        measured.memory
    );
    Ok(measured)
}

/// Returns p50 and p99 latency at a moderate rate, in milliseconds.
pub async fn measure_latency(
    environment: &Environment,
    contender: &Contender,
    tools: &Tools,
    protocol: Protocol,
    seconds: usize,
) -> Result<[f64; 2], Error> {
    let (connections, rate) = MODERATE_LOAD;
    let log: PathBuf = environment.site.dir().join("times.log");
    // h2load appends to the file.
    let _ = std::fs::remove_file(&log);
    let load_request = LoadRequest { environment, contender, protocol, path: Path::Authorized, connections };
    let log_flag = format!("--log-file={}", log.display());
    let flags = ["-D", &seconds.to_string(), &format!("--rps={rate}"), &log_flag];
    count_successful(contender, load_request.command(tools, &flags)).await?;
    let text = std::fs::read_to_string(&log)
        .map_err(|source| Error::Io { what: format!("reading {}", log.display()), source })?;
    let times: Vec<Duration> = text
        .lines()
        .filter_map(|line| line.split('\t').nth(2)?.parse().ok().map(Duration::from_micros))
        .collect();
    let measured = [0.5, 0.99].map(|share| quantile(&times, share));
    println!(
        "  {} over {} at {} requests per second: p50 {:.2} ms, p99 {:.2} ms",
        contender.name,
        protocol.name(),
        connections * rate,
        measured[0],
        measured[1]
    );
    Ok(measured)
}

/// One h2load run.
pub struct LoadRequest<'a> {
    pub environment: &'a Environment,
    pub contender: &'a Contender,
    pub protocol: Protocol,
    pub path: Path,
    pub connections: usize,
}

impl LoadRequest<'_> {
    /// Returns the h2load command.
    pub fn command(&self, tools: &Tools, flags: &[&str]) -> Command {
        self.with_token(tools, flags, self.environment.token())
    }

    /// Returns the h2load command with another token.
    pub fn with_token(&self, tools: &Tools, flags: &[&str], token: &str) -> Command {
        let path = match self.path {
            Path::Authorized => AUTHORIZED_PATH,
            Path::Ignored => IGNORED_PATH,
        };
        let mut command = Command::new(&tools.h2load);
        if self.protocol == Protocol::Http1 {
            command.arg("--h1");
        }
        command.args(["-t", "1", "-m", "1", "-c", &self.connections.to_string()]).args(flags);
        if self.path == Path::Authorized {
            command.args(["-H", &format!("authorization: Bearer {token}")]);
        }
        command.arg(format!("http://{}{path}", self.contender.address(self.protocol)));
        command.kill_on_drop(true);
        command
    }
}

/// Returns the number of successful requests. Any other response is an error: the figure would be that of
/// something else.
async fn count_successful(contender: &Contender, command: Command) -> Result<f64, Error> {
    let output_text = output(command).await?;
    let line = |begin: &str| output_text.lines().find(|line| line.starts_with(begin)).unwrap_or_default();
    let count = |line: &str, what: &str| -> Option<f64> {
        line.split([':', ',']).find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok())
    };
    let successful = count(line("status codes:"), "2xx").unwrap_or_default();
    let unsuccessful =
        ["3xx", "4xx", "5xx"].iter().filter_map(|what| count(line("status codes:"), what)).sum::<f64>();
    let failed = count(line("requests:"), "errored").unwrap_or_default();
    if successful > 0.0 && unsuccessful == 0.0 && failed == 0.0 {
        return Ok(successful);
    }
    Err(Error::Other(format!("{} did not answer all requests successfully:\n{output_text}", contender.name)))
}

/// Returns the output of h2load.
pub async fn output(mut command: Command) -> Result<String, Error> {
    let output = tokio::time::timeout(TIMEOUT, command.output())
        .await
        .map_err(|_| Error::Other("h2load timed out".into()))?
        .map_err(|source| Error::Io { what: "starting h2load".into(), source })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
