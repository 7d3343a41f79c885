//! Many reporters: what they cost the API server. Each is a process of its own.

use std::time::{Duration, Instant};

use testbed::Error;
use testbed::bench::usage::{cpu, memory};
use testbed::bench::{Build, float, quantile};
use testbed::harness::wait;
use testbed::process::Process;

use crate::contender;
use crate::watchers::{self, Watchers};
use crate::world::{Object, World};
use crate::writes::Log;

/// How long the API server is watched without reporters: what it needs then is not theirs.
const IDLE: Duration = Duration::from_secs(15);

/// How long it may take until every reporter has reported, before it is measured how they fare.
const REPORTED_WITHIN: Duration = Duration::from_secs(90);

/// The same of the largest crowd.
const ALL_REPORTED_WITHIN: Duration = Duration::from_secs(300);

/// Reporters that are started in a row before others get a turn: that of hundreds would be measured otherwise.
const STARTED_AT_ONCE: usize = 25;

/// A crowd.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many.
    pub reporters: usize,
    /// Time between two cycles of one of them.
    pub interval: Duration,
    /// How many objects they report on, each of them on one.
    pub objects: usize,
    /// How long they are measured.
    time: Duration,
    /// How long it may take until all of them have reported.
    reported_within: Duration,
    object: Object,
}

impl Crowd {
    /// What tells it from others.
    pub fn name(&self) -> String {
        let on =
            if self.objects == 1 { "one object".to_owned() } else { format!("{} objects", self.objects) };
        format!("{} reporters every {:?} on {on}", self.reporters, self.interval)
    }
}

/// Those that the peer can be, too. Reports tell the time in seconds: with an interval of less, most would change nothing.
pub const OF_BOTH: [Crowd; 2] = [
    Crowd {
        reporters: 3,
        interval: Duration::from_secs(2),
        objects: 1,
        time: Duration::from_secs(40),
        reported_within: REPORTED_WITHIN,
        object: Object::KubeApiServer,
    },
    Crowd {
        reporters: 50,
        interval: Duration::from_secs(5),
        objects: 1,
        time: Duration::from_secs(40),
        reported_within: REPORTED_WITHIN,
        object: Object::KubeApiServer,
    },
];

/// The largest crowd, at the usual interval, on our own kind: the peer's has no room for it. Once on one object, as small clusters have
/// it, and once as it is meant to be done.
pub fn largest(reporters: usize) -> [Crowd; 2] {
    let interval = Duration::from_secs(30);
    let on = |objects| Crowd {
        reporters,
        interval,
        objects,
        time: 3 * interval,
        reported_within: ALL_REPORTED_WITHIN,
        object: Object::KmsHealth,
    };
    [on(1), on(10)]
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// Processor time of the API server for each stored write, beyond what it needs anyway, in ms.
    pub server_cpu: f64,
    /// Nodes whose report was stored before the measurement began.
    pub reported: usize,
    /// Seconds from the start of the first reporter until then.
    pub reported_in: f64,
    /// How often the API server tried to store, for each stored write: somebody else may have been faster.
    pub tries: f64,
    /// Stored writes for each cycle of a reporter.
    pub stored: f64,
    /// Writes that were not stored.
    pub lost: usize,
    /// Time that the API server took for writes, in ms: the median and the 99th of a hundred.
    pub took: [f64; 2],
    /// Events for each stored write and watcher.
    pub woken: f64,
    /// Bytes of an event, in kB.
    pub event: f64,
    /// Processor time of a reporter per cycle, in microseconds.
    pub cpu: f64,
    /// Resident memory of a reporter, the largest of all, in MB.
    pub memory: f64,
}

/// Measures a crowd.
pub async fn play(crowd: &Crowd, contender: &Build) -> Result<Measured, Error> {
    let name = format!("{}-reporters-on-{}", crowd.reporters, crowd.objects);
    let world = World::with(contender, &name, crowd.object, crowd.objects).await?;
    let mut watchers = Watchers::start(&world, crowd.object).await?;
    let server = world.plane.api_server_pid()?;
    let idle = {
        let used = cpu(server)?;
        tokio::time::sleep(IDLE).await;
        cpu(server)?.saturating_sub(used).as_secs_f64() / IDLE.as_secs_f64()
    };
    let begin = Instant::now();
    let reporters = start(&world, crowd, contender).await?;
    let left = crowd.reported_within.saturating_sub(begin.elapsed());
    let reported = world.reported(crowd.object, crowd.reporters, left).await?;
    let reported_in = begin.elapsed().as_secs_f64();

    let mut log = Log::of(&world);
    log.news()?;
    let of_all = || -> Result<Duration, Error> {
        let each = reporters.iter().map(|reporter| reporter.pid().and_then(cpu));
        each.sum()
    };
    let tries = world.tries(crowd.object).await?;
    let before = (Instant::now(), cpu(server)?, of_all()?, world.cycles(), watchers.received()?);
    tokio::time::sleep(crowd.time).await;
    let after = (before.0.elapsed(), cpu(server)?, of_all()?, world.cycles(), watchers.received()?);
    let tries = world.tries(crowd.object).await? - tries;
    let writes = log.news()?;
    for reporter in &reporters {
        reporter.check_alive()?;
    }
    let stored = float(writes.stored.max(1));
    let cycles = float((after.3 - before.3).max(1));
    let events = after.4.events - before.4.events;
    let used = after.1.saturating_sub(before.1).as_secs_f64();
    let all = reporters.iter().map(|reporter| reporter.pid().and_then(memory));
    let measured = Measured {
        server_cpu: (used - idle * after.0.as_secs_f64()).max(0.0) * 1e3 / stored,
        reported,
        reported_in,
        tries: tries / stored,
        stored: float(writes.stored) / cycles,
        lost: writes.lost(),
        took: [0.5, 0.99].map(|share| quantile(&writes.times, share)),
        woken: float(events) / float(watchers::COUNT) / stored,
        event: float(after.4.bytes - before.4.bytes) / float(events.max(1)) / 1e3,
        cpu: after.2.saturating_sub(before.2).as_secs_f64() * 1e6 / cycles,
        memory: all.collect::<Result<Vec<_>, _>>()?.into_iter().fold(0.0, f64::max),
    };
    let in_etcd = world.plane.stored(crowd.object.paths().1).await?.map_or(0, |bytes| bytes.len());
    println!(
        "  {}, {}: {cycles} cycles in {:?}, {} writes stored, not stored by code {:?}; the API server used {:.0} % of a \
         processor ({:.0} % without them); the object has {} kB; {measured:?}",
        contender.name,
        crowd.name(),
        crowd.time,
        writes.stored,
        writes.failed,
        100.0 * used / after.0.as_secs_f64(),
        100.0 * idle,
        in_etcd / 1_000,
    );
    Ok(measured)
}

async fn start(world: &World, crowd: &Crowd, contender: &Build) -> Result<Vec<Process>, Error> {
    let mut reporters = Vec::with_capacity(crowd.reporters);
    while reporters.len() < crowd.reporters {
        let next = (reporters.len() + STARTED_AT_ONCE).min(crowd.reporters);
        for number in reporters.len()..next {
            let node = format!("node-{number:03}");
            let on = world.object(number % crowd.objects);
            reporters.push(contender::start(contender, world, &node, crowd.interval, crowd.object, &on)?);
        }
        wait::until(format!("a cycle of {next} reporters"), crowd.reported_within, || async {
            let cycles = world.cycles();
            if cycles >= next { Ok(()) } else { Err(format!("{cycles} cycles")) }
        })
        .await?;
    }
    Ok(reporters)
}
