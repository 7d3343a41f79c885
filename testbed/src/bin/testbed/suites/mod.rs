//! Runs all test binaries of the workspace, several at a time because most of them mostly wait. The output of each is printed when
//! it exits.

mod binary;
mod summary;
mod times;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use testbed::sync::lock;
use testbed::{Error, Result};

use binary::Binary;
use summary::{Counts, Summary};
use times::Times;

/// The longest that one binary may run.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Interval at which running binaries are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The most lines repeated at the end for each failed binary.
const FAILURE_LINES: usize = 60;

/// Names of running binaries by pid, so that a signal can be forwarded to them.
type Running = Arc<Mutex<BTreeMap<u32, String>>>;

/// Runs every test binary. Returns an error if any of them fails.
pub fn run_suites(concurrency: usize) -> Result<()> {
    let binaries = binary::compile_and_list()?;
    let folder = log_folder()?;
    let mut times = Times::load(&folder);
    let mut queue = times.sort(binaries);
    let (running, received_signal) = (Running::default(), Arc::new(AtomicI32::new(0)));
    forward_signals(&running, &received_signal)?;
    let (done, results) = std::sync::mpsc::channel();
    let (mut active, mut failed, mut summary) = (0, Vec::new(), Summary::default());
    loop {
        while active < concurrency && received_signal.load(Ordering::SeqCst) == 0 {
            let Some(binary) = queue.pop() else { break };
            println!("-- starting {} ({})", binary.name, times.usual(&binary.name));
            active += 1;
            let (done, folder, running) = (done.clone(), folder.clone(), running.clone());
            std::thread::spawn(move || {
                let begin = Instant::now();
                let result = run_binary(&binary, &folder, &running);
                // The receiver is gone only while this process exits.
                let _ = done.send((binary, result, begin.elapsed()));
            });
        }
        if active == 0 {
            break;
        }
        let Ok((binary, result, took)) = results.recv() else { break };
        active -= 1;
        let output = fs::read(binary.log(&folder)).unwrap_or_default();
        print_output(&binary, &output, took)?;
        let counts = Counts::parse(&String::from_utf8_lossy(&output), matches!(result, Ok(true)));
        summary.add(&binary.name, counts, took);
        match result {
            Ok(true) => times.record(&binary.name, took),
            Ok(false) => failed.push((binary.name.clone(), binary)),
            Err(error) => failed.push((format!("{} ({error})", binary.name), binary)),
        }
    }
    times.store(&folder)?;
    for (_, binary) in &failed {
        print!("\n== failures of {}:\n{}", binary.name, failure_lines(binary, &folder));
    }
    print!("{summary}");
    summary.store(&folder)?;
    let failed: Vec<String> = failed.into_iter().map(|(name, _)| name).collect();
    match received_signal.load(Ordering::SeqCst) {
        0 if failed.is_empty() => Ok(()),
        0 => Err(Error::Other(format!("failed: {}", failed.join(", ")))),
        signal => Err(Error::Other(format!("terminated by signal {signal}"))),
    }
}

/// Returns the directory of logs, times and counts.
fn log_folder() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = target.join("testbed").join("suites");
    let created = fs::create_dir_all(&folder).and_then(|()| folder.canonicalize());
    created.map_err(|source| Error::Io { what: format!("creating {}", folder.display()), source })
}

/// Runs one binary and returns whether it exited with 0.
fn run_binary(binary: &Binary, folder: &Path, running: &Running) -> Result<bool> {
    let io = |source| Error::Io { what: format!("running {}", binary.name), source };
    let log = File::create(binary.log(folder)).map_err(io)?;
    let mut child = Command::new(&binary.program)
        .current_dir(&binary.package)
        .env("CARGO_MANIFEST_DIR", &binary.package)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(io)?)
        .stderr(log)
        .spawn()
        .map_err(io)?;
    let mut children = lock(running);
    children.insert(child.id(), binary.name.clone());
    drop(children);
    let result = wait(&mut child);
    lock(running).remove(&child.id());
    result
}

fn wait(child: &mut Child) -> Result<bool> {
    let begin = Instant::now();
    let mut terminated = false;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if begin.elapsed() > TIMEOUT && !terminated => {
                // SIGTERM lets the binary clean up. It prints no result then, which counts as a failure.
                terminated = true;
                signal(child.id(), Signal::TERM);
            }
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
            Err(source) => return Err(Error::Io { what: "waiting for a test binary".into(), source }),
        }
    }
}

/// Forwards termination signals to all running binaries, so that each cleans up.
fn forward_signals(running: &Running, received_signal: &Arc<AtomicI32>) -> Result<()> {
    let (running, received_signal) = (running.clone(), received_signal.clone());
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|source| Error::Io { what: "listening for signals".into(), source })?;
    std::thread::spawn(move || {
        for number in signals.forever() {
            received_signal.store(number, Ordering::SeqCst);
            for pid in lock(&running).keys() {
                signal(*pid, Signal::TERM);
            }
        }
    });
    Ok(())
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // Fails only if the process has just exited.
        let _ = kill_process(pid, signal);
    }
}

fn print_output(binary: &Binary, output: &[u8], took: Duration) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let printed =
        writeln!(out, "\n== {}, {} s", binary.name, took.as_secs()).and_then(|()| out.write_all(output));
    printed.map_err(|source| Error::Io { what: "printing".into(), source })
}

/// Returns the failure section of a log, or its end if the binary died without one.
fn failure_lines(binary: &Binary, folder: &Path) -> String {
    let text = fs::read(binary.log(folder)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().skip_while(|line| *line != "failures:").collect();
    let lines = if lines.is_empty() { text.lines().collect() } else { lines };
    let last = &lines[lines.len().saturating_sub(FAILURE_LINES)..];
    last.iter().map(|line| format!("{line}\n")).collect()
}
