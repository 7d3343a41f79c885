//! The figures of all rounds.

use std::collections::BTreeMap;

use testbed::Error;
use testbed::bench::{Circumstances, Figure, finish, float};

use crate::load::{Cell, Path, Protocol, Saturated};
use crate::settings::Settings;

/// Goals are those of the issue: so many requests of ours for one of the peer's, and for one of nginx's with so many connections.
const FOR_ONE_OF_PEER: f64 = 7.0;
const FOR_ONE_OF_NGINX: [(usize, f64); 2] = [(32, 0.9), (512, 1.0)];
const MEMORY_AT_REST: f64 = 8.0;
const MEMORY_AT_512: f64 = 24.0;
const P99_FOR_ONE_OF_PEER: f64 = 0.5;

/// What was measured, by whom it was measured of, one value for each round.
type Values<K> = BTreeMap<(&'static str, K), Vec<f64>>;

/// What was measured in all rounds.
#[derive(Default)]
pub struct Report {
    cells: BTreeMap<(&'static str, Cell), Vec<Saturated>>,
    p50: Values<Protocol>,
    p99: Values<Protocol>,
    memory: Values<&'static str>,
    calls: Values<&'static str>,
}

impl Report {
    /// Somebody was asked as much as he could take.
    pub fn cell(&mut self, of: &'static str, cell: Cell, measured: Saturated) {
        self.cells.entry((of, cell)).or_default().push(measured);
    }

    /// Somebody was asked at leisure.
    pub fn leisure(&mut self, of: &'static str, protocol: Protocol, [p50, p99]: [f64; 2]) {
        self.p50.entry((of, protocol)).or_default().push(p50);
        self.p99.entry((of, protocol)).or_default().push(p99);
    }

    /// So many MB were resident.
    pub fn memory(&mut self, of: &'static str, when: &'static str, memory: f64) {
        self.memory.entry((of, when)).or_default().push(memory);
    }

    /// The API server was asked so often.
    pub fn calls(&mut self, of: &'static str, what: &'static str, calls: usize) {
        self.calls.entry((of, what)).or_default().push(float(calls));
    }

    /// Prints every figure and writes them down.
    pub fn finish(&self, settings: &Settings, under: Circumstances) -> Result<(), Error> {
        let mut figures: Vec<Figure> = Cell::all().flat_map(|cell| self.of_cell(cell)).collect();
        for protocol in [Protocol::Http1, Protocol::Http2] {
            figures.extend(self.of_leisure(protocol));
        }
        figures.extend(self.of_memory(settings));
        for what in ["of one caller", "with one bad token"] {
            let name = format!("questions to the API server for 1000 requests {what}");
            figures.push(beside_peer(&name, "questions", &self.calls, what));
        }
        let headline = format!("Median of {} rounds (range)", settings.rounds);
        finish("proxy", &headline, &figures, under)
    }

    fn of_cell(&self, cell: Cell) -> Vec<Figure> {
        let each = |of: &'static str, cell: Cell| {
            self.cells
                .get(&(of, cell))
                .into_iter()
                .flatten()
                .map(|one| one.per_cpu_second)
                .collect::<Vec<_>>()
        };
        let what = match cell.path {
            Path::Closed => "authorized from the cache",
            Path::Open => "on an ignored path",
        };
        let name = format!("{}, {} connections, {what}", cell.protocol.name(), cell.connections);
        let unit = "requests per CPU-second";
        let (ours, nginx) = (each("ours", cell), each("nginx", cell));
        let goal = FOR_ONE_OF_NGINX.iter().find(|(connections, _)| {
            cell.path == Path::Closed && cell.protocol == Protocol::Http1 && *connections == cell.connections
        });
        vec![
            Figure::of(&name, unit, ours.clone(), each("peer", cell)).higher().goal_of_ratio(
                (cell.path == Path::Closed && cell.protocol == Protocol::Http1).then_some(FOR_ONE_OF_PEER),
            ),
            Figure::of(
                format!("{name}, beside nginx (as peer), which authorizes nothing"),
                unit,
                ours,
                nginx,
            )
            .higher()
            .goal_of_ratio(goal.map(|(_, goal)| *goal)),
        ]
    }

    /// What the upstream takes by itself is not the proxy's.
    fn of_leisure(&self, protocol: Protocol) -> Vec<Figure> {
        [("p50", &self.p50), ("p99", &self.p99)]
            .into_iter()
            .flat_map(|(name, values)| {
                let of = |of: &'static str| values.get(&(of, protocol)).cloned().unwrap_or_default();
                let added = |of_whom: &'static str| {
                    of(of_whom)
                        .into_iter()
                        .zip(of("nobody"))
                        .map(|(with, without)| with - without)
                        .collect::<Vec<_>>()
                };
                let name = format!("{}, time that it adds to an answer, {name}", protocol.name());
                let goal = name.ends_with("p99").then_some(P99_FOR_ONE_OF_PEER);
                [
                    Figure::of(&name, "ms", added("ours"), added("peer")).goal_of_ratio(goal),
                    Figure::of(
                        format!("{name}, beside nginx (as peer)"),
                        "ms",
                        added("ours"),
                        added("nginx"),
                    ),
                ]
            })
            .collect()
    }

    fn of_memory(&self, settings: &Settings) -> Vec<Figure> {
        let largest = Cell { protocol: Protocol::Http1, path: Path::Closed, connections: 512 };
        let under_load: Values<&'static str> = self
            .cells
            .iter()
            .filter(|((_, cell), _)| *cell == largest)
            .map(|((of, _), all)| ((*of, "load"), all.iter().map(|one| one.memory).collect()))
            .collect();
        vec![
            beside_peer("memory at rest (VmRSS)", "MB", &self.memory, "at rest").goal(MEMORY_AT_REST),
            beside_peer("memory under load of 512 connections", "MB", &under_load, "load")
                .goal(MEMORY_AT_512),
            beside_peer(
                &format!("memory with {} idle connections", settings.idle),
                "MB",
                &self.memory,
                "with idle connections",
            ),
            beside_peer(
                &format!("memory with {} callers remembered", settings.users),
                "MB",
                &self.memory,
                "with callers remembered",
            ),
        ]
    }
}

fn beside_peer(name: &str, unit: &'static str, values: &Values<&'static str>, what: &'static str) -> Figure {
    let of = |of: &'static str| values.get(&(of, what)).cloned().unwrap_or_default();
    Figure::of(name, unit, of("ours"), of("peer"))
}
