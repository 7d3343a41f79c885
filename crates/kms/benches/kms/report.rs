//! The figures of all rounds.

use std::collections::BTreeMap;

use testbed::Error;
use testbed::bench::{Build, Circumstances, Figure, finish, float};

use crate::crowd::{self, Crowd};
use crate::settings::Settings;
use crate::{alone, endurance};

/// What was measured, of one contender.
#[derive(Default)]
struct Measured {
    alone: Vec<alone::Measured>,
    /// By the numbers of reporters and of objects.
    crowds: BTreeMap<(usize, usize), Vec<crowd::Measured>>,
}

/// What was measured in all rounds.
#[derive(Default)]
pub struct Report {
    ours: Measured,
    peer: Measured,
    crowds: BTreeMap<(usize, usize), Crowd>,
    endurance: Vec<endurance::Measured>,
}

impl Report {
    /// One reporter was measured.
    pub fn alone(&mut self, contender: &Build, measured: alone::Measured) {
        self.of(contender).alone.push(measured);
    }

    /// A crowd was measured.
    pub fn crowd(&mut self, contender: &Build, crowd: &Crowd, measured: crowd::Measured) {
        let which = (crowd.reporters, crowd.objects);
        self.crowds.insert(which, *crowd);
        self.of(contender).crowds.entry(which).or_default().push(measured);
    }

    /// Very many cycles were measured.
    pub fn endurance(&mut self, measured: endurance::Measured) {
        self.endurance.push(measured);
    }

    fn of(&mut self, contender: &Build) -> &mut Measured {
        if contender.name == "ours" { &mut self.ours } else { &mut self.peer }
    }

    /// Prints every figure and writes them down.
    pub fn finish(&self, settings: &Settings, under: Circumstances) -> Result<(), Error> {
        let mut figures = Vec::new();
        if !self.ours.alone.is_empty() {
            figures.push(self.of_alone("processor time per cycle", "us", |one| one.cpu).goal(400.0));
            figures.push(self.of_alone("memory (VmRSS)", "MB", |one| one.memory).goal(10.0));
        }
        if !self.endurance.is_empty() {
            let name = format!("growth of memory per 1000 cycles, over {}", settings.cycles);
            figures.push(Figure::of(name, "kB", self.endurance.iter().map(endurance::Measured::slope), []));
        }
        for crowd in self.crowds.values() {
            figures.extend(self.of_crowd(crowd));
        }
        let headline = format!("Median of {} rounds (range)", settings.rounds);
        finish("kms", &headline, &figures, under)
    }

    fn of_alone(&self, name: &str, unit: &'static str, of: impl Fn(&alone::Measured) -> f64) -> Figure {
        let each = |measured: &Measured| measured.alone.iter().map(&of).collect::<Vec<_>>();
        Figure::of(format!("one reporter: {name}"), unit, each(&self.ours), each(&self.peer))
    }

    fn of_crowd(&self, crowd: &Crowd) -> [Figure; 12] {
        let figure = |name: &str, unit: &'static str, of: &dyn Fn(&crowd::Measured) -> f64| {
            let each = |measured: &Measured| {
                let of_crowd = measured.crowds.get(&(crowd.reporters, crowd.objects));
                of_crowd.into_iter().flatten().map(of).collect::<Vec<_>>()
            };
            let name = format!("{}: {name}", crowd.name());
            Figure::of(name, unit, each(&self.ours), each(&self.peer))
        };
        [
            figure("API server's processor time per write", "ms", &|one| one.server_cpu),
            figure("nodes without a report", "nodes", &|one| {
                float(crowd.reporters.saturating_sub(one.reported))
            })
            .goal(0.0),
            figure("time until all had reported, or were no longer waited for", "s", &|one| one.reported_in),
            figure("tries of the API server per stored write", "tries", &|one| one.tries),
            figure("writes stored per cycle", "writes", &|one| one.stored).either(),
            figure("writes not stored", "writes", &|one| float(one.lost)).goal(0.0),
            figure("time of a write, p50", "ms", &|one| one.took[0]),
            figure("time of a write, p99", "ms", &|one| one.took[1]),
            figure("events per write and watcher", "events", &|one| one.woken).either(),
            figure("size of an event", "kB", &|one| one.event),
            figure("processor time of a reporter per cycle", "us", &|one| one.cpu),
            figure("memory of the largest reporter (VmRSS)", "MB", &|one| one.memory),
        ]
    }
}
