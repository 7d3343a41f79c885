//! The figures: the median of all rounds and their range, one line each, and the same as JSON.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use testbed::Error;

use crate::contender::Contender;
use crate::round::Measured;
use crate::settings::Settings;

/// Where figures are kept: below the build folder.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/bench/operator.json");

/// Goals are those of so many nodes: with fewer, meeting them says nothing.
const GOALS_ARE_OF: usize = 1_000;

/// What was measured in all rounds.
#[derive(Default)]
pub struct Report {
    pub ours: Vec<Measured>,
    pub peer: Vec<Measured>,
}

/// What figures depend on besides the programs.
#[derive(Clone, Debug, Serialize)]
pub struct Circumstances {
    ours: String,
    peer: Option<String>,
    kernel: String,
    processors: usize,
    load_before: String,
    load_after: String,
    nodes: usize,
    edits: usize,
    rounds: usize,
}

impl Circumstances {
    /// As they are before the first round.
    pub fn of(settings: &Settings, ours: &Contender, peer: Option<&Contender>) -> Result<Self, Error> {
        Ok(Self {
            ours: ours.version.clone(),
            peer: peer.map(|peer| peer.version.clone()),
            kernel: read("/proc/sys/kernel/osrelease")?,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            load_before: load()?,
            load_after: String::new(),
            nodes: settings.nodes,
            edits: settings.edits,
            rounds: settings.rounds,
        })
    }
}

/// One figure.
#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    unit: &'static str,
    ours: f64,
    peer: Option<f64>,
    /// Ours for one of the peer's.
    ratio: Option<f64>,
    better: &'static str,
    /// At most this is wanted of ours.
    goal: Option<f64>,
    ours_range: [f64; 2],
    peer_range: Option<[f64; 2]>,
    under: Circumstances,
}

impl Report {
    /// Prints every figure and writes them down.
    pub fn finish(&self, mut under: Circumstances) -> Result<(), Error> {
        under.load_after = load()?;
        let verbs: BTreeSet<&String> =
            self.ours.iter().chain(&self.peer).flat_map(|round| round.requests.keys()).collect();
        let mut figures = vec![self.figure("requests per node", "requests", Some(10.0), &under, |round| {
            per_node(round, round.requests.values().sum())
        })];
        for verb in verbs {
            figures.push(self.figure(
                &format!("{verb} requests per node"),
                "requests",
                None,
                &under,
                |round| per_node(round, round.requests.get(verb).copied().unwrap_or_default()),
            ));
        }
        figures.extend([
            self.figure("processor time per node", "ms", Some(4.0), &under, |round| {
                millis(round.cpu) / float(round.nodes)
            }),
            self.figure("memory without nodes (VmRSS)", "MB", Some(15.0), &under, |round| round.memory_empty),
            self.figure("memory with all nodes (VmRSS)", "MB", Some(40.0), &under, |round| round.memory_full),
            self.figure("edit to pod deletion, p50", "ms", None, &under, |round| quantile(&round.edits, 0.5)),
            self.figure("edit to pod deletion, p99", "ms", Some(100.0), &under, |round| {
                quantile(&round.edits, 0.99)
            }),
            self.figure("sidecar tasks given per node", "tasks", None, &under, |round| {
                per_node(round, round.submissions.0)
            }),
            self.figure("of these given before", "%", Some(0.0), &under, |round| {
                100.0 * float(round.submissions.1) / float(round.submissions.0.max(1))
            }),
            self.figure("writes in 60 s at rest", "requests", Some(0.0), &under, |round| {
                float(round.writes_at_rest)
            }),
            self.figure("all nodes from nothing to Running", "s", None, &under, |round| {
                round.took.as_secs_f64()
            }),
        ]);
        println!(
            "\n{} nodes, median of {} rounds (range); {}, kernel {}, {} processors, load {} before and {} after",
            under.nodes,
            under.rounds,
            under.ours,
            under.kernel,
            under.processors,
            under.load_before,
            under.load_after
        );
        for figure in &figures {
            println!("{}", line(figure));
        }
        let folder = Path::new(FILE).parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(FILE, serde_json::to_string_pretty(&figures)?))
            .map_err(|source| Error::Io { what: format!("writing {FILE}"), source })
    }

    fn figure(
        &self,
        name: &str,
        unit: &'static str,
        goal: Option<f64>,
        under: &Circumstances,
        of: impl Fn(&Measured) -> f64,
    ) -> Figure {
        let (ours, ours_range) = median(self.ours.iter().map(&of)).unwrap_or_default();
        let peer = median(self.peer.iter().map(&of));
        let ratio = peer.filter(|(peer, _)| *peer != 0.0).map(|(peer, _)| ours / peer);
        Figure {
            name: name.into(),
            unit,
            ours,
            peer: peer.map(|(peer, _)| peer),
            ratio,
            better: "lower",
            goal: goal.filter(|_| under.nodes == GOALS_ARE_OF),
            ours_range,
            peer_range: peer.map(|(_, range)| range),
            under: under.clone(),
        }
    }
}

fn line(figure: &Figure) -> String {
    let one = |value: f64, [least, most]: [f64; 2]| format!("{value:.1} ({least:.1} to {most:.1})");
    let peer = match (figure.peer, figure.peer_range) {
        (Some(peer), Some(range)) => format!(", peer {}", one(peer, range)),
        _ => String::new(),
    };
    let ratio = figure.ratio.map_or_else(String::new, |ratio| format!(", ratio {ratio:.2}"));
    let goal = figure.goal.map_or_else(String::new, |goal| {
        format!(", goal {goal}: {}", if figure.ours <= goal { "met" } else { "MISSED" })
    });
    format!(
        "{} [{}]: ours {}{peer}{ratio}{goal}",
        figure.name,
        figure.unit,
        one(figure.ours, figure.ours_range)
    )
}

/// The median and the range.
fn median(values: impl Iterator<Item = f64>) -> Option<(f64, [f64; 2])> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    Some((values[values.len() / 2], [least, most]))
}

/// The value that so many of the times do not exceed, in milliseconds.
fn quantile(times: &[Duration], share: f64) -> f64 {
    let mut times: Vec<f64> = times.iter().copied().map(millis).collect();
    times.sort_by(f64::total_cmp);
    let rank = (float(times.len()) * share).ceil() as usize;
    times.get(rank.max(1) - 1).copied().unwrap_or_default()
}

fn per_node(round: &Measured, count: usize) -> f64 {
    float(count) / float(round.nodes)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Counts here are far below what a float holds exactly.
fn float(count: usize) -> f64 {
    count as f64
}

fn load() -> Result<String, Error> {
    Ok(read("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned())
}

fn read(path: &str) -> Result<String, Error> {
    let text = std::fs::read_to_string(path);
    text.map(|text| text.trim().to_owned())
        .map_err(|source| Error::Io { what: format!("reading {path}"), source })
}
