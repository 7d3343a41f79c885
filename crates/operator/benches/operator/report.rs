//! The figures of all rounds.

use std::collections::BTreeSet;

use testbed::Error;
use testbed::bench::{Circumstances, Figure, finish, float, quantile};

use crate::round::Measured;
use crate::settings::Settings;

/// Goals are those of so many nodes: with fewer, meeting them says nothing.
const GOALS_ARE_OF: usize = 1_000;

/// What was measured in all rounds.
#[derive(Default)]
pub struct Report {
    pub ours: Vec<Measured>,
    pub peer: Vec<Measured>,
}

impl Report {
    /// Prints every figure and writes them down.
    pub fn finish(&self, settings: &Settings, under: Circumstances) -> Result<(), Error> {
        let goal = |goal: f64| Some(goal).filter(|_| settings.nodes == GOALS_ARE_OF);
        let verbs: BTreeSet<&String> =
            self.ours.iter().chain(&self.peer).flat_map(|round| round.requests.keys()).collect();
        let mut figures = vec![
            self.figure("requests per node", "requests", |round| {
                per_node(round, round.requests.values().sum())
            })
            .goal(goal(10.0)),
        ];
        for verb in verbs {
            figures.push(self.figure(&format!("{verb} requests per node"), "requests", |round| {
                per_node(round, round.requests.get(verb).copied().unwrap_or_default())
            }));
        }
        figures.extend([
            self.figure("processor time per node", "ms", |round| {
                round.cpu.as_secs_f64() * 1_000.0 / float(round.nodes)
            })
            .goal(goal(4.0)),
            self.figure("memory without nodes (VmRSS)", "MB", |round| round.memory_empty).goal(goal(15.0)),
            self.figure("memory with all nodes (VmRSS)", "MB", |round| round.memory_full).goal(goal(40.0)),
            self.figure("edit to pod deletion, p50", "ms", |round| quantile(&round.edits, 0.5)),
            self.figure("edit to pod deletion, p99", "ms", |round| quantile(&round.edits, 0.99))
                .goal(goal(100.0)),
            self.figure("sidecar tasks given per node", "tasks", |round| {
                per_node(round, round.submissions.0)
            }),
            self.figure("of these given before", "%", |round| {
                100.0 * float(round.submissions.1) / float(round.submissions.0.max(1))
            })
            .goal(goal(0.0)),
            self.figure("writes in 60 s at rest", "requests", |round| float(round.writes_at_rest))
                .goal(goal(0.0)),
            self.figure("all nodes from nothing to Running", "s", |round| round.took.as_secs_f64()),
        ]);
        let headline = format!("{} nodes, median of {} rounds (range)", settings.nodes, settings.rounds);
        finish("operator", &headline, &figures, under)
    }

    fn figure(&self, name: &str, unit: &'static str, of: impl Fn(&Measured) -> f64) -> Figure {
        Figure::of(name, unit, self.ours.iter().map(&of), self.peer.iter().map(&of))
    }
}

fn per_node(round: &Measured, count: usize) -> f64 {
    float(count) / float(round.nodes)
}
