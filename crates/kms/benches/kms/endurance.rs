//! Very many cycles of one reporter: its memory must not grow with them.

use std::time::Duration;

use testbed::Error;
use testbed::bench::usage::memory;
use testbed::bench::{Build, float};
use testbed::cluster::openshift;
use testbed::harness::wait;

use crate::contender;
use crate::world::{Object, World};

/// As short as the API server allows: a cycle that overruns is followed at once.
const INTERVAL: Duration = Duration::from_millis(5);

/// The longest that a part of the cycles may take.
const PART_WITHIN: Duration = Duration::from_secs(600);

/// In so many parts memory is looked at. The first one is for what is filled once.
const PARTS: usize = 10;

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// Cycles and resident memory in MB, as they were from time to time.
    pub points: Vec<(usize, f64)>,
}

impl Measured {
    /// Growth after the first part, in kB for a thousand cycles: the slope of the line that fits best.
    pub fn slope(&self) -> f64 {
        let points = self.points.get(1..).unwrap_or_default();
        let count = float(points.len().max(1));
        let mean = |of: &dyn Fn(&(usize, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (cycles, memory) = (mean(&|point| float(point.0)), mean(&|point| point.1));
        let covariance = mean(&|point| (float(point.0) - cycles) * (point.1 - memory));
        let variance = mean(&|point| (float(point.0) - cycles).powi(2));
        if variance == 0.0 { 0.0 } else { covariance / variance * 1e6 }
    }
}

/// Measures one reporter.
pub async fn play(contender: &Build, cycles: usize) -> Result<Measured, Error> {
    let object = Object::KubeApiServer;
    let world = World::new(contender, "endurance", object).await?;
    let reporter = contender::start(contender, &world, "node-000", INTERVAL, object, openshift::NAME)?;
    let mut points = Vec::new();
    for part in 1..=PARTS {
        let wanted = cycles * part / PARTS;
        let now = wait::until(format!("{wanted} cycles"), PART_WITHIN, || async {
            reporter.check_alive()?;
            let now = world.cycles();
            if now >= wanted { Ok(now) } else { Err(Error::Refused(format!("{now} so far"))) }
        })
        .await?;
        points.push((now, memory(reporter.pid()?)?));
    }
    let measured = Measured { points };
    let shown: Vec<String> =
        measured.points.iter().map(|(cycles, memory)| format!("{cycles}: {memory:.2}")).collect();
    println!("  {}, MB resident after cycles: {}", contender.name, shown.join(", "));
    Ok(measured)
}
