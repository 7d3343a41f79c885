//! Holds (`mark-not-ready`) and releases (`mark-ready`), also across restarts.

use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, new_id};

/// Writes rows as a killed process leaves them: type, status and second of submission.
fn write_stranded(fixture: &Fixture, rows: &[(&str, &str, u32)]) -> rusqlite::Result<Vec<String>> {
    let ledger = rusqlite::Connection::open(fixture.home.join("sidecar.db"))?;
    ledger.execute("DELETE FROM task_results", [])?;
    rows.iter()
        .map(|(task_type, status, second)| {
            let id = new_id();
            let at = format!("2026-05-18T10:00:{second:02}.000000000Z");
            let ended = (*status != "running").then_some(at.clone());
            ledger.execute(
                "INSERT INTO task_results (id, type, status, submitted_at, completed_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                (&id, task_type, status, &at, ended),
            )?;
            Ok(id)
        })
        .collect()
}

/// Every order of a stranded release and a hold, in every state of the hold, across two restarts.
pub async fn stranded_release_never_overrides_a_newer_hold(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?.without_private_dir();
    fixture.start().await?.stop(crate::fixture::TIMEOUT)?;
    for hold in ["running", "failed", "completed"] {
        for (release_at, hold_at) in [(1, 2), (2, 2), (3, 2)] {
            let rows = [("mark-ready", "running", release_at), ("mark-not-ready", hold, hold_at)];
            let ids = write_stranded(&fixture, &rows)?;
            // A hold that runs again deletes all releases; a finished hold leaves later ones.
            let released = release_at > hold_at && hold != "running";
            for restart in 0..2 {
                let sidecar = fixture.start().await?;
                let at = format!("hold {hold}, release at {release_at}, hold at {hold_at}, start {restart}");
                let release = sidecar.get(&format!("/v0/tasks/{}", ids[0])).await?;
                if released {
                    let task = sidecar.wait_finished(&ids[0]).await?;
                    assert_eq!(task["status"], "completed", "{at}: {task}");
                    // Readiness lasts only for the process that ran the release.
                    assert_eq!(sidecar.is_ready().await?, restart == 0, "{at}");
                } else if hold == "running" {
                    assert_eq!(release.code, 404, "{at}: {release:?}");
                } else {
                    let task = sidecar.wait_finished(&ids[0]).await?;
                    assert_eq!(
                        (&task["status"], &task["error"]),
                        (&json!("failed"), &json!("superseded by hold")),
                        "{at}"
                    );
                }
                if !released {
                    assert!(!sidecar.is_ready().await?, "{at}");
                }
                if hold == "running" {
                    assert_eq!(
                        sidecar.task(&ids[1]).await?["status"],
                        "completed",
                        "{at}: before connections are accepted"
                    );
                }
                sidecar.stop(crate::fixture::TIMEOUT)?;
            }
        }
    }
    Ok(())
}

/// Concurrent releases and holds: readiness matches the result in the ledger.
pub async fn concurrent_release_and_hold_are_consistent(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    for round in 0..20 {
        let ready = sidecar.request("POST", "/v0/tasks", r#"{"type":"mark-ready"}"#);
        let hold = sidecar.request("POST", "/v0/tasks", r#"{"type":"mark-not-ready"}"#);
        let (ready, hold) = tokio::try_join!(ready, hold)?;
        let hold = sidecar.wait_finished(hold.json()["id"].as_str().unwrap_or_default()).await?;
        assert_eq!(hold["status"], "completed", "{round}");
        let id = ready.json()["id"].as_str().unwrap_or_default().to_owned();
        let release: Option<Value> = match sidecar.get(&format!("/v0/tasks/{id}")).await?.code {
            404 => None,
            _ => Some(sidecar.wait_finished(&id).await?),
        };
        let released = release.as_ref().is_some_and(|task| task["status"] == "completed");
        assert_eq!(sidecar.is_ready().await?, released, "{round}: {release:?} {hold}");
    }
    sidecar.run_task("mark-not-ready", &json!({})).await?;
    assert!(!sidecar.is_ready().await?);
    sidecar.run_task("mark-ready", &json!({})).await?;
    assert!(sidecar.is_ready().await?, "a later release ends the hold");
    Ok(())
}

/// Readiness is not persisted: every process starts with a hold, and a completed release does not run again.
pub async fn every_process_starts_with_a_hold(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    sidecar.run_task("mark-ready", &json!({})).await?;
    sidecar.stop(crate::fixture::TIMEOUT)?;
    let sidecar = fixture.start().await?;
    assert!(!sidecar.is_ready().await?);
    Ok(())
}
