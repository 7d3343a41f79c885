//! Kills the sidecar before each write of a task.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testbed::faults::crash_writes::WriteTracer;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Sidecar, TIMEOUT};

/// The ID of the task under test.
pub const ID: &str = "3f6f2f0e-6a57-4c4e-9d4e-0f1a2b3c4d5e";

/// Upper bound of crash points, against endless loops.
const MAX_POINTS: usize = 400;

/// The task under test.
pub struct Workload {
    task_type: &'static str,
    params: Value,
    /// Tasks that run before it.
    setup: Vec<(&'static str, Value)>,
    /// Whether it creates keys: file contents differ in every run.
    is_random: bool,
}

impl Workload {
    pub fn new(task_type: &'static str, params: Value) -> Self {
        Self { task_type, params, setup: Vec::new(), is_random: false }
    }

    pub fn after(mut self, setup: &[(&'static str, Value)]) -> Self {
        self.setup = setup.to_vec();
        self
    }

    pub fn random(mut self) -> Self {
        self.is_random = true;
        self
    }
}

/// Distance between tested crash points: 1 tests all.
pub fn stride() -> usize {
    if std::env::var_os("OUTRIGGER_CRASH_EVERYWHERE").is_some() { 1 } else { 9 }
}

/// Returns every file of the node and the buckets except the ledger: its content, or only its name if contents are random.
pub fn state(fixture: &Fixture, random: bool) -> BTreeMap<String, Option<Vec<u8>>> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<String, Option<Vec<u8>>>, random: bool) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => walk(root, &path, found, random),
                _ if name.starts_with("sidecar.db") => {}
                // Temporary files of the local bucket; S3 has none.
                _ if name
                    .rsplit_once('#')
                    .is_some_and(|(_, suffix)| suffix.bytes().all(|byte| byte.is_ascii_digit())) => {}
                _ if random => drop(found.insert(without_random(&name), None)),
                _ => drop(found.insert(name, fs::read(&path).ok())),
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&fixture.home, &fixture.home, &mut found, random);
    walk(&fixture.objects, &fixture.objects, &mut found, random);
    found
}

/// Replaces addresses (forty hexadecimal digits) in a file name.
fn without_random(name: &str) -> String {
    let mut normalized = String::new();
    for part in name.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        if digits.len() == 40 {
            normalized.push_str(&part.replace(digits, "ID"))
        } else {
            normalized.push_str(part)
        }
    }
    normalized
}

pub fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    assert!(copied.success(), "copying {}", from.display());
    Ok(())
}

/// A copy of the node before the task.
struct Template {
    home: PathBuf,
    objects: PathBuf,
}

impl Template {
    async fn create(fixture: &Fixture, workload: &Workload) -> Result<Self, testbed::Error> {
        let sidecar = fixture.start().await?;
        for (task_type, params) in &workload.setup {
            let task = sidecar.run_task(task_type, params).await?;
            assert_eq!(task["status"], "completed", "{task}");
        }
        sidecar.stop(TIMEOUT)?;
        let at = |name: &str| fixture.site.dir().join(format!("template-{name}"));
        let template = Self { home: at("home"), objects: at("objects") };
        let io = |source| testbed::Error::Io { what: "copying the node".into(), source };
        copy(&fixture.home, &template.home).map_err(io)?;
        copy(&fixture.objects, &template.objects).map_err(io)?;
        Ok(template)
    }

    fn restore(&self, fixture: &Fixture) -> std::io::Result<()> {
        copy(&self.home, &fixture.home)?;
        copy(&self.objects, &fixture.objects)
    }
}

/// Returns the stored status of the task; the sidecar must not be running.
fn stored_status(fixture: &Fixture) -> Option<String> {
    let ledger = rusqlite::Connection::open(fixture.home.join("sidecar.db")).ok()?;
    ledger.query_row("SELECT status FROM task_results WHERE id = ?1", [ID], |row| row.get(0)).ok()
}

/// Returns whether the task is resumed if it is unfinished: it is a hold, or it is recorded as accepted. No other task is unfinished.
fn is_resumed(fixture: &Fixture, workload: &Workload) -> std::io::Result<bool> {
    let mut records = fs::read_dir(fixture.private.join("accepted-tasks"))?;
    Ok(workload.task_type == "mark-not-ready" || records.next().is_some())
}

/// Counts the starts of the task in the log, which all sidecars of a test share.
fn count_starts(log: &str) -> usize {
    log.lines().filter(|line| line.contains("\"task started\"") && line.contains(ID)).count()
}

/// The outcome of a submission that the sidecar may not have survived.
struct Attempt {
    /// The client received 201.
    accepted: bool,
    /// The task finished and the sidecar was not killed.
    survived: bool,
}

async fn submit(sidecar: &Sidecar, workload: &Workload) -> Result<Attempt, testbed::Error> {
    let body = json!({"id": ID, "type": workload.task_type, "params": workload.params}).to_string();
    let accepted = match sidecar.request("POST", "/v0/tasks", &body).await {
        Ok(response) => response.code == 201 && response.body.ends_with("}\n"),
        Err(_) => false,
    };
    let survived = wait::until("the task or the sidecar to end", TIMEOUT, || async {
        if sidecar.process.check_alive().is_err() {
            return Ok(false);
        }
        match sidecar.get(&format!("/v0/tasks/{ID}")).await {
            Ok(response) if response.code == 200 && response.json()["status"] != "running" => Ok(true),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    Ok(Attempt { accepted, survived })
}

/// Kills the sidecar before each write and checks the recovery; returns the number of tested crash points.
async fn run_matrix(cx: &Context, workload: &Workload) -> TestResult<usize> {
    let fixture = Fixture::new(cx)?;
    seed(&fixture)?;
    let template = Template::create(&fixture, workload).await?;
    let sidecar = fixture.start().await?;
    let undisturbed = submit(&sidecar, workload).await?;
    let expected_task = sidecar.task(ID).await?;
    assert!(undisturbed.accepted && expected_task["status"] == "completed", "{expected_task}");
    sidecar.kill()?;
    drop(sidecar);
    let expected = state(&fixture, workload.is_random);
    let mut tried = 0;
    let mut point = 1;
    loop {
        assert!(point < MAX_POINTS, "{}: not finished after {point} writes", workload.task_type);
        template.restore(&fixture)?;
        let what = format!("{} killed before write {point}", workload.task_type);
        let sidecar = fixture.start().await?;
        let dirs = [&fixture.home, &fixture.objects, &fixture.private].map(PathBuf::as_path);
        let name = format!("writes-{}-{point}", workload.task_type);
        let watcher = WriteTracer::start(&fixture.site, &name, sidecar.process.pid()?, point, &dirs).await?;
        let attempt = submit(&sidecar, workload).await?;
        let last = watcher.writes().last().cloned().unwrap_or_default();
        let what = format!("{what} ({last})");
        sidecar.kill()?;
        drop((sidecar, watcher));
        if attempt.survived {
            assert!(attempt.accepted, "{what}");
            break;
        }
        tried += 1;
        assert_recovers(&fixture, workload, &what, attempt.accepted, &expected).await?;
        point += stride();
    }
    println!("{}: killed before {tried} writes", workload.task_type);
    Ok(tried)
}

/// Checks the state after a kill: an accepted task exists, an unfinished task runs again, a finished one does not, and in the end
/// all files are as in an undisturbed run.
async fn assert_recovers(
    fixture: &Fixture,
    workload: &Workload,
    what: &str,
    accepted: bool,
    expected: &BTreeMap<String, Option<Vec<u8>>>,
) -> TestResult {
    // A task that was stored and not recorded was not acknowledged either.
    let is_resumed = is_resumed(fixture, workload)?;
    let status = stored_status(fixture).filter(|status| is_resumed || status != "running");
    assert!(!accepted || status.is_some(), "{what}: an accepted task is lost");
    let starts_before = count_starts(&fs::read_to_string(fixture.site.logs().join("sidecar.log"))?);
    let sidecar = fixture.start().await?;
    let response = sidecar.get(&format!("/v0/tasks/{ID}")).await?;
    assert_eq!(response.code, if status.is_some() { 200 } else { 404 }, "{what}: {response:?}");
    // Clients submit the same task again.
    assert_eq!(sidecar.submit(Some(ID), workload.task_type, &workload.params).await?, ID);
    let task = sidecar.wait_finished(ID).await?;
    assert_eq!((&task["status"], &task["run"]), (&json!("completed"), &json!(1)), "{what}: {task}");
    assert_eq!(sidecar.submit(Some(ID), workload.task_type, &workload.params).await?, ID);
    assert_eq!(sidecar.wait_finished(ID).await?, task, "{what}: a completed task is unchanged");
    let expected_starts = usize::from(status.as_deref() != Some("completed"));
    assert_eq!(
        count_starts(&sidecar.log()) - starts_before,
        expected_starts,
        "{what}: starts by the next process, which found {status:?}"
    );
    sidecar.kill()?;
    drop(sidecar);
    let found = state(fixture, workload.is_random);
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "{what}: different files than undisturbed"
    );
    for (name, content) in &found {
        // Files with times: only their existence is compared.
        let is_same = content == &expected[name] || name.ends_with("-done") || name.ends_with("genesis.json");
        assert!(is_same, "{what}: {name} differs");
    }
    Ok(())
}

/// Creates the objects that tasks download.
fn seed(fixture: &Fixture) -> std::io::Result<()> {
    let dir = fixture.objects.join("test-1/state-sync");
    fs::create_dir_all(&dir)?;
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for name in ["5/metadata", "5/chunk-0", "metadata.db/a"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(3000);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &[7_u8; 3000][..])?;
    }
    fs::write(dir.join("5.tar.gz"), archive.into_inner()?.finish()?)
}

/// Tests all crash points of all workloads.
pub async fn all(cx: &Context, workloads: &[Workload]) -> TestResult {
    let mut tried = 0;
    for workload in workloads {
        tried += run_matrix(cx, workload).await?;
    }
    assert!(tried >= workloads.len(), "too few crash points");
    println!("crash points tried: {tried}");
    Ok(())
}
