//! Compares the sidecar with upstream's `seictl serve`, if OUTRIGGER_PEER_SIDECAR names its binary. Intended differences are listed
//! in `differences.txt` with a reason; any other difference and any outdated entry fails.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use testbed::harness::binaries;
use testbed::{Context, Error, TestResult};

use crate::fake_rpc;
use crate::fixture::{Fixture, Response, Sidecar, TIMEOUT, new_id};

/// A request: name, method, path and body. `ID` and `OTHER` stand for task IDs; `WAIT` waits for the task and gets it.
type PeerRequest = (&'static str, &'static str, &'static str, &'static str);

const REQUESTS: &[PeerRequest] = &[
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
    ("malformed id", "GET", "/v0/tasks/x", ""),
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

/// Raw requests that no HTTP library would send.
const RAW: &[(&str, &str)] = &[
    ("HTTP/1.0 probe", "GET /v0/healthz HTTP/1.0\r\nHost: a\r\n\r\n"),
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

/// HTTP responses, byte for byte except for IDs and times.
pub async fn http_responses_match_upstream(cx: Context) -> TestResult {
    let ours = record_responses(&Fixture::new(&cx)?.start().await?).await?;
    let theirs = match peer() {
        Some(peer) => Some(record_responses(&Fixture::with_program(&cx, &peer)?.start().await?).await?),
        None => None,
    };
    compare(&ours, theirs.as_ref())
}

/// The task lifecycle as visible to clients.
pub async fn task_lifecycle_matches_upstream(cx: Context) -> TestResult {
    let ours = record_lifecycle(&Fixture::new(&cx)?.without_private_dir()).await?;
    for name in differences().keys() {
        let requested =
            REQUESTS.iter().map(|(question, ..)| *question).chain(RAW.iter().map(|(question, _)| *question));
        let is_known =
            requested.chain(["a head of 40 KiB"]).any(|request| request == name) || ours.contains_key(name);
        assert!(is_known, "differences.txt lists unknown request {name:?}");
    }
    let theirs = match peer() {
        Some(peer) => Some(record_lifecycle(&Fixture::with_program(&cx, &peer)?).await?),
        None => None,
    };
    compare(&ours, theirs.as_ref())
}

/// Ours, upstream, and ours again on one home. Without upstream's binary, ours is used for all three.
pub async fn home_can_switch_to_upstream_and_back(cx: Context) -> TestResult {
    let ours = Fixture::new(&cx)?.without_private_dir();
    let mut upstream =
        Fixture::with_program(&cx, &peer().unwrap_or(binaries::path("outrigger")?))?.without_private_dir();
    upstream.home.clone_from(&ours.home);
    let (done, runs) = (new_id(), new_id());
    let endless = json!({"condition": "height", "targetHeight": 5});
    let sidecar = ours.start().await?;
    sidecar.submit(Some(&done), "mark-ready", &json!({})).await?;
    sidecar.wait_finished(&done).await?;
    sidecar.submit(Some(&runs), "await-condition", &endless).await?;
    sidecar.kill()?;
    drop(sidecar);
    let sidecar = upstream.start().await?;
    assert_eq!(sidecar.task(&done).await?["status"], "completed");
    assert_eq!(sidecar.task(&runs).await?["status"], "running");
    let (failed, stranded) = (new_id(), new_id());
    sidecar.submit(Some(&failed), "await-condition", &json!({"condition": "x"})).await?;
    sidecar.wait_finished(&failed).await?;
    sidecar.submit(Some(&stranded), "await-condition", &endless).await?;
    sidecar.kill()?;
    drop(sidecar);
    let sidecar = ours.start().await?;
    let listed = sidecar.get("/v0/tasks").await?.json();
    let listed: Vec<&Value> = listed.as_array().into_iter().flatten().map(|task| &task["id"]).collect();
    assert_eq!(listed, [&stranded, &failed, &runs, &done]);
    assert_eq!(sidecar.task(&failed).await?["status"], "failed");
    // The node reaches the height: both tasks complete, whichever program started them.
    let _rpc = fake_rpc::serve(ours.rpc, fake_rpc::synced_node).await?;
    for id in [&runs, &stranded] {
        let ended = sidecar.wait_finished(id).await?;
        assert_eq!((&ended["status"], &ended["run"]), (&json!("completed"), &json!(1)), "{ended}");
    }
    Ok(())
}

fn peer() -> Option<PathBuf> {
    std::env::var_os("OUTRIGGER_PEER_SIDECAR").map(PathBuf::from)
}

/// Fails on unlisted differences and outdated entries.
fn compare(ours: &BTreeMap<String, String>, theirs: Option<&BTreeMap<String, String>>) -> TestResult {
    let mut differences = differences();
    differences.retain(|name, _| ours.contains_key(name));
    for (name, (expected, ..)) in &differences {
        assert_eq!(&ours[name], expected, "differences.txt is outdated: {name}");
    }
    let Some(theirs) = theirs else { return Ok(()) };
    let mut unexpected = Vec::new();
    for (name, ours) in ours {
        let theirs = &theirs[name];
        match differences.get(name) {
            None if ours != theirs => unexpected.push(format!("{name} | {ours} | {theirs} | (no reason)")),
            Some((_, expected, _)) if !expected.split(" or ").any(|value| value == theirs) => {
                unexpected.push(format!("{name} | {ours} | {theirs} | (outdated)"))
            }
            _ => {}
        }
    }
    assert!(unexpected.is_empty(), "differences that are not in differences.txt:\n{}", unexpected.join("\n"));
    Ok(())
}

/// Runs tasks across kills, restarts and ledger failures; returns the observations by name.
async fn record_lifecycle(fixture: &Fixture) -> Result<BTreeMap<String, String>, Error> {
    let mut observed = BTreeMap::new();
    let mut record = |name: &str, value: String| drop(observed.insert(name.to_owned(), value));
    let endless = json!({"condition": "height", "targetHeight": 5});
    let fails = json!({"condition": "x"});
    let sidecar = fixture.start().await?;
    let (killed, failed, deleted) = (new_id(), new_id(), new_id());
    sidecar.submit(Some(&killed), "await-condition", &endless).await?;
    sidecar.submit(Some(&failed), "await-condition", &fails).await?;
    sidecar.wait_finished(&failed).await?;
    let many = new_id();
    let body = json!({"id": many, "type": "await-condition", "params": endless}).to_string();
    let responses =
        futures_util::future::join_all((0..100).map(|_| sidecar.request("POST", "/v0/tasks", &body))).await;
    let accepted = responses.iter().flatten().filter(|response| response.code == 201).count();
    record(
        "a hundred submissions of one id",
        format!("{accepted} accepted, run {}", sidecar.task(&many).await?["run"]),
    );
    let upper = new_id().to_ascii_uppercase();
    sidecar.request("POST", "/v0/tasks", &json!({"id": upper, "type": "mark-ready"}).to_string()).await?;
    let lower = sidecar.get(&format!("/v0/tasks/{}", upper.to_ascii_lowercase())).await?;
    record("an id in upper case, read in lower case", lower.code.to_string());
    sidecar.submit(Some(&deleted), "await-condition", &endless).await?;
    let code = sidecar.request("DELETE", &format!("/v0/tasks/{deleted}"), "").await?.code;
    let gone = sidecar.get(&format!("/v0/tasks/{deleted}")).await?.code;
    record("a running task is deleted", format!("{code}, then {gone}"));
    let before = sidecar.task(&killed).await?;
    sidecar.kill()?;
    drop(sidecar);
    let sidecar = fixture.start().await?;
    let after = sidecar.task(&killed).await?;
    record(
        "killed while a task runs",
        format!(
            "{}, run {}, same time {}",
            after["status"],
            after["run"],
            after["submittedAt"] == before["submittedAt"]
        ),
    );
    record(
        "failed before a kill",
        format!("{}, run {}", sidecar.task(&failed).await?["status"], sidecar.task(&failed).await?["run"]),
    );
    record("deleted before a kill", sidecar.get(&format!("/v0/tasks/{deleted}")).await?.code.to_string());
    record("ready after a kill", sidecar.get("/v0/healthz").await?.code.to_string());
    sidecar.submit(Some(&failed), "await-condition", &fails).await?;
    record(
        "failed and resubmitted after a kill",
        format!("run {}", sidecar.wait_finished(&failed).await?["run"]),
    );
    let first = sidecar.task(&failed).await?;
    sidecar.submit(Some(&failed), "await-condition", &endless).await?;
    let again = sidecar.task(&failed).await?;
    record(
        "failed and running again",
        format!(
            "{}, run {}, error {}, end {}, later {}",
            again["status"],
            again["run"],
            again["error"],
            again["completedAt"],
            again["submittedAt"].as_str() > first["completedAt"].as_str()
        ),
    );
    let ended = sidecar.process.stop(TIMEOUT)?;
    drop(sidecar);
    record("SIGTERM while a task runs", format!("exit code {:?}", ended.code()));
    let unknown = new_id();
    insert_unknown(fixture, &unknown)?;
    let sidecar = fixture.start().await?;
    record("a running task after a graceful shutdown", sidecar.task(&killed).await?["status"].to_string());
    let left = sidecar.wait_finished(&unknown).await?;
    record("a task of an unknown type in the ledger", format!("{}, {}", left["status"], left["error"]));
    for (name, code) in record_while_locked(fixture, &sidecar, &failed).await? {
        record(&format!("{name} while the ledger is locked"), code);
    }
    for _ in 0..101 {
        sidecar.submit(None, "mark-ready", &json!({})).await?;
    }
    let listed = sidecar.get("/v0/tasks").await?.json();
    record("length of the list", listed.as_array().map_or(0, Vec::len).to_string());
    let large = format!("{{\"type\":\"mark-ready\",\"x\":\"{}\"}}", "x".repeat(2 << 20));
    record("a body of 2 MiB", sidecar.request("POST", "/v0/tasks", &large).await?.code.to_string());
    sidecar.kill()?;
    drop(sidecar);
    for (name, content) in
        [("sidecar.db", "no database at all. ".repeat(100)), ("sidecar.db-wal", String::new())]
    {
        std::fs::write(fixture.home.join(name), content)
            .map_err(|source| Error::Io { what: "corrupting the ledger".into(), source })?;
    }
    record("startup with a corrupt ledger", format!("exit code {}", fixture.run_to_exit().await?.0));
    Ok(observed)
}

/// Inserts a running task of an unknown type, as another version may leave it.
fn insert_unknown(fixture: &Fixture, id: &str) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| Error::Other(error.to_string());
    let ledger = rusqlite::Connection::open(fixture.home.join("sidecar.db")).map_err(failed)?;
    let insert = "INSERT INTO task_results (id, type, status, params, submitted_at) VALUES (?1, 'make-coffee', 'running', 'null', '2026-01-02T03:04:05Z')";
    ledger.execute(insert, [id]).map(drop).map_err(failed)
}

/// Records responses while another process locks the ledger longer than the busy timeout.
async fn record_while_locked(
    fixture: &Fixture,
    sidecar: &Sidecar,
    id: &str,
) -> Result<Vec<(&'static str, String)>, Error> {
    let failed = |error: rusqlite::Error| Error::Other(error.to_string());
    let other = rusqlite::Connection::open(fixture.home.join("sidecar.db")).map_err(failed)?;
    other.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let mut observed = Vec::new();
    for (name, method, path, body) in [
        ("a submission", "POST", "/v0/tasks".to_owned(), r#"{"type":"mark-ready"}"#),
        ("a deletion", "DELETE", format!("/v0/tasks/{id}"), ""),
        ("a read", "GET", format!("/v0/tasks/{id}"), ""),
    ] {
        let response = sidecar.request(method, &path, body).await?;
        observed.push((name, format!("{}, retry after {:?}", response.code, response.header("retry-after"))));
    }
    other.execute_batch("ROLLBACK").map_err(failed)?;
    Ok(observed)
}

/// Parses differences.txt: name, our value, upstream's value and the reason.
fn differences() -> BTreeMap<String, (String, String, String)> {
    let lines =
        include_str!("differences.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.split(" | ").collect();
            let [name, ours, theirs, reason] = parts[..] else { panic!("expected four columns: {line}") };
            assert!(!reason.trim().is_empty(), "no reason: {line}");
            (name.to_owned(), (ours.to_owned(), theirs.to_owned(), reason.to_owned()))
        })
        .collect()
}

async fn record_responses(sidecar: &Sidecar) -> Result<BTreeMap<String, String>, Error> {
    let (id, other) = (new_id(), new_id());
    let substitute = |text: &str| text.replace("OTHER", &other).replace("ID", &id);
    let mut observed = BTreeMap::new();
    for (name, method, path, body) in REQUESTS {
        let response = match *method {
            "WAIT" => {
                sidecar.wait_finished(substitute(path).rsplit('/').next().unwrap_or_default()).await?;
                sidecar.get(&substitute(path)).await?
            }
            // Replaces only ID values: a field name may be spelled `Id`.
            "POST" => {
                sidecar
                    .request(
                        "POST",
                        &substitute(path),
                        &body.replace("\"ID\"", &format!("\"{id}\"")).replace("OTHER", &other),
                    )
                    .await?
            }
            method => sidecar.request(method, &substitute(path), &substitute(body)).await?,
        };
        observed.insert((*name).to_owned(), normalize(&response, &id, &other));
    }
    for (name, request) in RAW {
        let response = sidecar.send_raw(request.as_bytes()).await?;
        observed
            .insert((*name).to_owned(), format!("{} {}", response.line, response.body).trim_end().to_owned());
    }
    let long = format!(
        "GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n",
        "y".repeat(40 << 10)
    );
    observed.insert("a head of 40 KiB".into(), sidecar.send_raw(long.as_bytes()).await?.code.to_string());
    Ok(observed)
}

/// Formats a response without IDs and times.
fn normalize(response: &Response, id: &str, other: &str) -> String {
    let content_type = response.header("content-type").unwrap_or("-");
    let allow = response.header("allow").map(|allow| format!(" allow {allow}")).unwrap_or_default();
    let body = match serde_json::from_str::<Value>(&response.body) {
        Ok(mut value) => {
            for time in ["submittedAt", "completedAt"] {
                if value.get(time).is_some() {
                    value[time] = json!("TIME");
                }
            }
            value.to_string()
        }
        Err(_) => response.body.trim_end().to_owned(),
    };
    let body = body.replace(id, "ID").replace(other, "OTHER");
    format!("{} {content_type}{allow} {body}", response.code).trim_end().to_owned()
}
