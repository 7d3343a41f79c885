//! The same questions to us and, if OUTRIGGER_PEER_SIDECAR names its binary, to the program that we replace. What differs stands
//! in `differences.txt`, each with a reason; nothing else may differ, and nothing there may be out of date.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use testbed::harness::binaries;
use testbed::{Context, Error, TestResult};

use crate::ground::{Answer, Ground, SOON, Sidecar, new_id};
use crate::node;

/// One question: its name, method, path and body. `ID` and `OTHER` stand for ids of tasks.
type Question = (&'static str, &'static str, &'static str, &'static str);

const QUESTIONS: &[Question] = &[
    ("health before ready", "GET", "/v0/healthz", ""),
    ("startup before ready", "GET", "/v0/startupz", ""),
    ("live", "GET", "/v0/livez", ""),
    ("status before ready", "GET", "/v0/status", ""),
    ("node id without a key", "GET", "/v0/node-id", ""),
    ("no tasks", "GET", "/v0/tasks", ""),
    ("head of the list", "HEAD", "/v0/tasks", ""),
    ("unknown path", "GET", "/v0/none", ""),
    ("empty id", "GET", "/v0/tasks/", ""),
    ("wrong method", "PUT", "/v0/tasks", "{}"),
    ("wrong method of a task", "POST", "/v0/tasks/ID", "{}"),
    ("wrong method of health", "POST", "/v0/healthz", ""),
    ("doubled slash", "GET", "//v0/tasks", ""),
    ("encoded path", "GET", "/v0/%68ealthz", ""),
    ("unknown task", "GET", "/v0/tasks/ID", ""),
    ("id that is none", "GET", "/v0/tasks/x", ""),
    ("delete an unknown task", "DELETE", "/v0/tasks/ID", ""),
    ("no body", "POST", "/v0/tasks", ""),
    ("broken body", "POST", "/v0/tasks", "{"),
    ("body is a list", "POST", "/v0/tasks", "[]"),
    ("body is null", "POST", "/v0/tasks", "null"),
    ("type is a number", "POST", "/v0/tasks", r#"{"type":1}"#),
    ("params is a list", "POST", "/v0/tasks", r#"{"type":"mark-ready","params":[]}"#),
    ("no type", "POST", "/v0/tasks", "{}"),
    ("unknown type", "POST", "/v0/tasks", r#"{"type":"a<b>"}"#),
    ("bad id", "POST", "/v0/tasks", r#"{"type":"mark-ready","id":"x"}"#),
    ("governance", "POST", "/v0/tasks", r#"{"type":"gov-vote"}"#),
    ("fails", "POST", "/v0/tasks", r#"{"type":"await-condition","id":"ID","params":{"condition":"<&>"}} x"#),
    ("what failed", "WAIT", "/v0/tasks/ID", ""),
    (
        "fails again, in upper case",
        "POST",
        "/v0/tasks",
        r#"{"TYPE":"await-condition","Id":"ID","params":{"condition":"y"}}"#,
    ),
    ("what failed again", "WAIT", "/v0/tasks/ID", ""),
    ("completes", "POST", "/v0/tasks", r#"{"type":"mark-ready","id":"OTHER","params":{}}"#),
    ("what completed", "WAIT", "/v0/tasks/OTHER", ""),
    ("completed again with another type", "POST", "/v0/tasks", r#"{"type":"config-validate","id":"OTHER"}"#),
    ("what completed stays", "WAIT", "/v0/tasks/OTHER", ""),
    ("health when ready", "GET", "/v0/healthz", ""),
    ("status when ready", "GET", "/v0/status", ""),
    ("a failed task takes another type", "POST", "/v0/tasks", r#"{"type":"mark-ready","id":"ID"}"#),
    ("what it became", "WAIT", "/v0/tasks/ID", ""),
    ("delete", "DELETE", "/v0/tasks/OTHER", ""),
    ("deleted", "GET", "/v0/tasks/OTHER", ""),
    ("delete twice", "DELETE", "/v0/tasks/OTHER", ""),
    (
        "a number beyond what a float holds",
        "POST",
        "/v0/tasks",
        r#"{"type":"mark-ready","id":"OTHER","params":{"n":9007199254740993}}"#,
    ),
    ("what became of the number", "WAIT", "/v0/tasks/OTHER", ""),
];

/// Requests that no library would write: each as it is sent.
const RAW: &[(&str, &str)] = &[
    ("the start gate", "GET /v0/healthz HTTP/1.0\r\nHost: a\r\n\r\n"),
    ("no host", "GET /v0/livez HTTP/1.1\r\nConnection: close\r\n\r\n"),
    (
        "two lengths",
        "POST /v0/tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{}",
    ),
    (
        "a body in chunks",
        "POST /v0/tasks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ),
];

/// API-01 to API-20.
pub async fn we_answer_as_the_program_that_we_replace(cx: Context) -> TestResult {
    let ours = observed(&Ground::new(&cx)?.start().await?).await?;
    let theirs = match peer() {
        Some(peer) => Some(observed(&Ground::with(&cx, &peer)?.start().await?).await?),
        None => None,
    };
    compare(&ours, theirs.as_ref())
}

/// ENG-01 to ENG-18, as far as both can be watched from outside.
pub async fn tasks_become_what_they_become_with_the_program_that_we_replace(cx: Context) -> TestResult {
    let ours = stories(&Ground::new(&cx)?).await?;
    for name in listed().keys() {
        let asked =
            QUESTIONS.iter().map(|(question, ..)| *question).chain(RAW.iter().map(|(question, _)| *question));
        let known = asked.chain(["a head of 40 KiB"]).any(|one| one == name) || ours.contains_key(name);
        assert!(known, "differences.txt names {name:?}, which nobody asks");
    }
    let theirs = match peer() {
        Some(peer) => Some(stories(&Ground::with(&cx, &peer)?).await?),
        None => None,
    };
    compare(&ours, theirs.as_ref())
}

/// UPG-01, with the program itself: ours, it, and ours again on one home. Without it, ours stands in for it.
pub async fn a_home_goes_to_the_program_that_we_replace_and_back(cx: Context) -> TestResult {
    let before = Ground::new(&cx)?;
    let mut between = Ground::with(&cx, &peer().unwrap_or(binaries::path("outrigger")?))?;
    between.home.clone_from(&before.home);
    let (done, runs) = (new_id(), new_id());
    let endless = json!({"condition": "height", "targetHeight": 5});
    let sidecar = before.start().await?;
    sidecar.submit(Some(&done), "mark-ready", &json!({})).await?;
    sidecar.ended(&done).await?;
    sidecar.submit(Some(&runs), "await-condition", &endless).await?;
    sidecar.kill()?;
    drop(sidecar);
    let sidecar = between.start().await?;
    assert_eq!(sidecar.task(&done).await?["status"], "completed");
    assert_eq!(sidecar.task(&runs).await?["status"], "running");
    let (failed, stranded) = (new_id(), new_id());
    sidecar.submit(Some(&failed), "await-condition", &json!({"condition": "x"})).await?;
    sidecar.ended(&failed).await?;
    sidecar.submit(Some(&stranded), "await-condition", &endless).await?;
    sidecar.kill()?;
    drop(sidecar);
    let sidecar = before.start().await?;
    let listed = sidecar.get("/v0/tasks").await?.json();
    let listed: Vec<&Value> = listed.as_array().into_iter().flatten().map(|task| &task["id"]).collect();
    assert_eq!(listed, [&stranded, &failed, &runs, &done]);
    assert_eq!(sidecar.task(&failed).await?["status"], "failed");
    // The node comes to the height: what was begun by whom ever ends.
    let _rpc = node::rpc(before.rpc, node::status).await?;
    for id in [&runs, &stranded] {
        let ended = sidecar.ended(id).await?;
        assert_eq!((&ended["status"], &ended["run"]), (&json!("completed"), &json!(1)), "{ended}");
    }
    Ok(())
}

fn peer() -> Option<PathBuf> {
    std::env::var_os("OUTRIGGER_PEER_SIDECAR").map(PathBuf::from)
}

/// What differs must be listed, and what is listed must be so.
fn compare(ours: &BTreeMap<String, String>, theirs: Option<&BTreeMap<String, String>>) -> TestResult {
    let mut listed = listed();
    listed.retain(|name, _| ours.contains_key(name));
    for (name, (expected, ..)) in &listed {
        assert_eq!(&ours[name], expected, "differences.txt is out of date: {name}");
    }
    let Some(theirs) = theirs else { return Ok(()) };
    let mut wrong = Vec::new();
    for (name, ours) in ours {
        let theirs = &theirs[name];
        match listed.get(name) {
            None if ours != theirs => {
                wrong.push(format!("{name} | {ours} | {theirs} | (no reason is given)"))
            }
            Some((_, expected, _)) if !expected.split(" or ").any(|one| one == theirs) => {
                wrong.push(format!("{name} | {ours} | {theirs} | (out of date)"))
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "what differs and is not in differences.txt:\n{}", wrong.join("\n"));
    Ok(())
}

/// What becomes of tasks when processes, callers and ids do not keep their part: by name, what was seen.
async fn stories(ground: &Ground) -> Result<BTreeMap<String, String>, Error> {
    let mut seen = BTreeMap::new();
    let mut see = |name: &str, what: String| drop(seen.insert(name.to_owned(), what));
    let endless = json!({"condition": "height", "targetHeight": 5});
    let fails = json!({"condition": "x"});
    let sidecar = ground.start().await?;
    let (killed, failed, deleted) = (new_id(), new_id(), new_id());
    sidecar.submit(Some(&killed), "await-condition", &endless).await?;
    sidecar.submit(Some(&failed), "await-condition", &fails).await?;
    sidecar.ended(&failed).await?;
    let many = new_id();
    let body = json!({"id": many, "type": "await-condition", "params": endless}).to_string();
    let answers =
        futures_util::future::join_all((0..100).map(|_| sidecar.ask("POST", "/v0/tasks", &body))).await;
    let taken = answers.iter().flatten().filter(|answer| answer.code == 201).count();
    see(
        "a hundred submissions of one id",
        format!("{taken} taken, run {}", sidecar.task(&many).await?["run"]),
    );
    let upper = new_id().to_ascii_uppercase();
    sidecar.ask("POST", "/v0/tasks", &json!({"id": upper, "type": "mark-ready"}).to_string()).await?;
    let lower = sidecar.get(&format!("/v0/tasks/{}", upper.to_ascii_lowercase())).await?;
    see("an id in upper case, asked for in lower case", lower.code.to_string());
    sidecar.submit(Some(&deleted), "await-condition", &endless).await?;
    let code = sidecar.ask("DELETE", &format!("/v0/tasks/{deleted}"), "").await?.code;
    let gone = sidecar.get(&format!("/v0/tasks/{deleted}")).await?.code;
    see("a running task is deleted", format!("{code}, then {gone}"));
    let before = sidecar.task(&killed).await?;
    sidecar.kill()?;
    drop(sidecar);
    let sidecar = ground.start().await?;
    let after = sidecar.task(&killed).await?;
    see(
        "killed while a task runs",
        format!(
            "{}, run {}, same time {}",
            after["status"],
            after["run"],
            after["submittedAt"] == before["submittedAt"]
        ),
    );
    see(
        "failed before a kill",
        format!("{}, run {}", sidecar.task(&failed).await?["status"], sidecar.task(&failed).await?["run"]),
    );
    see("deleted before a kill", sidecar.get(&format!("/v0/tasks/{deleted}")).await?.code.to_string());
    see("ready after a kill", sidecar.get("/v0/healthz").await?.code.to_string());
    sidecar.submit(Some(&failed), "await-condition", &fails).await?;
    see("failed, and given again after a kill", format!("run {}", sidecar.ended(&failed).await?["run"]));
    let first = sidecar.task(&failed).await?;
    sidecar.submit(Some(&failed), "await-condition", &endless).await?;
    let again = sidecar.task(&failed).await?;
    see(
        "failed, and running again",
        format!(
            "{}, run {}, error {}, end {}, later {}",
            again["status"],
            again["run"],
            again["error"],
            again["completedAt"],
            again["submittedAt"].as_str() > first["completedAt"].as_str()
        ),
    );
    let ended = sidecar.process.stop(SOON)?;
    drop(sidecar);
    see("told to end while a task runs", format!("exit code {:?}", ended.code()));
    let unknown = new_id();
    strand(ground, &unknown)?;
    let sidecar = ground.start().await?;
    see("a task that ran at an orderly end", sidecar.task(&killed).await?["status"].to_string());
    let left = sidecar.ended(&unknown).await?;
    see("a task of an unknown kind in the ledger", format!("{}, {}", left["status"], left["error"]));
    for (name, code) in while_held(ground, &sidecar, &failed).await? {
        see(&format!("{name} while somebody holds the ledger"), code);
    }
    for _ in 0..101 {
        sidecar.submit(None, "mark-ready", &json!({})).await?;
    }
    let listed = sidecar.get("/v0/tasks").await?.json();
    see("how many are listed", listed.as_array().map_or(0, Vec::len).to_string());
    let large = format!("{{\"type\":\"mark-ready\",\"x\":\"{}\"}}", "x".repeat(2 << 20));
    see("a body of 2 MiB", sidecar.ask("POST", "/v0/tasks", &large).await?.code.to_string());
    sidecar.kill()?;
    drop(sidecar);
    for (name, content) in
        [("sidecar.db", "no database at all. ".repeat(100)), ("sidecar.db-wal", String::new())]
    {
        std::fs::write(ground.home.join(name), content)
            .map_err(|source| Error::Io { what: "damaging the ledger".into(), source })?;
    }
    see("a start with a damaged ledger", format!("exit code {}", ground.ended().await?.0));
    Ok(seen)
}

/// Puts a task of no kind into the ledger, as another version may have left it.
fn strand(ground: &Ground, id: &str) -> Result<(), Error> {
    let refused = |error: rusqlite::Error| Error::Refused(error.to_string());
    let ledger = rusqlite::Connection::open(ground.home.join("sidecar.db")).map_err(refused)?;
    let insert = "INSERT INTO task_results (id, type, status, params, submitted_at) VALUES (?1, 'make-coffee', 'running', 'null', '2026-01-02T03:04:05Z')";
    ledger.execute(insert, [id]).map(drop).map_err(refused)
}

/// What is answered while somebody else holds the ledger for longer than is waited.
async fn while_held(
    ground: &Ground,
    sidecar: &Sidecar,
    id: &str,
) -> Result<Vec<(&'static str, String)>, Error> {
    let refused = |error: rusqlite::Error| Error::Refused(error.to_string());
    let other = rusqlite::Connection::open(ground.home.join("sidecar.db")).map_err(refused)?;
    other.execute_batch("BEGIN IMMEDIATE").map_err(refused)?;
    let mut seen = Vec::new();
    for (name, method, path, body) in [
        ("a submission", "POST", "/v0/tasks".to_owned(), r#"{"type":"mark-ready"}"#),
        ("a deletion", "DELETE", format!("/v0/tasks/{id}"), ""),
        ("a look", "GET", format!("/v0/tasks/{id}"), ""),
    ] {
        let answer = sidecar.ask(method, &path, body).await?;
        seen.push((name, format!("{}, retry after {:?}", answer.code, answer.header("retry-after"))));
    }
    other.execute_batch("ROLLBACK").map_err(refused)?;
    Ok(seen)
}

/// What differs: by name, our answer, theirs, and why.
fn listed() -> BTreeMap<String, (String, String, String)> {
    let lines =
        include_str!("differences.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.split(" | ").collect();
            let [name, ours, theirs, reason] = parts[..] else { panic!("not four parts: {line}") };
            assert!(!reason.trim().is_empty(), "no reason: {line}");
            (name.to_owned(), (ours.to_owned(), theirs.to_owned(), reason.to_owned()))
        })
        .collect()
}

async fn observed(sidecar: &Sidecar) -> Result<BTreeMap<String, String>, Error> {
    let (id, other) = (new_id(), new_id());
    let named = |text: &str| text.replace("OTHER", &other).replace("ID", &id);
    let mut seen = BTreeMap::new();
    for (name, method, path, body) in QUESTIONS {
        let answer = match *method {
            "WAIT" => {
                sidecar.ended(named(path).rsplit('/').next().unwrap_or_default()).await?;
                sidecar.get(&named(path)).await?
            }
            // The key of the field is spelled so, not the id.
            "POST" => {
                sidecar
                    .ask(
                        "POST",
                        &named(path),
                        &body.replace("\"ID\"", &format!("\"{id}\"")).replace("OTHER", &other),
                    )
                    .await?
            }
            method => sidecar.ask(method, &named(path), &named(body)).await?,
        };
        seen.insert((*name).to_owned(), shown(&answer, &id, &other));
    }
    for (name, request) in RAW {
        let answer = sidecar.raw(request.as_bytes()).await?;
        seen.insert((*name).to_owned(), format!("{} {}", answer.line, answer.body).trim_end().to_owned());
    }
    let long = format!(
        "GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n",
        "y".repeat(40 << 10)
    );
    seen.insert("a head of 40 KiB".into(), sidecar.raw(long.as_bytes()).await?.code.to_string());
    Ok(seen)
}

/// An answer, without what differs each time.
fn shown(answer: &Answer, id: &str, other: &str) -> String {
    let kind = answer.header("content-type").unwrap_or("-");
    let allow = answer.header("allow").map(|allow| format!(" allow {allow}")).unwrap_or_default();
    let body = match serde_json::from_str::<Value>(&answer.body) {
        Ok(mut value) => {
            for time in ["submittedAt", "completedAt"] {
                if value.get(time).is_some() {
                    value[time] = json!("TIME");
                }
            }
            value.to_string()
        }
        Err(_) => answer.body.trim_end().to_owned(),
    };
    let body = body.replace(id, "ID").replace(other, "OTHER");
    format!("{} {kind}{allow} {body}", answer.code).trim_end().to_owned()
}
