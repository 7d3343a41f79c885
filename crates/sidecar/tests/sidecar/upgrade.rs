//! Migration of upstream's ledgers in place.

use rusqlite::Connection;
use serde_json::json;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, TIMEOUT, new_id};

/// Writes a ledger with upstream's schema 3 or 5.
fn write_upstream_ledger(fixture: &Fixture, schema: u32) -> rusqlite::Result<()> {
    let ledger = Connection::open(fixture.home.join("sidecar.db"))?;
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

pub async fn ledgers_of_schema_3_and_5_are_migrated(cx: Context) -> TestResult {
    for schema in [3, 5] {
        // Otherwise these old rows would be pruned.
        let fixture = Fixture::new(&cx)?.without_private_dir().env("OUTRIGGER_KEEP_TASKS_FOR", "1000000h");
        write_upstream_ledger(&fixture, schema)?;
        let sidecar = fixture.start().await?;
        let id = |last: u32| format!("0d4f0a53-9c52-4a0e-8d55-{last:012}");
        // In time order, although the text of the first sorted after that of the second.
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
        let unknown = sidecar.wait_finished(&id(4)).await?;
        assert!(
            unknown["error"].as_str().is_some_and(|error| error.contains("no handler registered")),
            "{unknown}"
        );
        let unsupported = sidecar.wait_finished(&id(5)).await?;
        assert!(
            unsupported["error"].as_str().is_some_and(|error| error.contains("not supported by this build")),
            "{unsupported}"
        );
        assert!(!sidecar.is_ready().await?, "completed tasks do not run again");
        sidecar.run_task("mark-ready", &json!({})).await?;
        sidecar.stop(TIMEOUT)?;
        let ledger = Connection::open(fixture.home.join("sidecar.db"))?;
        let version: i64 = ledger.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        assert_eq!(version, 6);
        if schema == 5 {
            let kept: String = ledger.query_row("SELECT tx_hash FROM tx_markers", [], |row| row.get(0))?;
            assert_eq!(kept, "AB");
        }
    }
    Ok(())
}

/// A user switches back to upstream for a while: it opens our ledger and writes rows in its own format.
pub async fn rows_written_by_upstream_meanwhile_are_adopted(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?.without_private_dir();
    fixture.start().await?.stop(TIMEOUT)?;
    let id = new_id();
    let ledger = Connection::open(fixture.home.join("sidecar.db"))?;
    ledger.execute(
        "INSERT INTO task_results (id, type, status, params, submitted_at)
         VALUES (?1, 'await-condition', 'running', '{\"condition\":\"x\"}', '2026-05-18T10:00:05.1Z')",
        [id.to_uppercase()],
    )?;
    drop(ledger);
    let sidecar = fixture.start().await?;
    let ended = sidecar.wait_finished(&id).await?;
    assert_eq!((&ended["status"], &ended["run"]), (&json!("failed"), &json!(1)), "{ended}");
    sidecar.submit(Some(&id), "mark-ready", &json!({})).await?;
    let again = sidecar.wait_finished(&id).await?;
    assert_eq!((&again["status"], &again["run"]), (&json!("completed"), &json!(2)), "{again}");
    assert_eq!(sidecar.get("/v0/tasks").await?.json().as_array().map(Vec::len), Some(1), "one row per task");
    Ok(())
}

pub async fn newer_ledger_is_rejected_unchanged(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    write_upstream_ledger(&fixture, 7)?;
    let before = std::fs::read(fixture.home.join("sidecar.db"))?;
    let (code, output) = fixture.run_to_exit().await?;
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("has schema 7") && output.contains("use the newer version"), "{output}");
    assert_eq!(std::fs::read(fixture.home.join("sidecar.db"))?, before);
    Ok(())
}

/// Finished tasks are deleted after the retention time, except the newest hold; running tasks stay.
pub async fn old_tasks_are_pruned_except_the_newest_hold(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?.without_private_dir();
    fixture.start().await?.stop(TIMEOUT)?;
    let ledger = Connection::open(fixture.home.join("sidecar.db"))?;
    for (number, task_type, status) in [
        (1, "mark-not-ready", "completed"),
        (2, "mark-not-ready", "completed"),
        (3, "mark-ready", "completed"),
        (4, "await-condition", "running"),
    ] {
        ledger.execute(
            "INSERT INTO task_results (id, type, status, params, submitted_at, completed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                format!("0d4f0a53-9c52-4a0e-8d55-{number:012}"),
                task_type,
                status,
                r#"{"condition":"height","targetHeight":7}"#,
                format!("2020-01-01T00:00:0{number}.000000000Z"),
                (status != "running").then_some("2020-01-01T00:00:09.000000000Z"),
            ),
        )?;
    }
    drop(ledger);
    let sidecar = fixture.start().await?;
    let left = testbed::harness::wait::until("old tasks to be pruned", TIMEOUT, || async {
        let listed = sidecar.get("/v0/tasks").await.map_err(|error| error.to_string())?.json();
        let remaining: Vec<String> = listed
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
        if remaining.len() == 2 { Ok(remaining) } else { Err(format!("{remaining:?}")) }
    })
    .await?;
    assert_eq!(left, ["4 \"running\"", "2 \"completed\""]);
    Ok(())
}
