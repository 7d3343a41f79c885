//! One reporter alone: what it costs its node.

use std::time::Duration;

use testbed::Error;
use testbed::bench::usage::{cpu, memory};
use testbed::bench::{Build, float};
use testbed::cluster::openshift;
use testbed::harness::wait;

use crate::contender;
use crate::world::{Object, World};
use crate::writes::Log;

/// Time between two cycles: short, so that there are many of them, and not so short that the upstream reporter waits for its own
/// limit of five requests in a second.
const INTERVAL: Duration = Duration::from_millis(250);

/// Cycles that are not counted: the first ones connect, and fill what is kept.
const FIRST: usize = 20;

/// Cycles that are counted. The kernel counts processor time in hundredths of a second.
const COUNTED: usize = 300;

/// The longest that these may take.
const LIMIT: Duration = Duration::from_secs(300);

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// Processor time per cycle, in microseconds.
    pub cpu: f64,
    /// Resident memory after all cycles, in MB.
    pub memory: f64,
}

/// Measures one reporter.
pub async fn play(contender: &Build) -> Result<Measured, Error> {
    let object = Object::KubeApiServer;
    let world = World::new(contender, "alone", object).await?;
    let reporter = contender::start(contender, &world, "node-000", INTERVAL, object, openshift::NAME)?;
    if world.reported(object, 1, LIMIT).await? == 0 {
        return Err(Error::Refused(format!(
            "nothing was reported within {LIMIT:?}: see {}",
            reporter.log().display()
        )));
    }
    let until = |cycles: usize| {
        let (world, reporter) = (&world, &reporter);
        wait::until(format!("{cycles} cycles"), LIMIT, move || async move {
            reporter.check_alive()?;
            let now = world.cycles();
            if now >= cycles { Ok(now) } else { Err(Error::Refused(format!("{now} so far"))) }
        })
    };
    let begin = until(FIRST).await?;
    let mut log = Log::of(&world);
    log.news()?;
    let used = cpu(reporter.pid()?)?;
    let end = until(begin + COUNTED).await?;
    let used = cpu(reporter.pid()?)?.saturating_sub(used);
    let writes = log.news()?;
    let measured =
        Measured { cpu: used.as_secs_f64() * 1e6 / float(end - begin), memory: memory(reporter.pid()?)? };
    println!(
        "  {}, one reporter: {:.0} us of processor time per cycle, {:.1} MB resident ({} cycles, {} writes stored, {} not)",
        contender.name,
        measured.cpu,
        measured.memory,
        end - begin,
        writes.stored,
        writes.lost()
    );
    Ok(measured)
}
