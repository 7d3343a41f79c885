//! Collects the figures of all rounds.

use std::collections::BTreeMap;

use testbed::Error;
use testbed::bench::{BenchEnvironment, Build, Figure, float, write_report};

use crate::crowd::{self, Crowd};
use crate::settings::Settings;
use crate::{endurance, single};

/// Measurements of one contender.
#[derive(Default)]
struct Measurements {
    single: Vec<single::Measurement>,
    /// By number of reporters and number of objects.
    crowds: BTreeMap<(usize, usize), Vec<crowd::Measurement>>,
}

/// Measurements of all rounds.
#[derive(Default)]
pub struct Report {
    ours: Measurements,
    peer: Measurements,
    crowds: BTreeMap<(usize, usize), Crowd>,
    endurance: Vec<endurance::Measurement>,
}

impl Report {
    /// Adds a measurement of one reporter.
    pub fn add_single(&mut self, contender: &Build, measured: single::Measurement) {
        self.contender(contender).single.push(measured);
    }

    /// Adds a measurement of a crowd.
    pub fn add_crowd(&mut self, contender: &Build, crowd: &Crowd, measured: crowd::Measurement) {
        let which = (crowd.reporters, crowd.objects);
        self.crowds.insert(which, *crowd);
        self.contender(contender).crowds.entry(which).or_default().push(measured);
    }

    /// Adds a measurement of many rounds.
    pub fn add_endurance(&mut self, measured: endurance::Measurement) {
        self.endurance.push(measured);
    }

    fn contender(&mut self, contender: &Build) -> &mut Measurements {
        if contender.name == "ours" { &mut self.ours } else { &mut self.peer }
    }

    /// Prints all figures and saves them.
    pub fn finish(&self, settings: &Settings, under: BenchEnvironment) -> Result<(), Error> {
        let mut figures = Vec::new();
        if !self.ours.single.is_empty() {
            figures.push(self.single_figure("CPU time per round", "us", |one| one.cpu).goal(400.0));
            figures.push(self.single_figure("memory (VmRSS)", "MB", |one| one.memory).goal(10.0));
        }
        if !self.endurance.is_empty() {
            let name = format!("memory growth per 1000 rounds, over {}", settings.cycles);
            figures.push(Figure::new(
                name,
                "kB",
                self.endurance.iter().map(endurance::Measurement::slope),
                [],
            ));
        }
        for crowd in self.crowds.values() {
            figures.extend(self.crowd_figures(crowd));
        }
        let headline = format!("Median of {} rounds (range)", settings.rounds);
        write_report("kms", &headline, &figures, under)
    }

    fn single_figure(
        &self,
        name: &str,
        unit: &'static str,
        value: impl Fn(&single::Measurement) -> f64,
    ) -> Figure {
        let each = |measured: &Measurements| measured.single.iter().map(&value).collect::<Vec<_>>();
        Figure::new(format!("one reporter: {name}"), unit, each(&self.ours), each(&self.peer))
    }

    fn crowd_figures(&self, crowd: &Crowd) -> [Figure; 12] {
        let figure = |name: &str, unit: &'static str, value: &dyn Fn(&crowd::Measurement) -> f64| {
            let each = |measured: &Measurements| {
                let measurements = measured.crowds.get(&(crowd.reporters, crowd.objects));
                measurements.into_iter().flatten().map(value).collect::<Vec<_>>()
            };
            let name = format!("{}: {name}", crowd.name());
            Figure::new(name, unit, each(&self.ours), each(&self.peer))
        };
        [
            figure("API server CPU time per write", "ms", &|one| one.server_cpu),
            figure("nodes without a report", "nodes", &|one| {
                float(crowd.reporters.saturating_sub(one.reported))
            })
            .goal(0.0),
            figure("time until all reported, or the timeout", "s", &|one| one.reported_in),
            figure("API server attempts per stored write", "attempts", &|one| one.tries),
            figure("writes stored per round", "writes", &|one| one.stored).either(),
            figure("failed writes", "writes", &|one| float(one.lost)).goal(0.0),
            figure("write latency, p50", "ms", &|one| one.took[0]),
            figure("write latency, p99", "ms", &|one| one.took[1]),
            figure("watch events per write and watcher", "events", &|one| one.woken).either(),
            figure("size of a watch event", "kB", &|one| one.event),
            figure("reporter CPU time per round", "us", &|one| one.cpu),
            figure("memory of the largest reporter (VmRSS)", "MB", &|one| one.memory),
        ]
    }
}
