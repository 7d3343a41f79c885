//! Benchmark of task submission (each durable before the response), startup with many stored tasks, and idle memory. With
//! `OUTRIGGER_PEER_SIDECAR` upstream's `seictl` runs the same load, alternating with ours.

mod contender;
mod load;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use testbed::Error;
use testbed::bench::{
    self, BenchEnvironment, Build, Figure, env_count, float, quantile, usage, write_report,
};
use testbed::cluster::site::Site;
use testbed::harness::logs;

/// Concurrent connections, as a proxy would open for a busy operator.
const CONNECTIONS: usize = 32;

/// Three times upstream's result on such a machine.
const GOAL_PER_CPU_SECOND: f64 = 3.0 * 2_710.0;

/// Idle memory in megabytes.
const GOAL_IDLE: f64 = 12.0;

/// How long a process idles before its memory is measured.
const IDLE_TIME: Duration = Duration::from_secs(3);

/// The measurements of one round.
struct Measured {
    idle: f64,
    per_second: f64,
    per_cpu_second: f64,
    median: f64,
    slow: f64,
    restart: f64,
    after: f64,
}

fn main() -> ExitCode {
    bench::main("sidecar", run)
}

async fn run() -> Result<(), Error> {
    let rounds = env_count("OUTRIGGER_BENCH_ROUNDS", 5)?;
    let tasks = env_count("OUTRIGGER_BENCH_TASKS", 10_000)?;
    let ours = Build::ours()?;
    let peer = Build::peer("OUTRIGGER_PEER_SIDECAR", "a binary of seictl")?;
    let sizes = [("rounds", rounds), ("tasks", tasks), ("connections", CONNECTIONS)];
    let under = BenchEnvironment::new(&ours, peer.as_ref(), sizes)?;
    let (mut of_ours, mut of_peer) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        println!("round {round} of {rounds}");
        of_ours.push(measure(&ours, tasks).await?);
        if let Some(peer) = &peer {
            of_peer.push(measure(peer, tasks).await?);
        }
    }
    let figure = |name: &str, unit: &'static str, of: fn(&Measured) -> f64| {
        Figure::new(name, unit, of_ours.iter().map(of), of_peer.iter().map(of))
    };
    let figures = [
        figure("submissions, durable before the response", "1/s", |one| one.per_second).higher(),
        figure("submissions per CPU second", "1/s", |one| one.per_cpu_second)
            .higher()
            .goal(GOAL_PER_CPU_SECOND),
        figure("submission latency, median", "ms", |one| one.median),
        figure("submission latency, 99th percentile", "ms", |one| one.slow),
        figure(&format!("startup after SIGKILL, {tasks} tasks stored"), "ms", |one| one.restart),
        figure("idle memory (VmRSS)", "MB", |one| one.idle).goal(GOAL_IDLE),
        figure("memory after all tasks (VmRSS)", "MB", |one| one.after),
    ];
    write_report("sidecar", &format!("Median of {rounds} rounds (range)"), &figures, under)
}

async fn measure(contender: &Build, tasks: usize) -> Result<Measured, Error> {
    let site = Site::claim(logs::test_dir("bench-sidecar", contender.name))?;
    let running = contender::start(contender, &site).await?;
    tokio::time::sleep(IDLE_TIME).await;
    let idle = usage::rss_mb(running.pid()?)?;
    let (start, cpu) = (Instant::now(), usage::cpu_time(running.pid()?)?);
    let times = load::submit(running.port, tasks, CONNECTIONS).await?;
    let duration = start.elapsed();
    // Storing the results is part of the cost.
    load::wait_all_finished(&running).await?;
    let cpu = usage::cpu_time(running.pid()?)? - cpu;
    let after = usage::rss_mb(running.pid()?)?;
    running.kill()?;
    let start = Instant::now();
    let again = contender::start(contender, &site).await?;
    let restart = start.elapsed();
    load::assert_nothing_lost(&again).await?;
    Ok(Measured {
        idle,
        per_second: float(tasks) / duration.as_secs_f64(),
        per_cpu_second: float(tasks) / cpu.as_secs_f64(),
        median: quantile(&times, 0.5),
        slow: quantile(&times, 0.99),
        restart: restart.as_secs_f64() * 1_000.0,
        after,
    })
}
