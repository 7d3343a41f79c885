//! Runs all test binaries of the workspace, some at a time: most of each is waiting. Each shows what it printed when it is over.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use testbed::{Error, Result};

/// Looks at the whole machine, and has to wait until nobody else runs: best begun when nobody is left to be held up.
const LAST: &str = "cleanup";

/// The longest that one binary may take.
const WITHIN: Duration = Duration::from_secs(15 * 60);

/// Time between two looks at what runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The most lines that are shown again of what a binary said of its failures.
const FAILURE_LINES: usize = 60;

/// One test binary.
#[derive(Clone, Debug)]
struct Binary {
    name: String,
    program: PathBuf,
    /// The folder of its package, where cargo runs it.
    home: PathBuf,
}

/// Binaries that run now, so that a signal reaches them.
type Running = Arc<Mutex<BTreeMap<u32, String>>>;

/// Runs everything, and fails if anything does.
pub fn run_suites(at_once: usize) -> Result<()> {
    let binaries = binaries()?;
    let folder = folder()?;
    let mut times = Times::of(&folder);
    let mut queue = times.in_order(binaries);
    let (running, ended) = (Running::default(), Arc::new(AtomicI32::new(0)));
    pass_on_signals(&running, &ended)?;
    let (done, results) = std::sync::mpsc::channel();
    let (mut under_way, mut failed) = (0, Vec::new());
    loop {
        while under_way < at_once && ended.load(Ordering::SeqCst) == 0 {
            let Some(binary) = queue.pop() else { break };
            println!("-- {} begins ({})", binary.name, times.usual(&binary.name));
            under_way += 1;
            let (done, folder, running) = (done.clone(), folder.clone(), running.clone());
            std::thread::spawn(move || {
                let begin = Instant::now();
                let result = run_one(&binary, &folder, &running);
                // Nobody listens any more only when this process is ending.
                let _ = done.send((binary, result, begin.elapsed()));
            });
        }
        if under_way == 0 {
            break;
        }
        let Ok((binary, result, took)) = results.recv() else { break };
        under_way -= 1;
        show(&binary, &folder, took)?;
        match result {
            Ok(true) => times.learn(&binary.name, took),
            Ok(false) => failed.push((binary.name.clone(), binary)),
            Err(error) => failed.push((format!("{} ({error})", binary.name), binary)),
        }
    }
    times.store(&folder)?;
    for (_, binary) in &failed {
        print!(
            "\n== {} failed; once more, what it said of that:\n{}",
            binary.name,
            failures(binary, &folder)
        );
    }
    let failed: Vec<String> = failed.into_iter().map(|(name, _)| name).collect();
    match ended.load(Ordering::SeqCst) {
        0 if failed.is_empty() => Ok(()),
        0 => Err(Error::Refused(format!("failed: {}", failed.join(", ")))),
        signal => Err(Error::Refused(format!("ended by signal {signal}"))),
    }
}

/// Every test binary of the workspace, compiled if need be.
fn binaries() -> Result<Vec<Binary>> {
    let listed = Command::new("cargo")
        .args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output();
    let listed = listed.map_err(|source| Error::Io { what: "running cargo".into(), source })?;
    if !listed.status.success() {
        return Err(Error::Refused("cargo cannot compile the tests: see above".into()));
    }
    let text = String::from_utf8_lossy(&listed.stdout);
    let found: Vec<Binary> = text.lines().filter_map(binary).collect();
    if found.is_empty() {
        return Err(Error::Refused("cargo names no test binary".into()));
    }
    Ok(found)
}

/// The binary that a line of cargo tells of.
fn binary(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let home = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = home.file_name()?.to_string_lossy().into_owned();
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let name =
        if kind == "test" { format!("{package}/{target}") } else { format!("{package}/{kind} {target}") };
    Some(Binary { name, program: message["executable"].as_str()?.into(), home })
}

/// Where logs of binaries and their times are kept.
fn folder() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = target.join("testbed").join("suites");
    let made = fs::create_dir_all(&folder).and_then(|()| folder.canonicalize());
    made.map_err(|source| Error::Io { what: format!("making {}", folder.display()), source })
}

fn log_of(binary: &Binary, folder: &Path) -> PathBuf {
    folder.join(format!("{}.log", binary.name.replace(['/', ' '], "-")))
}

/// Runs one binary, and tells whether it was content.
fn run_one(binary: &Binary, folder: &Path, running: &Running) -> Result<bool> {
    let path = log_of(binary, folder);
    let io = |source| Error::Io { what: format!("running {}", binary.name), source };
    let log = File::create(&path).map_err(io)?;
    let mut child = Command::new(&binary.program)
        .current_dir(&binary.home)
        .env("CARGO_MANIFEST_DIR", &binary.home)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(io)?)
        .stderr(log)
        .spawn()
        .map_err(io)?;
    let mut children = running.lock().unwrap_or_else(PoisonError::into_inner);
    children.insert(child.id(), binary.name.clone());
    drop(children);
    let ended = wait(&mut child);
    running.lock().unwrap_or_else(PoisonError::into_inner).remove(&child.id());
    ended
}

fn wait(child: &mut Child) -> Result<bool> {
    let begin = Instant::now();
    let mut told = false;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if begin.elapsed() > WITHIN && !told => {
                // It removes what it started, and shows no count: that is a failure.
                told = true;
                signal(child.id(), Signal::TERM);
            }
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(source) => return Err(Error::Io { what: "waiting for a test binary".into(), source }),
        }
    }
}

/// A signal to this process is one to all that it runs: each removes what it started.
fn pass_on_signals(running: &Running, ended: &Arc<AtomicI32>) -> Result<()> {
    let (running, ended) = (running.clone(), ended.clone());
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|source| Error::Io { what: "listening for signals".into(), source })?;
    std::thread::spawn(move || {
        for number in signals.forever() {
            ended.store(number, Ordering::SeqCst);
            for pid in running.lock().unwrap_or_else(PoisonError::into_inner).keys() {
                signal(*pid, Signal::TERM);
            }
        }
    });
    Ok(())
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // One that has just ended needs none.
        let _ = kill_process(pid, signal);
    }
}

fn show(binary: &Binary, folder: &Path, took: Duration) -> Result<()> {
    let path = log_of(binary, folder);
    let text = fs::read(&path).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    let shown =
        writeln!(out, "\n== {}, {} s", binary.name, took.as_secs()).and_then(|()| out.write_all(&text));
    shown.map_err(|source| Error::Io { what: "printing".into(), source })
}

/// What a binary said of its failures: a log is long, and of some only the end is shown.
fn failures(binary: &Binary, folder: &Path) -> String {
    let text = fs::read(log_of(binary, folder)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().skip_while(|line| *line != "failures:").collect();
    // One that died tells of none: its last lines are all that is known.
    let lines = if lines.is_empty() { text.lines().collect() } else { lines };
    let last = &lines[lines.len().saturating_sub(FAILURE_LINES)..];
    last.iter().map(|line| format!("{line}\n")).collect()
}

/// How long binaries took the last time.
struct Times(BTreeMap<String, u64>);

impl Times {
    const FILE: &str = "times.json";

    fn of(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join(Self::FILE)).unwrap_or_default();
        Self(serde_json::from_str(&text).unwrap_or_default())
    }

    fn learn(&mut self, name: &str, took: Duration) {
        self.0.insert(name.to_owned(), took.as_secs());
    }

    fn usual(&self, name: &str) -> String {
        self.0.get(name).map_or_else(|| "for the first time".into(), |seconds| format!("usually {seconds} s"))
    }

    /// With the one to begin with at the end: long ones and those that nobody knows first, so that none is left over.
    fn in_order(&self, mut binaries: Vec<Binary>) -> Vec<Binary> {
        let last = |binary: &Binary| binary.name.ends_with(&format!("/{LAST}"));
        let time = |binary: &Binary| self.0.get(&binary.name).copied().unwrap_or(u64::MAX);
        binaries.sort_by_key(|binary| (!last(binary), time(binary)));
        binaries
    }

    fn store(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.0).unwrap_or_default();
        let stored = fs::write(folder.join(Self::FILE), text);
        stored.map_err(|source| Error::Io { what: "storing how long tests took".into(), source })
    }
}
