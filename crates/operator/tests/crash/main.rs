//! Kills the operator at every point of everything that users do to a node, and compares what comes of it with a run that
//! nothing happened to. The short form, at a few points of each workload, is part of all tests; `make crash-operator` runs
//! the whole.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

#[path = "../node_operator/ground.rs"]
#[allow(dead_code, reason = "what the ground offers to other suites is not all needed here")]
mod ground;
mod mask;
mod outcome;
mod point;
mod run;
mod workload;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use testbed::harness::Suite;
use testbed::{Context, TestResult};
use tokio::task::JoinSet;

use crate::outcome::Outcome;
use crate::point::Point;
use crate::run::{Ended, run};
use crate::workload::Workload;

/// Set by `make crash-operator`.
const WHOLE: &str = "OUTRIGGER_CRASH_EVERYWHERE";

/// Points of each workload in the short form.
const FEW: usize = 4;

/// Runs of one workload that are under way at once: most of each is waiting.
const AT_ONCE: usize = 4;

static TRIED: AtomicUsize = AtomicUsize::new(0);
static DIFFERENT: AtomicUsize = AtomicUsize::new(0);

fn main() -> ExitCode {
    let begin = Instant::now();
    let code = Suite::new(env!("CARGO_CRATE_NAME"))
        .test("init", |cx| Box::pin(crash(cx, Workload::Init)))
        .test("update", |cx| Box::pin(crash(cx, Workload::Update)))
        .test("tls_on", |cx| Box::pin(crash(cx, Workload::TlsOn)))
        .test("tls_off", |cx| Box::pin(crash(cx, Workload::TlsOff)))
        .test("bootstrap", |cx| Box::pin(crash(cx, Workload::Bootstrap)))
        .test("delete_background", |cx| Box::pin(crash(cx, Workload::DeleteBackground)))
        .test("delete_foreground", |cx| Box::pin(crash(cx, Workload::DeleteForeground)))
        .run();
    let (tried, different) = (TRIED.load(Ordering::SeqCst), DIFFERENT.load(Ordering::SeqCst));
    println!("{tried} crash points tried, {different} with another end, in {} s", begin.elapsed().as_secs());
    code
}

/// Strikes at points of a workload, each in a run of its own.
async fn crash(cx: Context, workload: Workload) -> TestResult {
    let begin = Instant::now();
    let reference = run(&cx, workload, None).await?;
    // An operator that does not go through the proxy would be struck nowhere, and everything would seem well.
    assert!(reference.writes > 0, "the proxy saw no write of the operator");
    let all = Point::all(reference.writes, reference.submissions);
    let whole = std::env::var_os(WHOLE).is_some();
    let points = if whole { all } else { Point::some(&all, FEW, &reference.deletions) };
    let mut queue = points.iter().copied();
    let mut running = JoinSet::new();
    let mut start = |running: &mut JoinSet<_>| {
        if let Some(point) = queue.next() {
            let cx = cx.clone();
            running.spawn(async move { (point, run(&cx, workload, Some(point)).await) });
        }
    };
    for _ in 0..AT_ONCE {
        start(&mut running);
    }
    let mut failures = Vec::new();
    let mut missed = 0;
    while let Some(ended) = running.join_next().await {
        let (point, ended) = ended?;
        start(&mut running);
        if ended.as_ref().is_ok_and(|ended| !ended.struck) {
            missed += 1;
            continue;
        }
        TRIED.fetch_add(1, Ordering::SeqCst);
        let failure = match ended {
            Ok(ended) => judge(point, &ended, &reference.outcome),
            Err(error) => Some(format!("{point}: {error}")),
        };
        // At once: a run of all points takes long, and may be ended before its end.
        if let Some(failure) = &failure {
            println!("{workload:?} {failure}");
        }
        failures.extend(failure);
    }
    DIFFERENT.fetch_add(failures.len(), Ordering::SeqCst);
    println!(
        "{workload:?}: {} writes and {} submissions undisturbed; {} crash points, {missed} of them not reached; {} s",
        reference.writes,
        reference.submissions,
        points.len(),
        begin.elapsed().as_secs()
    );
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

fn judge(point: Point, ended: &Ended, undisturbed: &Outcome) -> Option<String> {
    let differences = ended.outcome.differences(undisturbed);
    (!differences.is_empty()).then(|| format!("{point}:\n{differences}"))
}
