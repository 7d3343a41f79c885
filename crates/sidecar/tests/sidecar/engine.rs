//! The task lifecycle, also across crashes, lost connections and ledger failures.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Sidecar, TIMEOUT, new_id};

/// Parameters of a task that runs until it is cancelled: the node's RPC does not respond.
pub fn endless_params() -> Value {
    json!({"condition": "height", "targetHeight": 5})
}

/// Resubmission in every state, with the same and with other parameters and types.
pub async fn resubmission_restarts_only_failed_tasks(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    let (runs, done, fails) = (new_id(), new_id(), new_id());
    sidecar.submit(Some(&runs), "await-condition", &endless_params()).await?;
    sidecar.submit(Some(&done), "mark-ready", &json!({})).await?;
    sidecar.submit(Some(&fails), "await-condition", &json!({"condition": "x"})).await?;
    let before = [sidecar.task(&runs).await?, sidecar.wait_finished(&done).await?];
    for (kind, params) in [("await-condition", endless_params()), ("mark-ready", json!({"other": 1}))] {
        for id in [&runs, &done] {
            assert_eq!(sidecar.submit(Some(id), kind, &params).await?, **id);
        }
    }
    assert_eq!([sidecar.task(&runs).await?, sidecar.task(&done).await?], before, "unchanged");
    let first = sidecar.wait_finished(&fails).await?;
    assert_eq!((&first["status"], &first["run"]), (&json!("failed"), &json!(1)));
    // A failed task takes the type and parameters of the new submission.
    sidecar.submit(Some(&fails), "await-condition", &json!({"condition": "y"})).await?;
    let second = sidecar.wait_finished(&fails).await?;
    assert_eq!((&second["run"], &second["params"]), (&json!(2), &json!({"condition": "y"})));
    assert!(second["submittedAt"].as_str() > first["completedAt"].as_str(), "{first} {second}");
    sidecar.submit(Some(&fails), "mark-ready", &json!({})).await?;
    let third = sidecar.wait_finished(&fails).await?;
    assert_eq!(
        (&third["run"], &third["status"], &third["type"]),
        (&json!(3), &json!("completed"), &json!("mark-ready"))
    );
    assert!(third.get("error").is_none() && third.get("params").is_none(), "{third}");
    Ok(())
}

/// 100 concurrent submissions of one ID.
pub async fn concurrent_submissions_of_one_id_run_once(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    let id = new_id();
    let body = json!({"id": id, "type": "await-condition", "params": {"condition": "x"}}).to_string();
    let all = (0..100).map(|_| sidecar.request("POST", "/v0/tasks", &body));
    for response in futures_util::future::try_join_all(all).await? {
        assert_eq!(response.code, 201, "{response:?}");
    }
    let task = sidecar.wait_finished(&id).await?;
    // A submission may arrive after the previous run failed, but never starts a concurrent run.
    let runs = task["run"].as_u64().unwrap_or_default();
    let started = started(&sidecar);
    assert_eq!(runs, started, "every started run is counted");
    let endless_id = new_id();
    let body = json!({"id": endless_id, "type": "await-condition", "params": endless_params()}).to_string();
    let all = (0..100).map(|_| sidecar.request("POST", "/v0/tasks", &body));
    for response in futures_util::future::try_join_all(all).await? {
        assert_eq!(response.code, 201, "{response:?}");
    }
    assert_eq!(sidecar.task(&endless_id).await?["run"], json!(1));
    wait_started(&sidecar, started + 1).await
}

/// Order and length of the list; all submission times differ.
pub async fn list_returns_newest_100_tasks_first(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    let mut submitted = Vec::new();
    for _ in 0..120 {
        submitted.push(sidecar.submit(None, "mark-ready", &json!({})).await?);
    }
    let listed = sidecar.get("/v0/tasks").await?.json();
    let listed: Vec<&str> =
        listed.as_array().into_iter().flatten().filter_map(|task| task["id"].as_str()).collect();
    let newest: Vec<&str> = submitted.iter().rev().take(100).map(String::as_str).collect();
    assert_eq!(listed, newest);
    Ok(())
}

/// SIGKILL before, during and after tasks: no accepted task is lost, and no finished task runs again.
pub async fn accepted_tasks_survive_sigkill(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    for round in 0..5 {
        let sidecar = fixture.start().await?;
        let running = sidecar.submit(None, "await-condition", &endless_params()).await?;
        let failed =
            sidecar.submit(None, "await-condition", &json!({"condition": "x", "round": round})).await?;
        let failed_before = sidecar.wait_finished(&failed).await?;
        let before = sidecar.task(&running).await?;
        // Killed with submissions in progress: the accepted ones exist afterwards.
        let bodies: Vec<String> =
            (0..50).map(|_| json!({"type": "mark-ready", "id": new_id()}).to_string()).collect();
        let answered = submit_until_killed(&sidecar, &bodies, round * 10).await;
        drop(sidecar);
        let sidecar = fixture.start().await?;
        assert_eq!(sidecar.task(&failed).await?, failed_before, "finished tasks are unchanged");
        let after = sidecar.task(&running).await?;
        assert_eq!(after, before, "same run, same parameters, same time");
        for id in &answered {
            let task = sidecar.wait_finished(id).await?;
            assert_eq!((&task["run"], &task["status"]), (&json!(1), &json!("completed")), "{task}");
        }
        assert_eq!(sidecar.request("DELETE", &format!("/v0/tasks/{running}"), "").await?.code, 204);
    }
    Ok(())
}

/// Submits all requests concurrently and kills the sidecar after a number of responses.
async fn submit_until_killed(
    sidecar: &Sidecar,
    bodies: &[String],
    responses_before_kill: usize,
) -> BTreeSet<String> {
    let answered = tokio::sync::Semaphore::new(0);
    let submissions = bodies.iter().map(|body| async {
        let response = sidecar.request("POST", "/v0/tasks", body).await;
        answered.add_permits(1);
        response
    });
    let kill = async {
        let enough = answered.acquire_many(u32::try_from(responses_before_kill).expect("few")).await;
        drop(enough);
        sidecar.kill()
    };
    let (responses, killed) = tokio::join!(futures_util::future::join_all(submissions), kill);
    killed.expect("the kill succeeds");
    let accepted = responses
        .into_iter()
        .flatten()
        .filter(|response| response.code == 201 && response.body.ends_with("}\n"));
    accepted.map(|response| response.json()["id"].as_str().unwrap_or_default().to_owned()).collect()
}

/// SIGTERM during a long task: the process exits soon and successfully, and the next one resumes the task.
pub async fn graceful_shutdown_resumes_task_at_next_start(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let running = sidecar.submit(None, "await-condition", &endless_params()).await?;
    let before = sidecar.task(&running).await?;
    let start = Instant::now();
    sidecar.stop(Duration::from_secs(28))?;
    assert!(start.elapsed() < Duration::from_secs(10), "took {:?}", start.elapsed());
    assert!(!fixture.home.join("sidecar.db-wal").exists(), "the WAL was checkpointed");
    let sidecar = fixture.start().await?;
    assert_eq!(sidecar.task(&running).await?, before);
    Ok(())
}

/// Counts started tasks in the log.
fn started(sidecar: &Sidecar) -> u64 {
    sidecar.log().matches("\"task started\"").count() as u64
}

/// Waits for the start of tasks: the response is sent before the task starts.
async fn wait_started(sidecar: &Sidecar, expected: u64) -> TestResult {
    wait::until("tasks to start", TIMEOUT, || async {
        let started = started(sidecar);
        if started == expected { Ok(()) } else { Err(format!("{started} instead of {expected}")) }
    })
    .await?;
    Ok(())
}

/// DELETE cancels tasks, also recovered ones, and the ID is reusable at once.
pub async fn deleted_task_is_cancelled_and_id_is_reusable(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let id = sidecar.submit(None, "await-condition", &endless_params()).await?;
    wait_started(&sidecar, 1).await?;
    sidecar.kill()?;
    let sidecar = fixture.start().await?;
    for round in 0..20 {
        assert_eq!(sidecar.request("DELETE", &format!("/v0/tasks/{id}"), "").await?.code, 204, "{round}");
        sidecar.submit(Some(&id), "await-condition", &endless_params()).await?;
        assert_eq!(sidecar.task(&id).await?["run"], json!(1), "{round}");
    }
    assert_eq!(sidecar.request("DELETE", &format!("/v0/tasks/{id}"), "").await?.code, 204);
    wait::until("all started tasks to be cancelled", TIMEOUT, || async {
        let (started, cancelled) =
            (started(&sidecar), sidecar.log().matches("\"task cancelled\"").count() as u64);
        // One was killed.
        if started == cancelled + 1 {
            Ok(())
        } else {
            Err(format!("{started} started, {cancelled} cancelled"))
        }
    })
    .await?;
    assert_eq!(sidecar.get(&format!("/v0/tasks/{id}")).await?.code, 404, "the cancelled task left no row");
    Ok(())
}

/// A client disconnect does not cancel the submission.
pub async fn client_disconnect_does_not_cancel_task(cx: Context) -> TestResult {
    use tokio::io::AsyncWriteExt;
    let sidecar = Fixture::new(&cx)?.start().await?;
    let mut ids = Vec::new();
    for _ in 0..30 {
        let id = new_id();
        let body = json!({"id": id, "type": "mark-ready"}).to_string();
        let request =
            format!("POST /v0/tasks HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", sidecar.port)).await?;
        stream.write_all(request.as_bytes()).await?;
        drop(stream);
        ids.push(id);
    }
    wait::until("all tasks to finish", TIMEOUT, || async {
        let tasks = sidecar.get("/v0/tasks").await.map_err(|error| error.to_string())?.json();
        let running: Vec<&Value> =
            tasks.as_array().into_iter().flatten().filter(|task| task["status"] == "running").collect();
        if running.is_empty() { Ok(()) } else { Err(format!("{running:?}")) }
    })
    .await?;
    Ok(())
}

/// A ledger failure is 503, never 404 and never an empty list.
pub async fn locked_ledger_returns_503(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let done = sidecar.submit(None, "mark-ready", &json!({})).await?;
    sidecar.wait_finished(&done).await?;
    // Another process locks the ledger longer than the busy timeout.
    let other = rusqlite::Connection::open(fixture.home.join("sidecar.db"))?;
    other.execute_batch("BEGIN EXCLUSIVE; DELETE FROM task_results WHERE 0;")?;
    let refused = sidecar.request("POST", "/v0/tasks", r#"{"type":"mark-ready"}"#).await?;
    assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert!(refused.json()["error"].is_string());
    let kept = sidecar.request("DELETE", &format!("/v0/tasks/{done}"), "").await?;
    assert_eq!((kept.code, kept.header("retry-after")), (503, Some("1")), "{kept:?}");
    assert_eq!(sidecar.get("/v0/healthz").await?.code, 200, "readiness does not depend on the ledger");
    other.execute_batch("ROLLBACK")?;
    assert_eq!(sidecar.task(&done).await?["status"], "completed", "not deleted");
    sidecar.run_task("mark-ready", &json!({})).await?;
    Ok(())
}

/// A corrupt file fails the startup with a line that says what to do.
pub async fn corrupt_ledger_fails_startup_with_remedy(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    std::fs::write(fixture.home.join("sidecar.db"), "no database at all. ".repeat(100))?;
    let (code, output) = fixture.run_to_exit().await?;
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("sidecar.db is corrupt") && output.contains("move it away"), "{output}");
    Ok(())
}

/// A torn WAL after a crash: committed tasks exist.
pub async fn torn_wal_keeps_committed_tasks(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let done = sidecar.submit(None, "mark-ready", &json!({})).await?;
    sidecar.wait_finished(&done).await?;
    sidecar.kill()?;
    let wal = fixture.home.join("sidecar.db-wal");
    let mut content = std::fs::read(&wal)?;
    content.extend(vec![7; 3000]);
    std::fs::write(&wal, content)?;
    let sidecar = fixture.start().await?;
    assert_eq!(sidecar.task(&done).await?["status"], "completed");
    Ok(())
}

/// The limits on tasks in progress and working tasks; waiting tasks do not block others.
pub async fn tasks_in_progress_are_limited(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?
        .env("OUTRIGGER_MAX_TASKS", "5")
        .env("OUTRIGGER_MAX_WORKING_TASKS", "1")
        .start()
        .await?;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(sidecar.submit(None, "await-condition", &endless_params()).await?);
    }
    sidecar.run_task("mark-ready", &json!({})).await?;
    sidecar.run_task("reset-data", &json!({})).await?;
    ids.push(sidecar.submit(None, "await-condition", &endless_params()).await?);
    let refused = sidecar.request("POST", "/v0/tasks", r#"{"type":"mark-ready"}"#).await?;
    assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert!(refused.body.contains("--max-tasks"), "{refused:?}");
    assert_eq!(
        sidecar.submit(Some(&ids[0]), "await-condition", &endless_params()).await?,
        ids[0],
        "a repeated submission is accepted"
    );
    assert_eq!(sidecar.request("DELETE", &format!("/v0/tasks/{}", ids[0]), "").await?.code, 204);
    sidecar.run_task("mark-ready", &json!({})).await?;
    Ok(())
}
