//! Load of many reporter processes on the API server.

use std::time::{Duration, Instant};

use testbed::Error;
use testbed::bench::usage::{cpu_time, rss_mb};
use testbed::bench::{Build, float, quantile};
use testbed::harness::wait;
use testbed::process::Process;

use crate::contender;
use crate::environment::{Environment, Object};
use crate::watchers::{self, Watchers};
use crate::writes::AuditLog;

/// How long the idle API server is measured, to subtract its own CPU time.
const IDLE: Duration = Duration::from_secs(15);

/// Timeout for every reporter to report before the measurement starts.
const REPORTED_WITHIN: Duration = Duration::from_secs(90);

/// The same for the largest crowd.
const ALL_REPORTED_WITHIN: Duration = Duration::from_secs(300);

/// Reporters started at once. Starting hundreds at once would distort the measurement.
const START_BATCH: usize = 25;

/// Many reporters on one or more objects.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Number of reporters.
    pub reporters: usize,
    /// Interval of each reporter.
    pub interval: Duration,
    /// Number of objects that the reporters are spread over.
    pub objects: usize,
    /// Duration of the measurement.
    time: Duration,
    /// Timeout for all reporters to report.
    reported_within: Duration,
    object: Object,
}

impl Crowd {
    /// Returns the label of the crowd in figures.
    pub fn name(&self) -> String {
        let on =
            if self.objects == 1 { "one object".to_owned() } else { format!("{} objects", self.objects) };
        format!("{} reporters every {:?} on {on}", self.reporters, self.interval)
    }
}

/// Crowds that the peer supports, too. Report timestamps have a resolution of seconds: with a shorter interval, most writes would change
/// nothing.
pub const FOR_BOTH: [Crowd; 2] = [
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

/// The largest crowd, at the default interval, on KMSHealth, because operator resources hold at most 200 reports. Once on one object, and
/// once spread over ten, as recommended.
pub fn largest(reporters: usize) -> [Crowd; 2] {
    let interval = Duration::from_secs(30);
    let crowd = |objects| Crowd {
        reporters,
        interval,
        objects,
        time: 3 * interval,
        reported_within: ALL_REPORTED_WITHIN,
        object: Object::KmsHealth,
    };
    [crowd(1), crowd(10)]
}

/// Result of the measurement.
#[derive(Debug)]
pub struct Measurement {
    /// CPU time of the API server per stored write, without its idle load, in ms.
    pub server_cpu: f64,
    /// Nodes with a report before the measurement started.
    pub reported: usize,
    /// Seconds from the start of the first reporter until then.
    pub reported_in: f64,
    /// Attempts of the API server per stored write; more than one after conflicts.
    pub tries: f64,
    /// Stored writes per round of a reporter.
    pub stored: f64,
    /// Failed writes.
    pub lost: usize,
    /// Latency of writes in ms: p50 and p99.
    pub took: [f64; 2],
    /// Watch events per stored write and watcher.
    pub woken: f64,
    /// Size of a watch event, in kB.
    pub event: f64,
    /// CPU time of a reporter per round, in microseconds.
    pub cpu: f64,
    /// Largest resident memory of all reporters, in MB.
    pub memory: f64,
}

/// Measures a crowd.
pub async fn measure(crowd: &Crowd, contender: &Build) -> Result<Measurement, Error> {
    let name = format!("{}-reporters-on-{}", crowd.reporters, crowd.objects);
    let environment = Environment::with(contender, &name, crowd.object, crowd.objects).await?;
    let mut watchers = Watchers::start(&environment, crowd.object).await?;
    let server = environment.plane.api_server_pid()?;
    let idle = {
        let used = cpu_time(server)?;
        tokio::time::sleep(IDLE).await;
        cpu_time(server)?.saturating_sub(used).as_secs_f64() / IDLE.as_secs_f64()
    };
    let start_time = Instant::now();
    let reporters = start_reporters(&environment, crowd, contender).await?;
    let remaining = crowd.reported_within.saturating_sub(start_time.elapsed());
    let reported = environment.reported(crowd.object, crowd.reporters, remaining).await?;
    let reported_in = start_time.elapsed().as_secs_f64();

    let mut log = AuditLog::new(&environment);
    log.new_writes()?;
    let total_cpu = || -> Result<Duration, Error> {
        let each = reporters.iter().map(|reporter| reporter.pid().and_then(cpu_time));
        each.sum()
    };
    let tries = environment.store_attempts(crowd.object).await?;
    let before =
        (Instant::now(), cpu_time(server)?, total_cpu()?, environment.cycles(), watchers.received()?);
    tokio::time::sleep(crowd.time).await;
    let after =
        (before.0.elapsed(), cpu_time(server)?, total_cpu()?, environment.cycles(), watchers.received()?);
    let tries = environment.store_attempts(crowd.object).await? - tries;
    let writes = log.new_writes()?;
    for reporter in &reporters {
        reporter.check_alive()?;
    }
    let stored = float(writes.stored.max(1));
    let cycles = float((after.3 - before.3).max(1));
    let events = after.4.events - before.4.events;
    let used = after.1.saturating_sub(before.1).as_secs_f64();
    let all = reporters.iter().map(|reporter| reporter.pid().and_then(rss_mb));
    let measurement = Measurement {
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
    let in_etcd = environment.plane.etcd_value(crowd.object.paths().1).await?.map_or(0, |bytes| bytes.len());
    println!(
        "  {}, {}: {cycles} rounds in {:?}, {} writes stored, failed by code {:?}; the API server used {:.0} % of a CPU \
         ({:.0} % idle); the object has {} kB; {measurement:?}",
        contender.name,
        crowd.name(),
        crowd.time,
        writes.stored,
        writes.failed,
        100.0 * used / after.0.as_secs_f64(),
        100.0 * idle,
        in_etcd / 1_000,
    );
    Ok(measurement)
}

async fn start_reporters(
    environment: &Environment,
    crowd: &Crowd,
    contender: &Build,
) -> Result<Vec<Process>, Error> {
    let mut reporters = Vec::with_capacity(crowd.reporters);
    while reporters.len() < crowd.reporters {
        let next = (reporters.len() + START_BATCH).min(crowd.reporters);
        for number in reporters.len()..next {
            let node = format!("node-{number:03}");
            let object = environment.object(number % crowd.objects);
            reporters.push(contender::start(
                contender,
                environment,
                &node,
                crowd.interval,
                crowd.object,
                &object,
            )?);
        }
        wait::until(format!("a round of {next} reporters"), crowd.reported_within, || async {
            let cycles = environment.cycles();
            if cycles >= next { Ok(()) } else { Err(format!("{cycles} rounds")) }
        })
        .await?;
    }
    Ok(reporters)
}
