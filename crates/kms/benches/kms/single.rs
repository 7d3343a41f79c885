//! Resource usage of a single reporter.

use std::time::Duration;

use testbed::Error;
use testbed::bench::usage::{cpu_time, rss_mb};
use testbed::bench::{Build, float};
use testbed::cluster::openshift;
use testbed::harness::wait;

use crate::contender;
use crate::environment::{Environment, Object};
use crate::writes::AuditLog;

/// Time between two rounds: short for many samples, but not so short that the upstream reporter hits its own limit of five requests per
/// second.
const INTERVAL: Duration = Duration::from_millis(250);

/// Warm-up rounds, which connect and fill caches.
const WARM_UP: usize = 20;

/// Measured rounds. The kernel counts CPU time in hundredths of a second.
const MEASURED: usize = 300;

/// Timeout of the measurement.
const LIMIT: Duration = Duration::from_secs(300);

/// Result of the measurement.
#[derive(Debug)]
pub struct Measurement {
    /// CPU time per round, in microseconds.
    pub cpu: f64,
    /// Resident memory after all rounds, in MB.
    pub memory: f64,
}

/// Measures one reporter.
pub async fn measure(contender: &Build) -> Result<Measurement, Error> {
    let object = Object::KubeApiServer;
    let environment = Environment::new(contender, "alone", object).await?;
    let reporter = contender::start(contender, &environment, "node-000", INTERVAL, object, openshift::NAME)?;
    if environment.reported(object, 1, LIMIT).await? == 0 {
        return Err(Error::Other(format!("no report within {LIMIT:?}: see {}", reporter.log().display())));
    }
    let until = |cycles: usize| {
        let (environment, reporter) = (&environment, &reporter);
        wait::until(format!("{cycles} rounds"), LIMIT, move || async move {
            reporter.check_alive()?;
            let now = environment.cycles();
            if now >= cycles { Ok(now) } else { Err(Error::Other(format!("{now} so far"))) }
        })
    };
    let start = until(WARM_UP).await?;
    let mut log = AuditLog::new(&environment);
    log.new_writes()?;
    let used = cpu_time(reporter.pid()?)?;
    let end = until(start + MEASURED).await?;
    let used = cpu_time(reporter.pid()?)?.saturating_sub(used);
    let writes = log.new_writes()?;
    let measurement =
        Measurement { cpu: used.as_secs_f64() * 1e6 / float(end - start), memory: rss_mb(reporter.pid()?)? };
    println!(
        "  {}, one reporter: {:.0} us of CPU time per round, {:.1} MB resident ({} rounds, {} writes stored, {} failed)",
        contender.name,
        measurement.cpu,
        measurement.memory,
        end - start,
        writes.stored,
        writes.lost()
    );
    Ok(measurement)
}
