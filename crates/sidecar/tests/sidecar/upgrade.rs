//! UPG-01 to UPG-04: ledgers of the program that we replace are taken over in place.

use rusqlite::Connection;
use serde_json::json;
use testbed::{Context, TestResult};

use crate::ground::{Ground, SOON, new_id};

/// A ledger as schema 3 and schema 5 have it.
fn written(ground: &Ground, schema: u32) -> rusqlite::Result<()> {
    let ledger = Connection::open(ground.home.join("sidecar.db"))?;
    ledger.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE task_results (id TEXT PRIMARY KEY, type TEXT NOT NULL, status TEXT NOT NULL, params TEXT,
             error TEXT NOT NULL DEFAULT '', submitted_at TEXT NOT NULL, completed_at TEXT, run INTEGER NOT NULL DEFAULT 1);
         CREATE INDEX idx_task_results_submitted_at ON task_results (submitted_at DESC);",
    )?;
    if schema >= 5 {
        ledger.execute_batch(
            "ALTER TABLE task_results ADD COLUMN result TEXT;
             CREATE TABLE tx_markers (task_id TEXT PRIMARY KEY, tx_hash TEXT NOT NULL, tx_bytes BLOB NOT NULL,
                 account_number INTEGER NOT NULL, sequence INTEGER NOT NULL, chain_id TEXT NOT NULL, created_at TEXT NOT NULL);
             INSERT INTO tx_markers VALUES ('t', 'AB', x'00', 1, 2, 'c', '2026-05-18T10:00:00Z');",
        )?;
    }
    ledger.execute_batch(&format!(
        r#"INSERT INTO task_results (id, type, status, params, error, submitted_at, completed_at, run) VALUES
             ('0D4F0A53-9C52-4A0E-8D55-000000000001', 'mark-ready', 'completed', NULL, '', '2026-05-18T10:00:05Z', '2026-05-18T10:00:05.2Z', 1),
             ('0d4f0a53-9c52-4a0e-8d55-000000000002', 'snapshot-restore', 'failed', '{{"targetHeight":9007199254740993}}', 'S3: <no>', '2026-05-18T10:00:05.1Z', '2026-05-18T10:00:06Z', 4),
             ('0d4f0a53-9c52-4a0e-8d55-000000000003', 'await-condition', 'running', '{{"condition":"height","targetHeight":7}}', '', '2026-05-18T10:00:05.123456789Z', NULL, 2),
             ('0d4f0a53-9c52-4a0e-8d55-000000000004', 'fork-genesis', 'running', NULL, '', '2026-05-18T10:00:05.12Z', NULL, 1),
             ('0d4f0a53-9c52-4a0e-8d55-000000000005', 'gov-vote', 'running', '{{}}', '', '2026-05-18T10:00:05.11Z', NULL, 1);
           PRAGMA user_version = {schema};"#
    ))?;
    ledger.close().map_err(|(_, error)| error)
}

pub async fn ledgers_of_schema_3_and_5_are_taken_over_in_place(cx: Context) -> TestResult {
    for schema in [3, 5] {
        // These rows would be too old to be kept.
        let ground = Ground::new(&cx)?.env("OUTRIGGER_KEEP_TASKS_FOR", "1000000h");
        written(&ground, schema)?;
        let sidecar = ground.start().await?;
        let id = |last: u32| format!("0d4f0a53-9c52-4a0e-8d55-{last:012}");
        // In the order of time, although the text of the first was after that of the second.
        let listed = sidecar.get("/v0/tasks").await?.json();
        let listed: Vec<&str> =
            listed.as_array().into_iter().flatten().filter_map(|task| task["id"].as_str()).collect();
        assert_eq!(listed, [id(3), id(4), id(5), id(2), id(1)], "schema {schema}");
        let failed = sidecar.task(&id(2)).await?;
        assert_eq!(failed["run"], json!(4));
        assert_eq!(failed["params"], json!({"targetHeight": 9_007_199_254_740_993_i64}));
        assert_eq!(
            (&failed["submittedAt"], &failed["completedAt"]),
            (&json!("2026-05-18T10:00:05.1Z"), &json!("2026-05-18T10:00:06Z"))
        );
        let running = sidecar.task(&id(3)).await?;
        assert_eq!((&running["status"], &running["run"]), (&json!("running"), &json!(2)));
        assert_eq!(running["submittedAt"], json!("2026-05-18T10:00:05.123456789Z"));
        let unknown = sidecar.ended(&id(4)).await?;
        assert!(
            unknown["error"].as_str().is_some_and(|error| error.contains("no handler registered")),
            "{unknown}"
        );
        let unsupported = sidecar.ended(&id(5)).await?;
        assert!(
            unsupported["error"].as_str().is_some_and(|error| error.contains("not supported by this build")),
            "{unsupported}"
        );
        assert!(!sidecar.is_ready().await?, "what was done before is not done again");
        sidecar.done("mark-ready", &json!({})).await?;
        sidecar.stop(SOON)?;
        let ledger = Connection::open(ground.home.join("sidecar.db"))?;
        let version: i64 = ledger.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        assert_eq!(version, 6);
        if schema == 5 {
            let kept: String = ledger.query_row("SELECT tx_hash FROM tx_markers", [], |row| row.get(0))?;
            assert_eq!(kept, "AB");
        }
    }
    Ok(())
}

/// Somebody goes back to the program that we replace for a while: it takes our ledger, and writes rows of its own form into it.
pub async fn what_the_program_before_wrote_in_between_is_taken_over_too(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    ground.start().await?.stop(SOON)?;
    let id = new_id();
    let ledger = Connection::open(ground.home.join("sidecar.db"))?;
    ledger.execute(
        "INSERT INTO task_results (id, type, status, params, submitted_at)
         VALUES (?1, 'await-condition', 'running', '{\"condition\":\"x\"}', '2026-05-18T10:00:05.1Z')",
        [id.to_uppercase()],
    )?;
    drop(ledger);
    let sidecar = ground.start().await?;
    let ended = sidecar.ended(&id).await?;
    assert_eq!((&ended["status"], &ended["run"]), (&json!("failed"), &json!(1)), "{ended}");
    sidecar.submit(Some(&id), "mark-ready", &json!({})).await?;
    let again = sidecar.ended(&id).await?;
    assert_eq!((&again["status"], &again["run"]), (&json!("completed"), &json!(2)), "{again}");
    assert_eq!(sidecar.get("/v0/tasks").await?.json().as_array().map(Vec::len), Some(1), "one task, one row");
    Ok(())
}

pub async fn a_newer_ledger_is_refused_and_left_as_it_is(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    written(&ground, 7)?;
    let before = std::fs::read(ground.home.join("sidecar.db"))?;
    let (code, said) = ground.ended().await?;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("has schema 7") && said.contains("use the newer program"), "{said}");
    assert_eq!(std::fs::read(ground.home.join("sidecar.db"))?, before);
    Ok(())
}

/// S8: rows of ended tasks go after their time; the newest hold, and what runs, stay.
pub async fn s08_old_rows_are_forgotten_but_for_the_newest_hold(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    ground.start().await?.stop(SOON)?;
    let ledger = Connection::open(ground.home.join("sidecar.db"))?;
    for (number, kind, status) in [
        (1, "mark-not-ready", "completed"),
        (2, "mark-not-ready", "completed"),
        (3, "mark-ready", "completed"),
        (4, "await-condition", "running"),
    ] {
        ledger.execute(
            "INSERT INTO task_results (id, type, status, params, submitted_at, completed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                format!("0d4f0a53-9c52-4a0e-8d55-{number:012}"),
                kind,
                status,
                r#"{"condition":"height","targetHeight":7}"#,
                format!("2020-01-01T00:00:0{number}.000000000Z"),
                (status != "running").then_some("2020-01-01T00:00:09.000000000Z"),
            ),
        )?;
    }
    drop(ledger);
    let sidecar = ground.start().await?;
    let left = testbed::harness::wait::until("forgotten tasks", SOON, || async {
        let listed = sidecar.get("/v0/tasks").await.map_err(|error| error.to_string())?.json();
        let kinds: Vec<String> = listed
            .as_array()
            .into_iter()
            .flatten()
            .map(|task| {
                format!(
                    "{} {}",
                    task["id"].as_str().unwrap_or_default().chars().last().unwrap_or(' '),
                    task["status"]
                )
            })
            .collect();
        if kinds.len() == 2 { Ok(kinds) } else { Err(format!("{kinds:?}")) }
    })
    .await?;
    assert_eq!(left, ["4 \"running\"", "2 \"completed\""]);
    Ok(())
}
