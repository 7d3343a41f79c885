//! Kills the operator at every crash point of every workload, and compares the outcome with an undisturbed run. By default only
//! a few crash points of each workload are tested; `make crash-operator` tests all of them.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

mod crash_point;
#[path = "../node_operator/fixture.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod fixture;
mod mask;
mod outcome;
mod run;
mod workload;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use testbed::harness::Suite;
use testbed::{Context, TestResult};
use tokio::task::JoinSet;

use crate::crash_point::CrashPoint;
use crate::outcome::Outcome;
use crate::run::{RunResult, run};
use crate::workload::Workload;

/// Set by `make crash-operator`.
const ALL_POINTS: &str = "OUTRIGGER_CRASH_EVERYWHERE";

/// Crash points of each workload by default.
const SAMPLE_SIZE: usize = 4;

/// Concurrent runs of one workload: each mostly waits.
const CONCURRENT_RUNS: usize = 4;

static TESTED: AtomicUsize = AtomicUsize::new(0);
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
    let (tested, different) = (TESTED.load(Ordering::SeqCst), DIFFERENT.load(Ordering::SeqCst));
    println!(
        "{tested} crash points tested, {different} with a different outcome, in {} s",
        begin.elapsed().as_secs()
    );
    code
}

/// Tests crash points of a workload, each in its own run.
async fn crash(cx: Context, workload: Workload) -> TestResult {
    let begin = Instant::now();
    let reference = run(&cx, workload, None).await?;
    // An operator that bypasses the fault proxy would never be killed, and every comparison would pass.
    assert!(reference.writes > 0, "the fault proxy saw no write of the operator");
    let all = CrashPoint::all(reference.writes, reference.submissions);
    let whole = std::env::var_os(ALL_POINTS).is_some();
    let points = if whole { all } else { CrashPoint::sample(&all, SAMPLE_SIZE, &reference.deletions) };
    let mut queue = points.iter().copied();
    let mut running = JoinSet::new();
    let mut start = |running: &mut JoinSet<_>| {
        if let Some(point) = queue.next() {
            let cx = cx.clone();
            running.spawn(async move { (point, run(&cx, workload, Some(point)).await) });
        }
    };
    for _ in 0..CONCURRENT_RUNS {
        start(&mut running);
    }
    let mut failures = Vec::new();
    let mut missed = 0;
    while let Some(finished) = running.join_next().await {
        let (point, result) = finished?;
        start(&mut running);
        if result.as_ref().is_ok_and(|result| !result.fired) {
            missed += 1;
            continue;
        }
        TESTED.fetch_add(1, Ordering::SeqCst);
        let failure = match result {
            Ok(result) => compare(point, &result, &reference.outcome),
            Err(error) => Some(format!("{point}: {error}")),
        };
        // Printed immediately: a run of all crash points takes long, and may be interrupted.
        if let Some(failure) = &failure {
            println!("{workload:?} {failure}");
        }
        failures.extend(failure);
    }
    DIFFERENT.fetch_add(failures.len(), Ordering::SeqCst);
    println!(
        "{workload:?}: {} writes and {} submissions undisturbed; {} crash points, {missed} not reached; {} s",
        reference.writes,
        reference.submissions,
        points.len(),
        begin.elapsed().as_secs()
    );
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

fn compare(point: CrashPoint, result: &RunResult, undisturbed: &Outcome) -> Option<String> {
    let differences = result.outcome.differences(undisturbed);
    (!differences.is_empty()).then(|| format!("{point}:\n{differences}"))
}
