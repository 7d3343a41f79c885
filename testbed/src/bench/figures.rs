//! Benchmark results: median and range of all rounds, printed as lines and written as JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::Build;
use crate::error::{IoContext, Result};

/// Output directory, below the target directory.
const OUTPUT_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench");

/// Environment of a benchmark run.
#[derive(Clone, Debug, Serialize)]
pub struct BenchEnvironment {
    ours: String,
    peer: Option<String>,
    kernel: String,
    processors: usize,
    load_before: String,
    load_after: String,
    /// Sizes of the workload.
    #[serde(flatten)]
    sizes: BTreeMap<&'static str, usize>,
}

impl BenchEnvironment {
    /// Records the environment before the first round.
    pub fn new(
        ours: &Build,
        peer: Option<&Build>,
        sizes: impl IntoIterator<Item = (&'static str, usize)>,
    ) -> Result<Self> {
        Ok(Self {
            ours: ours.version.clone(),
            peer: peer.map(|peer| peer.version.clone()),
            kernel: read("/proc/sys/kernel/osrelease")?,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            load_before: load()?,
            load_after: String::new(),
            sizes: sizes.into_iter().collect(),
        })
    }
}

/// A benchmark result. Lower is better by default.
#[derive(Debug, Serialize)]
pub struct Figure {
    name: String,
    unit: &'static str,
    ours: f64,
    peer: Option<f64>,
    /// Ours divided by peer.
    ratio: Option<f64>,
    better: &'static str,
    /// Upper bound for ours, or lower bound if higher is better.
    goal: Option<f64>,
    /// Bound for the ratio.
    goal_of_ratio: Option<f64>,
    ours_range: [f64; 2],
    peer_range: Option<[f64; 2]>,
}

impl Figure {
    /// Creates a result from the values of all rounds.
    pub fn new(
        name: impl Into<String>,
        unit: &'static str,
        ours: impl IntoIterator<Item = f64>,
        peer: impl IntoIterator<Item = f64>,
    ) -> Self {
        let (ours, ours_range) = median(ours).unwrap_or_default();
        let peer = median(peer);
        Self {
            name: name.into(),
            unit,
            ours,
            peer: peer.map(|(peer, _)| peer),
            ratio: peer.filter(|(peer, _)| *peer != 0.0).map(|(peer, _)| ours / peer),
            better: "lower",
            goal: None,
            goal_of_ratio: None,
            ours_range,
            peer_range: peer.map(|(_, range)| range),
        }
    }

    /// Sets the upper bound for ours, or the lower bound if higher is better.
    #[must_use]
    pub fn goal(mut self, goal: impl Into<Option<f64>>) -> Self {
        self.goal = goal.into();
        self
    }

    /// Sets the upper bound for the ratio, or the lower bound if higher is better.
    #[must_use]
    pub fn goal_of_ratio(mut self, goal: impl Into<Option<f64>>) -> Self {
        self.goal_of_ratio = goal.into();
        self
    }

    /// Higher is better.
    #[must_use]
    pub fn higher(mut self) -> Self {
        self.better = "higher";
        self
    }

    /// Informational: neither higher nor lower is better.
    #[must_use]
    pub fn either(mut self) -> Self {
        self.better = "either";
        self
    }

    fn line(&self) -> String {
        let with_range = |value: f64, [least, most]: [f64; 2]| {
            format!("{} ({} to {})", format_value(value), format_value(least), format_value(most))
        };
        let peer = match (self.peer, self.peer_range) {
            (Some(peer), Some(range)) => format!(", peer {}", with_range(peer, range)),
            _ => String::new(),
        };
        let ratio = self.ratio.map_or_else(String::new, |ratio| {
            format!(", ratio {ratio:.2}{}", self.goal_text(ratio, self.goal_of_ratio))
        });
        let goal = self.goal_text(self.ours, self.goal);
        format!(
            "{} [{}]: ours {}{peer}{ratio}{goal}",
            self.name,
            self.unit,
            with_range(self.ours, self.ours_range)
        )
    }

    fn goal_text(&self, value: f64, goal: Option<f64>) -> String {
        let Some(goal) = goal else { return String::new() };
        let met = if self.better == "higher" { value >= goal } else { value <= goal };
        format!(", goal {goal}: {}", if met { "met" } else { "MISSED" })
    }
}

/// Prints all results below a headline and writes them to `target/bench/NAME.json`.
pub fn write_report(
    name: &str,
    headline: &str,
    figures: &[Figure],
    mut under: BenchEnvironment,
) -> Result<()> {
    #[derive(Serialize)]
    struct Entry<'a> {
        #[serde(flatten)]
        figure: &'a Figure,
        under: &'a BenchEnvironment,
    }
    under.load_after = load()?;
    println!(
        "\n{headline}; {}, kernel {}, {} CPUs, load {} before and {} after",
        under.ours, under.kernel, under.processors, under.load_before, under.load_after
    );
    for figure in figures {
        println!("{}", figure.line());
    }
    let entries: Vec<Entry<'_>> = figures.iter().map(|figure| Entry { figure, under: &under }).collect();
    let file = Path::new(OUTPUT_DIR).join(format!("{name}.json"));
    std::fs::create_dir_all(OUTPUT_DIR)
        .and_then(|()| std::fs::write(&file, serde_json::to_string_pretty(&entries)?))
        .context(|| format!("writing {}", file.display()))
}

/// Returns the quantile `share` of the times, in milliseconds.
#[must_use]
pub fn quantile(times: &[Duration], share: f64) -> f64 {
    let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1_000.0).collect();
    times.sort_by(f64::total_cmp);
    let rank = (float(times.len()) * share).ceil() as usize;
    times.get(rank.max(1) - 1).copied().unwrap_or_default()
}

/// Converts a count; counts here are far below 2^53, so this is exact.
#[must_use]
pub fn float(count: usize) -> f64 {
    count as f64
}

/// Returns median and range.
fn median(values: impl IntoIterator<Item = f64>) -> Option<(f64, [f64; 2])> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    Some((values[values.len() / 2], [least, most]))
}

/// Formats with one decimal, or two below 1.
fn format_value(value: f64) -> String {
    if value != 0.0 && value.abs() < 1.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

fn load() -> Result<String> {
    Ok(read("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned())
}

fn read(path: &str) -> Result<String> {
    let text = std::fs::read_to_string(path).context(|| format!("reading {path}"))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_shows_median_range_peer_and_goals() {
        let figure = Figure::new("memory", "MB", [9.0, 7.0, 8.0], [40.0, 16.0, 15.0]).goal(7.5);
        assert_eq!(
            figure.line(),
            "memory [MB]: ours 8.0 (7.0 to 9.0), peer 16.0 (15.0 to 40.0), ratio 0.50, goal 7.5: MISSED"
        );
        let alone = Figure::new("memory", "MB", [0.25], []).goal(0.25);
        assert_eq!(alone.line(), "memory [MB]: ours 0.25 (0.25 to 0.25), goal 0.25: met");
        let speed = Figure::new("speed", "requests", [60.0], [10.0]).higher().goal(70.0).goal_of_ratio(6.0);
        assert_eq!(
            speed.line(),
            "speed [requests]: ours 60.0 (60.0 to 60.0), peer 10.0 (10.0 to 10.0), ratio 6.00, goal 6: met, goal 70: MISSED"
        );
    }

    #[test]
    fn quantile_is_one_of_the_values() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| quantile(&times, share)), [100.0, 198.0, 200.0]);
        assert_eq!(quantile(&[], 0.99), 0.0);
    }
}
