//! Ledgers that seid has changed. It shares the volume with its sidecar, which has the credentials of the buckets.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::engine::endless_params;
use crate::fixture::{Fixture, Sidecar, TIMEOUT, new_id};

/// The object that every upload of a snapshot replaces.
const LATEST: &str = "test-1/state-sync/latest.txt";

/// The record of the last uploaded snapshot.
const LAST_UPLOAD: &str = ".sei-sidecar-last-upload.json";

/// Creates snapshots, of which the older one is uploaded.
fn write_snapshots(home: &Path) -> std::io::Result<()> {
    for name in ["5/metadata", "10/metadata", "metadata.db/a"] {
        let file = home.join("data/snapshots").join(name);
        fs::create_dir_all(file.parent().unwrap_or(home))?;
        fs::write(file, "forged")?;
    }
    Ok(())
}

fn open(fixture: &Fixture) -> rusqlite::Result<Connection> {
    Connection::open(fixture.home.join("sidecar.db"))
}

/// Writes a row as the sidecar would, with the current time.
fn forge(ledger: &Connection, task_type: &str, params: &Value) -> rusqlite::Result<String> {
    let id = new_id();
    ledger.execute(
        "INSERT INTO task_results (id, type, status, run, params, submitted_at, caller)
         VALUES (?1, ?2, 'running', 1, ?3, strftime('%Y-%m-%dT%H:%M:%S.000000000Z'), 'system:serviceaccount:outrigger-system:outrigger-operator')",
        (&id, task_type, params.to_string()),
    )?;
    Ok(id)
}

async fn code(sidecar: &Sidecar, id: &str) -> Result<u16, testbed::Error> {
    Ok(sidecar.get(&format!("/v0/tasks/{id}")).await?.code)
}

/// Rows that were written into the ledger, or put back after their task has finished, are deleted at the start.
pub async fn tasks_written_into_the_ledger_are_not_executed(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    write_snapshots(&fixture.home)?;
    let latest = fixture.objects.join(LATEST);
    let sidecar = fixture.start().await?;
    let endless = sidecar.submit(None, "await-condition", &endless_params()).await?;
    let uploaded = sidecar.submit(None, "snapshot-upload-once", &json!({})).await?;
    assert_eq!(sidecar.wait_finished(&uploaded).await?["status"], "completed");
    assert_eq!(fs::read_to_string(&latest)?, "5", "the bucket works");
    let before = sidecar.task(&endless).await?;
    sidecar.kill()?;
    drop(sidecar);

    fs::remove_file(&latest)?;
    fs::remove_file(fixture.home.join(LAST_UPLOAD))?;
    let ledger = open(&fixture)?;
    let mut forged = vec![uploaded.clone()];
    // The same execution once more.
    ledger.execute(
        "UPDATE task_results SET status = 'running', result = NULL, completed_at = NULL WHERE id = ?1",
        [&uploaded],
    )?;
    for (task_type, params) in [
        ("snapshot-upload-once", json!({})),
        ("snapshot-upload", json!({})),
        (
            "assemble-and-upload-genesis",
            json!({"accountBalance": "1usei", "namespace": "sei", "nodes": [{"name": "a"}]}),
        ),
        ("upload-genesis-artifacts", json!({"nodeName": "a"})),
        ("result-export", json!({})),
        ("config-patch", json!({"files": {"config.toml": {"moniker": "forged"}}})),
        ("mark-ready", json!({})),
        ("no-such-task", json!({})),
    ] {
        forged.push(forge(&ledger, task_type, &params)?);
    }
    // Other parameters for the accepted task, and its record under the name of another path.
    let changed = forge(&ledger, "await-condition", &endless_params())?;
    ledger.execute("UPDATE task_results SET id = '../accepted-tasks/../x' WHERE id = ?1", [&changed])?;
    drop(ledger);

    let sidecar = fixture.start().await?;
    assert_eq!(sidecar.task(&endless).await?, before, "the accepted task is resumed");
    for id in &forged {
        assert_eq!(code(&sidecar, id).await?, 404, "{id}");
        let log = sidecar.log();
        let starts =
            log.lines().filter(|line| line.contains("\"task started\"") && line.contains(id.as_str()));
        assert_eq!(starts.count(), usize::from(*id == uploaded), "{id}: {log}");
        assert!(log.contains("that this sidecar has not accepted"), "{log}");
    }
    let listed = sidecar.get("/v0/tasks").await?.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert!(!latest.exists(), "an object was written");
    assert!(!sidecar.is_ready().await?);
    // Clients that poll a deleted task submit it again.
    sidecar.submit(Some(&uploaded), "snapshot-upload-once", &json!({})).await?;
    let again = sidecar.wait_finished(&uploaded).await?;
    assert_eq!((&again["run"], &again["result"]["outcome"]), (&json!(1), &json!("uploaded")), "{again}");
    assert_eq!(fs::read_to_string(&latest)?, "5");
    sidecar.kill()?;
    drop(sidecar);

    let ledger = open(&fixture)?;
    ledger.execute("UPDATE task_results SET params = '{\"condition\":\"x\"}' WHERE id = ?1", [&endless])?;
    drop(ledger);
    let sidecar = fixture.start().await?;
    assert_eq!(code(&sidecar, &endless).await?, 404, "its parameters were changed");
    Ok(())
}

/// The private directory ends with the pod. A hold stays, and a node that publishes snapshots continues to do so.
pub async fn tasks_of_a_previous_pod_are_submitted_again(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    write_snapshots(&fixture.home)?;
    let mut publishing = Fixture::new(&cx)?.env("OUTRIGGER_PUBLISH_SNAPSHOTS", "true");
    publishing.home.clone_from(&fixture.home);
    publishing.objects.clone_from(&fixture.objects);
    publishing.private.clone_from(&fixture.private);
    let last_upload = fixture.home.join(LAST_UPLOAD);
    let uploaded = || wait::until("an upload", TIMEOUT, || async { fs::read_to_string(&last_upload) });
    let next_pod = || -> TestResult {
        fs::remove_dir_all(&fixture.private)?;
        fs::remove_file(&last_upload)?;
        Ok(fs::create_dir(&fixture.private)?)
    };
    let sidecar = fixture.start().await?;
    let endless = sidecar.submit(None, "await-condition", &endless_params()).await?;
    let uploads = [
        sidecar.submit(None, "snapshot-upload", &json!({})).await?,
        sidecar.submit(None, "snapshot-upload", &json!({})).await?,
    ];
    uploaded().await?;
    sidecar.kill()?;
    drop(sidecar);
    let hold = forge(&open(&fixture)?, "mark-not-ready", &json!({}))?;
    let release = forge(&open(&fixture)?, "mark-ready", &json!({}))?;

    next_pod()?;
    let sidecar = publishing.start().await?;
    uploaded().await?;
    for (id, expected) in
        [(&endless, 404), (&uploads[0], 200), (&uploads[1], 404), (&hold, 200), (&release, 404)]
    {
        assert_eq!(code(&sidecar, id).await?, expected, "{id}");
    }
    assert_eq!(sidecar.task(&hold).await?["status"], "completed");
    sidecar.kill()?;
    drop(sidecar);

    // The sidecar of this pod has accepted the uploads now.
    let sidecar = fixture.start().await?;
    assert_eq!(sidecar.task(&uploads[0]).await?["status"], "running");
    sidecar.kill()?;
    drop(sidecar);

    next_pod()?;
    let sidecar = fixture.start().await?;
    assert_eq!(code(&sidecar, &uploads[0]).await?, 404, "the node does not publish snapshots anymore");
    sidecar.kill()?;
    drop(sidecar);
    let (exit, output) = fixture.env("OUTRIGGER_SIDECAR_PRIVATE_DIR", "/proc/none").run_to_exit().await?;
    assert_eq!(exit, 1, "{output}");
    assert!(output.contains("--private-dir (OUTRIGGER_SIDECAR_PRIVATE_DIR)"), "{output}");
    Ok(())
}
