//! What taking tasks costs: submissions that are on disk before they are answered, a start with many tasks in the ledger, and
//! memory at rest. With `OUTRIGGER_PEER_SIDECAR` the program that we replace does the same, in turns with ours.

mod contender;
mod load;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use testbed::Error;
use testbed::bench::{self, Build, Circumstances, Figure, finish, float, number, quantile, usage};
use testbed::cluster::site::Site;
use testbed::harness::logs;

/// Connections that submit at once, as a proxy would for a busy operator.
const CONNECTIONS: usize = 32;

/// What the program that we replace was measured with on such a machine, three times over.
const GOAL_PER_CPU_SECOND: f64 = 3.0 * 2_710.0;

/// Megabytes at rest.
const GOAL_IDLE: f64 = 12.0;

/// How long a process is left alone before its memory is looked at.
const REST: Duration = Duration::from_secs(3);

/// One round of one contender.
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
    let rounds = number("OUTRIGGER_BENCH_ROUNDS", 5)?;
    let tasks = number("OUTRIGGER_BENCH_TASKS", 10_000)?;
    let ours = Build::ours()?;
    let peer = Build::peer("OUTRIGGER_PEER_SIDECAR", "a binary of seictl")?;
    let sizes = [("rounds", rounds), ("tasks", tasks), ("connections", CONNECTIONS)];
    let under = Circumstances::of(&ours, peer.as_ref(), sizes)?;
    let (mut of_ours, mut of_peer) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        println!("round {round} of {rounds}");
        of_ours.push(play(&ours, tasks).await?);
        if let Some(peer) = &peer {
            of_peer.push(play(peer, tasks).await?);
        }
    }
    let figure = |name: &str, unit: &'static str, of: fn(&Measured) -> f64| {
        Figure::of(name, unit, of_ours.iter().map(of), of_peer.iter().map(of))
    };
    let figures = [
        figure("submissions, each on disk before it is answered", "1/s", |one| one.per_second).higher(),
        figure("submissions per second of processor time", "1/s", |one| one.per_cpu_second)
            .higher()
            .goal(GOAL_PER_CPU_SECOND),
        figure("a submission, half of them", "ms", |one| one.median),
        figure("a submission, 99 of 100", "ms", |one| one.slow),
        figure(&format!("start after a kill, with {tasks} tasks stored"), "ms", |one| one.restart),
        figure("memory at rest (VmRSS)", "MB", |one| one.idle).goal(GOAL_IDLE),
        figure("memory after all tasks (VmRSS)", "MB", |one| one.after),
    ];
    finish("sidecar", &format!("Median of {rounds} rounds (range)"), &figures, under)
}

async fn play(contender: &Build, tasks: usize) -> Result<Measured, Error> {
    let site = Site::claim(logs::folder("bench-sidecar", contender.name))?;
    let running = contender::start(contender, &site).await?;
    tokio::time::sleep(REST).await;
    let idle = usage::memory(running.pid()?)?;
    let (begin, cpu) = (Instant::now(), usage::cpu(running.pid()?)?);
    let times = load::submit(running.port, tasks, CONNECTIONS).await?;
    let took = begin.elapsed();
    // What was taken must also be done: its end is part of the cost.
    load::all_ended(&running).await?;
    let cpu = usage::cpu(running.pid()?)? - cpu;
    let after = usage::memory(running.pid()?)?;
    running.kill()?;
    let begin = Instant::now();
    let again = contender::start(contender, &site).await?;
    let restart = begin.elapsed();
    load::nothing_lost(&again).await?;
    Ok(Measured {
        idle,
        per_second: float(tasks) / took.as_secs_f64(),
        per_cpu_second: float(tasks) / cpu.as_secs_f64(),
        median: quantile(&times, 0.5),
        slow: quantile(&times, 0.99),
        restart: restart.as_secs_f64() * 1_000.0,
        after,
    })
}
