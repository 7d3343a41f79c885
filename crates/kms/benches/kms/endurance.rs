//! Memory growth of one reporter over very many rounds.

use std::time::Duration;

use testbed::Error;
use testbed::bench::usage::rss_mb;
use testbed::bench::{Build, float};
use testbed::cluster::openshift;
use testbed::harness::wait;

use crate::contender;
use crate::environment::{Environment, Object};

/// Shorter than a round takes: an overrunning round is followed immediately by the next one.
const INTERVAL: Duration = Duration::from_millis(5);

/// Timeout of one part.
const PART_WITHIN: Duration = Duration::from_secs(600);

/// Number of memory samples. The first one is warm-up.
const PARTS: usize = 10;

/// Result of the measurement.
#[derive(Debug)]
pub struct Measurement {
    /// Samples: number of rounds, and resident memory in MB.
    pub points: Vec<(usize, f64)>,
}

impl Measurement {
    /// Returns the growth after the first part in kB per thousand rounds, by linear regression.
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
pub async fn measure(contender: &Build, cycles: usize) -> Result<Measurement, Error> {
    let object = Object::KubeApiServer;
    let environment = Environment::new(contender, "endurance", object).await?;
    let reporter = contender::start(contender, &environment, "node-000", INTERVAL, object, openshift::NAME)?;
    let mut points = Vec::new();
    for part in 1..=PARTS {
        let target = cycles * part / PARTS;
        let now = wait::until(format!("{target} rounds"), PART_WITHIN, || async {
            reporter.check_alive()?;
            let now = environment.cycles();
            if now >= target { Ok(now) } else { Err(Error::Other(format!("{now} so far"))) }
        })
        .await?;
        points.push((now, rss_mb(reporter.pid()?)?));
    }
    let measurement = Measurement { points };
    let shown: Vec<String> =
        measurement.points.iter().map(|(cycles, memory)| format!("{cycles}: {memory:.2}")).collect();
    println!("  {}, MB resident after rounds: {}", contender.name, shown.join(", "));
    Ok(measurement)
}
