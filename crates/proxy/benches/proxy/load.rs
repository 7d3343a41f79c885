//! Requests: as many as a contender can take, and as many as all of them take at their leisure.

use std::path::PathBuf;
use std::time::Duration;

use testbed::Error;
use testbed::bench::{float, quantile};
use tokio::process::Command;

use crate::contender::Contender;
use crate::tools::Tools;
use crate::world::{CLOSED, OPEN, World};

/// How many connections there are at once.
pub const CONNECTIONS: [usize; 3] = [1, 32, 512];

/// At leisure: so many connections, each with so many requests in a second. The slowest of all proxies is idle for most of the time.
const LEISURE: (usize, usize) = (32, 40);

/// How often memory is looked at under load.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// The longest that asking may take.
const WITHIN: Duration = Duration::from_secs(120);

/// A version of HTTP, in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 that both sides know of beforehand, one request at a time.
    Http2,
}

impl Protocol {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// What is authorized, from what is remembered.
    Closed,
    /// What nobody is asked for.
    Open,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub protocol: Protocol,
    pub path: Path,
    pub connections: usize,
}

impl Cell {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let each = |protocol| {
            CONNECTIONS.into_iter().flat_map(move |connections| {
                [Path::Closed, Path::Open].map(|path| Self { protocol, path, connections })
            })
        };
        [Protocol::Http1, Protocol::Http2].into_iter().flat_map(each)
    }
}

/// What was measured in a cell.
#[derive(Clone, Copy, Debug)]
pub struct Saturated {
    /// Requests for one second of the contender's processor time.
    pub per_cpu_second: f64,
    /// Requests in a second.
    pub per_second: f64,
    /// The most memory that was seen, in MB.
    pub memory: f64,
}

/// Asks as fast as answers come.
pub async fn saturate(
    world: &World,
    contender: &Contender,
    tools: &Tools,
    cell: Cell,
    seconds: usize,
) -> Result<Saturated, Error> {
    let asking = |seconds: usize| {
        Asking { world, contender, protocol: cell.protocol, path: cell.path, connections: cell.connections }
            .command(tools, &["-D", &seconds.to_string()])
    };
    // The first connections to the upstream are made, and whoever forgot the caller asks about him.
    answered(contender, asking(1)).await?;
    let before = contender.cpu()?;
    let mut most = 0.0_f64;
    let mut asked = std::pin::pin!(answered(contender, asking(seconds)));
    let requests = loop {
        tokio::select! {
            requests = &mut asked => break requests?,
            () = tokio::time::sleep(BETWEEN_LOOKS) => most = most.max(contender.memory()?),
        }
    };
    let used = contender.cpu()? - before;
    let measured =
        Saturated { per_cpu_second: requests / used, per_second: requests / float(seconds), memory: most };
    println!(
        "  {}, {:?} over {}, {} connections: {:.0} requests per CPU-second, {:.0} in a second, {:.1} MB",
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

/// The times of answers at leisure, p50 and p99, in milliseconds.
pub async fn at_leisure(
    world: &World,
    contender: &Contender,
    tools: &Tools,
    protocol: Protocol,
    seconds: usize,
) -> Result<[f64; 2], Error> {
    let (connections, rate) = LEISURE;
    let log: PathBuf = world.site.dir().join("times.log");
    // It is appended to.
    let _ = std::fs::remove_file(&log);
    let asking = Asking { world, contender, protocol, path: Path::Closed, connections };
    let log_flag = format!("--log-file={}", log.display());
    let flags = ["-D", &seconds.to_string(), &format!("--rps={rate}"), &log_flag];
    answered(contender, asking.command(tools, &flags)).await?;
    let text = std::fs::read_to_string(&log)
        .map_err(|source| Error::Io { what: format!("reading {}", log.display()), source })?;
    let times: Vec<Duration> = text
        .lines()
        .filter_map(|line| line.split('\t').nth(2)?.parse().ok().map(Duration::from_micros))
        .collect();
    let measured = [0.5, 0.99].map(|share| quantile(&times, share));
    println!(
        "  {} over {} at {} requests in a second: p50 {:.2} ms, p99 {:.2} ms",
        contender.name,
        protocol.name(),
        connections * rate,
        measured[0],
        measured[1]
    );
    Ok(measured)
}

/// Who asks whom for what.
pub struct Asking<'a> {
    pub world: &'a World,
    pub contender: &'a Contender,
    pub protocol: Protocol,
    pub path: Path,
    pub connections: usize,
}

impl Asking<'_> {
    /// The program that asks.
    pub fn command(&self, tools: &Tools, flags: &[&str]) -> Command {
        self.with_token(tools, flags, self.world.token())
    }

    /// The same, with another token than the usual one.
    pub fn with_token(&self, tools: &Tools, flags: &[&str], token: &str) -> Command {
        let path = match self.path {
            Path::Closed => CLOSED,
            Path::Open => OPEN,
        };
        let mut command = Command::new(&tools.h2load);
        if self.protocol == Protocol::Http1 {
            command.arg("--h1");
        }
        command.args(["-t", "1", "-m", "1", "-c", &self.connections.to_string()]).args(flags);
        if self.path == Path::Closed {
            command.args(["-H", &format!("authorization: Bearer {token}")]);
        }
        command.arg(format!("http://{}{path}", self.contender.address(self.protocol)));
        command.kill_on_drop(true);
        command
    }
}

/// How many requests were answered well. Any other answer is an error: it would be the figure of something else.
async fn answered(contender: &Contender, command: Command) -> Result<f64, Error> {
    let said = output(command).await?;
    let line = |begin: &str| said.lines().find(|line| line.starts_with(begin)).unwrap_or_default();
    let count = |line: &str, what: &str| -> Option<f64> {
        line.split([':', ',']).find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok())
    };
    let good = count(line("status codes:"), "2xx").unwrap_or_default();
    let others =
        ["3xx", "4xx", "5xx"].iter().filter_map(|what| count(line("status codes:"), what)).sum::<f64>();
    let failed = count(line("requests:"), "errored").unwrap_or_default();
    if good > 0.0 && others == 0.0 && failed == 0.0 {
        return Ok(good);
    }
    Err(Error::Refused(format!("{} did not answer all requests well:\n{said}", contender.name)))
}

/// What the program that asks has said.
pub async fn output(mut command: Command) -> Result<String, Error> {
    let output = tokio::time::timeout(WITHIN, command.output())
        .await
        .map_err(|_| Error::Refused("h2load does not end".into()))?
        .map_err(|source| Error::Io { what: "starting h2load".into(), source })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
