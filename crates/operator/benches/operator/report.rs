//! Figures over all rounds.

use std::collections::BTreeSet;

use testbed::Error;
use testbed::bench::{BenchEnvironment, Figure, float, quantile, write_report};

use crate::round::Measured;
use crate::settings::Settings;

/// The number of nodes that the goals are defined for. With fewer nodes, they are not checked.
const GOAL_NODES: usize = 1_000;

/// The measurements of all rounds.
#[derive(Default)]
pub struct Report {
    pub ours: Vec<Measured>,
    pub peer: Vec<Measured>,
}

impl Report {
    /// Prints the figures and writes the results file.
    pub fn finish(&self, settings: &Settings, circumstances: BenchEnvironment) -> Result<(), Error> {
        let goal = |goal: f64| Some(goal).filter(|_| settings.nodes == GOAL_NODES);
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
            self.figure("CPU time per node", "ms", |round| {
                round.cpu.as_secs_f64() * 1_000.0 / float(round.nodes)
            })
            .goal(goal(4.0)),
            self.figure("memory without nodes (VmRSS)", "MB", |round| round.memory_empty).goal(goal(15.0)),
            self.figure("memory with all nodes (VmRSS)", "MB", |round| round.memory_full).goal(goal(40.0)),
            self.figure("edit to pod deletion, p50", "ms", |round| quantile(&round.edits, 0.5)),
            self.figure("edit to pod deletion, p99", "ms", |round| quantile(&round.edits, 0.99))
                .goal(goal(100.0)),
            self.figure("sidecar task submissions per node", "tasks", |round| {
                per_node(round, round.submissions.0)
            }),
            self.figure("of these repeated", "%", |round| {
                100.0 * float(round.submissions.1) / float(round.submissions.0.max(1))
            })
            .goal(goal(0.0)),
            self.figure("writes in 60 s of steady state", "requests", |round| {
                float(round.steady_state_writes)
            })
            .goal(goal(0.0)),
            self.figure("time until all nodes are Running", "s", |round| round.took.as_secs_f64()),
        ]);
        let headline = format!("{} nodes, median of {} rounds (range)", settings.nodes, settings.rounds);
        write_report("operator", &headline, &figures, circumstances)
    }

    fn figure(&self, name: &str, unit: &'static str, value: impl Fn(&Measured) -> f64) -> Figure {
        Figure::new(name, unit, self.ours.iter().map(&value), self.peer.iter().map(&value))
    }
}

fn per_node(round: &Measured, count: usize) -> f64 {
    float(count) / float(round.nodes)
}
