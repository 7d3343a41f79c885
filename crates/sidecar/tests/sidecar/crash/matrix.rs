//! One task, killed before each of its writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testbed::faults::crash_writes::Watcher;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::ground::{Ground, SOON, Sidecar};

/// The id of the task that is watched.
pub const ID: &str = "3f6f2f0e-6a57-4c4e-9d4e-0f1a2b3c4d5e";

/// A matrix that was not tried to its end would be one that never ends.
const MOST_POINTS: usize = 400;

/// What a task is killed in the middle of.
pub struct Workload {
    kind: &'static str,
    params: Value,
    /// Tasks that come before it.
    before: Vec<(&'static str, Value)>,
    /// Whether it makes keys: what it writes is then another thing every time.
    random: bool,
}

impl Workload {
    pub fn new(kind: &'static str, params: Value) -> Self {
        Self { kind, params, before: Vec::new(), random: false }
    }

    pub fn after(mut self, before: &[(&'static str, Value)]) -> Self {
        self.before = before.to_vec();
        self
    }

    pub fn random(mut self) -> Self {
        self.random = true;
        self
    }
}

/// Which points are tried: all, or one in so many.
pub fn stride() -> usize {
    if std::env::var_os("OUTRIGGER_CRASH_EVERYWHERE").is_some() { 1 } else { 9 }
}

/// Every file of a node and of the objects, but for the ledger: its content, or that it is there.
pub fn state(ground: &Ground, random: bool) -> BTreeMap<String, Option<Vec<u8>>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Option<Vec<u8>>>, random: bool) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => walk(root, &path, found, random),
                _ if name.starts_with("sidecar.db") => {}
                // What a folder in the place of a bucket stages; S3 has none.
                _ if name
                    .rsplit_once('#')
                    .is_some_and(|(_, end)| end.bytes().all(|byte| byte.is_ascii_digit())) => {}
                _ if random => drop(found.insert(without_random(&name), None)),
                _ => drop(found.insert(name, fs::read(&path).ok())),
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&ground.home, &ground.home, &mut found, random);
    walk(&ground.objects, &ground.objects, &mut found, random);
    found
}

/// Names that hold an address: forty hexadecimal digits.
fn without_random(name: &str) -> String {
    let mut shown = String::new();
    for part in name.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        if digits.len() == 40 { shown.push_str(&part.replace(digits, "ID")) } else { shown.push_str(part) }
    }
    shown
}

pub fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    assert!(copied.success(), "copying {}", from.display());
    Ok(())
}

/// A node as it is before the task.
struct Template {
    home: PathBuf,
    objects: PathBuf,
}

impl Template {
    async fn of(ground: &Ground, workload: &Workload) -> Result<Self, testbed::Error> {
        let sidecar = ground.start().await?;
        for (kind, params) in &workload.before {
            let task = sidecar.done(kind, params).await?;
            assert_eq!(task["status"], "completed", "{task}");
        }
        sidecar.stop(SOON)?;
        let at = |name: &str| ground.site.dir().join(format!("template-{name}"));
        let template = Self { home: at("home"), objects: at("objects") };
        let io = |source| testbed::Error::Io { what: "keeping a node".into(), source };
        copy(&ground.home, &template.home).map_err(io)?;
        copy(&ground.objects, &template.objects).map_err(io)?;
        Ok(template)
    }

    fn restore(&self, ground: &Ground) -> std::io::Result<()> {
        copy(&self.home, &ground.home)?;
        copy(&self.objects, &ground.objects)
    }
}

/// What the ledger says of the task, when nobody uses it.
fn stored(ground: &Ground) -> Option<String> {
    let ledger = rusqlite::Connection::open(ground.home.join("sidecar.db")).ok()?;
    ledger.query_row("SELECT status FROM task_results WHERE id = ?1", [ID], |row| row.get(0)).ok()
}

/// How often the task was begun, by a log that all sidecars of a test share.
fn begun(log: &str) -> usize {
    log.lines().filter(|line| line.contains("\"begun\"") && line.contains(ID)).count()
}

/// What came of a submission that the sidecar may not have survived.
struct Tried {
    /// 201 was heard.
    answered: bool,
    /// The task ended, and nobody was killed.
    survived: bool,
}

async fn submit(sidecar: &Sidecar, workload: &Workload) -> Result<Tried, testbed::Error> {
    let body = json!({"id": ID, "type": workload.kind, "params": workload.params}).to_string();
    let answered = match sidecar.ask("POST", "/v0/tasks", &body).await {
        Ok(answer) => answer.code == 201 && answer.body.ends_with("}\n"),
        Err(_) => false,
    };
    let survived = wait::until("an end of the task or of the sidecar", SOON, || async {
        if sidecar.process.check_alive().is_err() {
            return Ok(false);
        }
        match sidecar.get(&format!("/v0/tasks/{ID}")).await {
            Ok(answer) if answer.code == 200 && answer.json()["status"] != "running" => Ok(true),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    Ok(Tried { answered, survived })
}

/// Kills before each write, and looks what is left. Returns how many points were tried.
async fn matrix(cx: &Context, workload: &Workload) -> TestResult<usize> {
    let ground = Ground::new(cx)?;
    seed(&ground)?;
    let template = Template::of(&ground, workload).await?;
    let sidecar = ground.start().await?;
    let undisturbed = submit(&sidecar, workload).await?;
    let wanted_task = sidecar.task(ID).await?;
    assert!(undisturbed.answered && wanted_task["status"] == "completed", "{wanted_task}");
    sidecar.kill()?;
    drop(sidecar);
    let wanted = state(&ground, workload.random);
    let mut tried = 0;
    let mut point = 1;
    loop {
        assert!(point < MOST_POINTS, "{}: no end after {point} writes", workload.kind);
        template.restore(&ground)?;
        let what = format!("{} killed before write {point}", workload.kind);
        let sidecar = ground.start().await?;
        let folders = [ground.home.as_path(), ground.objects.as_path()];
        let name = format!("writes-{}-{point}", workload.kind);
        let watcher = Watcher::start(&ground.site, &name, sidecar.process.pid()?, point, &folders).await?;
        let done = submit(&sidecar, workload).await?;
        let last = watcher.writes().last().cloned().unwrap_or_default();
        let what = format!("{what} ({last})");
        sidecar.kill()?;
        drop((sidecar, watcher));
        if done.survived {
            assert!(done.answered, "{what}");
            break;
        }
        tried += 1;
        survives(&ground, workload, &what, done.answered, &wanted).await?;
        point += stride();
    }
    println!("{}: killed before {tried} writes", workload.kind);
    Ok(tried)
}

/// After a kill: what was answered is there; what ran is done again, and what was done is not; at the end everything is as if
/// nothing had happened.
async fn survives(
    ground: &Ground,
    workload: &Workload,
    what: &str,
    answered: bool,
    wanted: &BTreeMap<String, Option<Vec<u8>>>,
) -> TestResult {
    let left = stored(ground);
    assert!(!answered || left.is_some(), "{what}: what was answered is lost");
    let before = begun(&fs::read_to_string(ground.site.logs().join("sidecar.log"))?);
    let sidecar = ground.start().await?;
    let there = sidecar.get(&format!("/v0/tasks/{ID}")).await?;
    assert_eq!(there.code, if left.is_some() { 200 } else { 404 }, "{what}: {there:?}");
    // As clients do: the same task again.
    assert_eq!(sidecar.submit(Some(ID), workload.kind, &workload.params).await?, ID);
    let task = sidecar.ended(ID).await?;
    assert_eq!((&task["status"], &task["run"]), (&json!("completed"), &json!(1)), "{what}: {task}");
    assert_eq!(sidecar.submit(Some(ID), workload.kind, &workload.params).await?, ID);
    assert_eq!(sidecar.ended(ID).await?, task, "{what}: what is done stays done");
    let again = usize::from(left.as_deref() != Some("completed"));
    assert_eq!(
        begun(&sidecar.log()) - before,
        again,
        "{what}: begun so often by the next process, which found {left:?}"
    );
    sidecar.kill()?;
    drop(sidecar);
    let found = state(ground, workload.random);
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        wanted.keys().collect::<Vec<_>>(),
        "{what}: other files than undisturbed"
    );
    for (name, content) in &found {
        // Those that hold times are compared by being there.
        let same = content == &wanted[name] || name.ends_with("-done") || name.ends_with("genesis.json");
        assert!(same, "{what}: {name} differs");
    }
    Ok(())
}

/// Objects that tasks fetch.
fn seed(ground: &Ground) -> std::io::Result<()> {
    let folder = ground.objects.join("test-1/state-sync");
    fs::create_dir_all(&folder)?;
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for name in ["5/metadata", "5/chunk-0", "metadata.db/a"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(3000);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &[7_u8; 3000][..])?;
    }
    fs::write(folder.join("5.tar.gz"), archive.into_inner()?.finish()?)
}

/// Tries all points of all workloads.
pub async fn all(cx: &Context, workloads: &[Workload]) -> TestResult {
    let mut tried = 0;
    for workload in workloads {
        tried += matrix(cx, workload).await?;
    }
    assert!(tried >= workloads.len(), "hardly anything was tried");
    println!("crash points tried: {tried}");
    Ok(())
}
