//! The figures of all rounds.

use std::collections::BTreeMap;

use testbed::Error;
use testbed::bench::{BenchEnvironment, Figure, float, write_report};

use crate::contender::OVER_UNIX_SOCKET;
use crate::load::{Cell, Path, Protocol, Saturated};
use crate::settings::Settings;

/// Goals: requests per CPU-second relative to the peer and to nginx (by number of connections), memory in MB,
/// latency relative to the peer.
const GOAL_PEER_RATIO: f64 = 7.0;
const GOAL_NGINX_RATIO: [(usize, f64); 2] = [(32, 0.9), (512, 1.0)];
const GOAL_IDLE_MEMORY: f64 = 8.0;
const GOAL_LOADED_MEMORY: f64 = 24.0;
const GOAL_P99_RATIO: f64 = 0.5;

/// The unit of throughput.
const THROUGHPUT: &str = "requests per CPU-second";

/// Measured values by program and key, one value per round.
type Values<K> = BTreeMap<(&'static str, K), Vec<f64>>;

/// Measurements of all rounds.
#[derive(Default)]
pub struct Report {
    cells: BTreeMap<(&'static str, Cell), Vec<Saturated>>,
    p50: Values<Protocol>,
    p99: Values<Protocol>,
    memory: Values<&'static str>,
    reviews: Values<&'static str>,
}

impl Report {
    /// Records the throughput of a saturated program.
    pub fn cell(&mut self, program: &'static str, cell: Cell, measured: Saturated) {
        self.cells.entry((program, cell)).or_default().push(measured);
    }

    /// Records latencies at a moderate rate.
    pub fn latency(&mut self, program: &'static str, protocol: Protocol, [p50, p99]: [f64; 2]) {
        self.p50.entry((program, protocol)).or_default().push(p50);
        self.p99.entry((program, protocol)).or_default().push(p99);
    }

    /// Records resident memory in MB.
    pub fn memory(&mut self, program: &'static str, state: &'static str, memory: f64) {
        self.memory.entry((program, state)).or_default().push(memory);
    }

    /// Records the number of reviews.
    pub fn reviews(&mut self, program: &'static str, case: &'static str, reviews: usize) {
        self.reviews.entry((program, case)).or_default().push(float(reviews));
    }

    /// Prints and stores all figures.
    pub fn finish(&self, settings: &Settings, circumstances: BenchEnvironment) -> Result<(), Error> {
        let mut figures: Vec<Figure> = Cell::all().flat_map(|cell| self.throughput_figures(cell)).collect();
        figures.extend(self.unix_socket_figures());
        for protocol in [Protocol::Http1, Protocol::Http2] {
            figures.extend(self.latency_figures(protocol));
        }
        figures.extend(self.memory_figures(settings));
        for case in ["of one caller", "with one invalid token"] {
            let name = format!("reviews for 1000 requests {case}");
            figures.push(compare_with_peer(&name, "reviews", &self.reviews, case));
        }
        let headline = format!("Median of {} rounds (range)", settings.rounds);
        write_report("proxy", &headline, &figures, circumstances)
    }

    /// Returns one value of a cell for each round.
    fn values(&self, program: &'static str, cell: Cell, value: impl Fn(&Saturated) -> f64) -> Vec<f64> {
        self.cells.get(&(program, cell)).into_iter().flatten().map(value).collect()
    }

    /// The upstream over a Unix socket, compared with the same upstream over TCP.
    fn unix_socket_figures(&self) -> Vec<Figure> {
        let compare = |cell: Cell, what: &str, unit, value: fn(&Saturated) -> f64| {
            let name =
                format!("{}, {what}, upstream over a Unix socket, compared with TCP (as peer)", name(cell));
            let [unix, tcp] = [OVER_UNIX_SOCKET, "ours"].map(|program| self.values(program, cell, value));
            Figure::new(name, unit, unix, tcp)
        };
        Cell::all()
            .filter(|cell| cell.protocol == Protocol::Http1)
            .flat_map(|cell| {
                [
                    compare(cell, "throughput", THROUGHPUT, |one| one.per_cpu_second).higher(),
                    compare(cell, "memory", "MB", |one| one.memory),
                ]
            })
            .collect()
    }

    fn throughput_figures(&self, cell: Cell) -> Vec<Figure> {
        let throughput = |program| self.values(program, cell, |one| one.per_cpu_second);
        let (name, unit) = (name(cell), THROUGHPUT);
        let (ours, nginx) = (throughput("ours"), throughput("nginx"));
        let goal = GOAL_NGINX_RATIO.iter().find(|(connections, _)| {
            cell.path == Path::Authorized
                && cell.protocol == Protocol::Http1
                && *connections == cell.connections
        });
        vec![
            Figure::new(&name, unit, ours.clone(), throughput("peer")).higher().goal_of_ratio(
                (cell.path == Path::Authorized && cell.protocol == Protocol::Http1)
                    .then_some(GOAL_PEER_RATIO),
            ),
            Figure::new(
                format!("{name}, compared with nginx (as peer), which does not authorize"),
                unit,
                ours,
                nginx,
            )
            .higher()
            .goal_of_ratio(goal.map(|(_, goal)| *goal)),
        ]
    }

    /// The latency of the upstream itself is subtracted.
    fn latency_figures(&self, protocol: Protocol) -> Vec<Figure> {
        [("p50", &self.p50), ("p99", &self.p99)]
            .into_iter()
            .flat_map(|(name, values)| {
                let values_of =
                    |program: &'static str| values.get(&(program, protocol)).cloned().unwrap_or_default();
                let added = |program: &'static str| {
                    values_of(program)
                        .into_iter()
                        .zip(values_of("direct"))
                        .map(|(with, without)| with - without)
                        .collect::<Vec<_>>()
                };
                let name = format!("{}, added latency, {name}", protocol.name());
                let goal = name.ends_with("p99").then_some(GOAL_P99_RATIO);
                [
                    Figure::new(&name, "ms", added("ours"), added("peer")).goal_of_ratio(goal),
                    Figure::new(
                        format!("{name}, compared with nginx (as peer)"),
                        "ms",
                        added("ours"),
                        added("nginx"),
                    ),
                ]
            })
            .collect()
    }

    fn memory_figures(&self, settings: &Settings) -> Vec<Figure> {
        let largest = Cell { protocol: Protocol::Http1, path: Path::Authorized, connections: 512 };
        let under_load: Values<&'static str> = self
            .cells
            .iter()
            .filter(|((_, cell), _)| *cell == largest)
            .map(|((program, _), all)| ((*program, "load"), all.iter().map(|one| one.memory).collect()))
            .collect();
        vec![
            compare_with_peer("idle memory (VmRSS)", "MB", &self.memory, "idle").goal(GOAL_IDLE_MEMORY),
            compare_with_peer("memory under load with 512 connections", "MB", &under_load, "load")
                .goal(GOAL_LOADED_MEMORY),
            compare_with_peer(
                &format!("memory with {} idle connections", settings.idle),
                "MB",
                &self.memory,
                "with idle connections",
            ),
            compare_with_peer(
                &format!("memory with {} callers cached", settings.users),
                "MB",
                &self.memory,
                "with callers cached",
            ),
        ]
    }
}

/// Returns the name of a cell.
fn name(cell: Cell) -> String {
    let case = match cell.path {
        Path::Authorized => "authorized from the cache",
        Path::Ignored => "on an ignored path",
    };
    format!("{}, {} connections, {case}", cell.protocol.name(), cell.connections)
}

fn compare_with_peer(
    name: &str,
    unit: &'static str,
    values: &Values<&'static str>,
    case: &'static str,
) -> Figure {
    let values_of = |program: &'static str| values.get(&(program, case)).cloned().unwrap_or_default();
    Figure::new(name, unit, values_of("ours"), values_of("peer"))
}
