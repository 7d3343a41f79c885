//! HOLD-01 to HOLD-08: seid is held back when it should be, also by what a process left behind.

use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::ground::{Ground, new_id};

/// Writes rows as a process would have left them: kind, status and second of submission.
fn left_behind(ground: &Ground, rows: &[(&str, &str, u32)]) -> rusqlite::Result<Vec<String>> {
    let ledger = rusqlite::Connection::open(ground.home.join("sidecar.db"))?;
    ledger.execute("DELETE FROM task_results", [])?;
    rows.iter()
        .map(|(kind, status, second)| {
            let id = new_id();
            let at = format!("2026-05-18T10:00:{second:02}.000000000Z");
            let ended = (*status != "running").then_some(at.clone());
            ledger.execute(
                "INSERT INTO task_results (id, type, status, submitted_at, completed_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                (&id, kind, status, &at, ended),
            )?;
            Ok(id)
        })
        .collect()
}

/// Every order of a stranded release and a hold, in every state of the hold; twice over a restart.
pub async fn a_stranded_release_never_ends_a_hold_that_is_not_older(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    ground.start().await?.stop(crate::ground::SOON)?;
    for hold in ["running", "failed", "completed"] {
        for (release_at, hold_at) in [(1, 2), (2, 2), (3, 2)] {
            let rows = [("mark-ready", "running", release_at), ("mark-not-ready", hold, hold_at)];
            let ids = left_behind(&ground, &rows)?;
            // A hold that is done again deletes all releases; one that had ended leaves those after it.
            let released = release_at > hold_at && hold != "running";
            for restart in 0..2 {
                let sidecar = ground.start().await?;
                let at = format!("hold {hold}, release at {release_at}, hold at {hold_at}, start {restart}");
                let release = sidecar.get(&format!("/v0/tasks/{}", ids[0])).await?;
                if released {
                    let task = sidecar.ended(&ids[0]).await?;
                    assert_eq!(task["status"], "completed", "{at}: {task}");
                    // The release counts for the process that does it.
                    assert_eq!(sidecar.is_ready().await?, restart == 0, "{at}");
                } else if hold == "running" {
                    assert_eq!(release.code, 404, "{at}: {release:?}");
                } else {
                    let task = sidecar.ended(&ids[0]).await?;
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
                        "{at}: before anybody can connect"
                    );
                }
                sidecar.stop(crate::ground::SOON)?;
            }
        }
    }
    Ok(())
}

/// S17: releases and holds at once: the end is one of the two, and the ledger says which.
pub async fn s17_a_live_race_leaves_no_torn_state(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    for round in 0..20 {
        let ready = sidecar.ask("POST", "/v0/tasks", r#"{"type":"mark-ready"}"#);
        let hold = sidecar.ask("POST", "/v0/tasks", r#"{"type":"mark-not-ready"}"#);
        let (ready, hold) = tokio::try_join!(ready, hold)?;
        let hold = sidecar.ended(hold.json()["id"].as_str().unwrap_or_default()).await?;
        assert_eq!(hold["status"], "completed", "{round}");
        let id = ready.json()["id"].as_str().unwrap_or_default().to_owned();
        let release: Option<Value> = match sidecar.get(&format!("/v0/tasks/{id}")).await?.code {
            404 => None,
            _ => Some(sidecar.ended(&id).await?),
        };
        let released = release.as_ref().is_some_and(|task| task["status"] == "completed");
        assert_eq!(sidecar.is_ready().await?, released, "{round}: {release:?} {hold}");
    }
    sidecar.done("mark-not-ready", &json!({})).await?;
    assert!(!sidecar.is_ready().await?);
    sidecar.done("mark-ready", &json!({})).await?;
    assert!(sidecar.is_ready().await?, "a later release ends the hold");
    Ok(())
}

/// Readiness is not kept: every process begins with a hold, and a completed release is not done again.
pub async fn every_process_begins_with_a_hold(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    sidecar.done("mark-ready", &json!({})).await?;
    sidecar.stop(crate::ground::SOON)?;
    let sidecar = ground.start().await?;
    assert!(!sidecar.is_ready().await?);
    Ok(())
}
