//! ENG-01 to ENG-25: what becomes of tasks, also when the process, the disk or the caller does not keep its part.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::ground::{Ground, SOON, Sidecar, new_id};

/// Runs until it is cancelled: nobody answers at the node's RPC.
pub fn endless() -> Value {
    json!({"condition": "height", "targetHeight": 5})
}

/// ENG-01 to ENG-06: the decision table, with the same and with other parameters and kinds.
pub async fn the_same_id_is_the_same_task_and_only_what_failed_is_begun_again(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    let (runs, done, fails) = (new_id(), new_id(), new_id());
    sidecar.submit(Some(&runs), "await-condition", &endless()).await?;
    sidecar.submit(Some(&done), "mark-ready", &json!({})).await?;
    sidecar.submit(Some(&fails), "await-condition", &json!({"condition": "x"})).await?;
    let before = [sidecar.task(&runs).await?, sidecar.ended(&done).await?];
    for (kind, params) in [("await-condition", endless()), ("mark-ready", json!({"other": 1}))] {
        for id in [&runs, &done] {
            assert_eq!(sidecar.submit(Some(id), kind, &params).await?, **id);
        }
    }
    assert_eq!([sidecar.task(&runs).await?, sidecar.task(&done).await?], before, "nothing happened to them");
    let first = sidecar.ended(&fails).await?;
    assert_eq!((&first["status"], &first["run"]), (&json!("failed"), &json!(1)));
    // S22: what failed takes kind and parameters of the new submission.
    sidecar.submit(Some(&fails), "await-condition", &json!({"condition": "y"})).await?;
    let second = sidecar.ended(&fails).await?;
    assert_eq!((&second["run"], &second["params"]), (&json!(2), &json!({"condition": "y"})));
    assert!(second["submittedAt"].as_str() > first["completedAt"].as_str(), "{first} {second}");
    sidecar.submit(Some(&fails), "mark-ready", &json!({})).await?;
    let third = sidecar.ended(&fails).await?;
    assert_eq!(
        (&third["run"], &third["status"], &third["type"]),
        (&json!(3), &json!("completed"), &json!("mark-ready"))
    );
    assert!(third.get("error").is_none() && third.get("params").is_none(), "{third}");
    Ok(())
}

/// ENG-07: a hundred at once.
pub async fn a_hundred_submissions_of_one_id_run_once(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    let id = new_id();
    let body = json!({"id": id, "type": "await-condition", "params": {"condition": "x"}}).to_string();
    let all = (0..100).map(|_| sidecar.ask("POST", "/v0/tasks", &body));
    for answer in futures_util::future::try_join_all(all).await? {
        assert_eq!(answer.code, 201, "{answer:?}");
    }
    let task = sidecar.ended(&id).await?;
    // Each may have come after the one before had failed; none while another ran.
    let runs = task["run"].as_u64().unwrap_or_default();
    let begun = begun(&sidecar);
    assert_eq!(runs, begun, "it ran as often as it was begun");
    let endless_id = new_id();
    let body = json!({"id": endless_id, "type": "await-condition", "params": endless()}).to_string();
    let all = (0..100).map(|_| sidecar.ask("POST", "/v0/tasks", &body));
    for answer in futures_util::future::try_join_all(all).await? {
        assert_eq!(answer.code, 201, "{answer:?}");
    }
    assert_eq!(sidecar.task(&endless_id).await?["run"], json!(1));
    until_begun(&sidecar, begun + 1).await
}

/// ENG-08 to ENG-12: order and length of the list, by times that all differ.
pub async fn the_newest_hundred_are_listed_the_newest_first(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    let mut given = Vec::new();
    for _ in 0..120 {
        given.push(sidecar.submit(None, "mark-ready", &json!({})).await?);
    }
    let listed = sidecar.get("/v0/tasks").await?.json();
    let listed: Vec<&str> =
        listed.as_array().into_iter().flatten().filter_map(|task| task["id"].as_str()).collect();
    let newest: Vec<&str> = given.iter().rev().take(100).map(String::as_str).collect();
    assert_eq!(listed, newest);
    Ok(())
}

/// ENG-13 to ENG-16: killed before the row, after it, in the task and after it: what was answered is not lost, and what was
/// done is not done again.
pub async fn what_was_answered_survives_a_kill(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    for round in 0..5 {
        let sidecar = ground.start().await?;
        let running = sidecar.submit(None, "await-condition", &endless()).await?;
        let failed =
            sidecar.submit(None, "await-condition", &json!({"condition": "x", "round": round})).await?;
        let failed_before = sidecar.ended(&failed).await?;
        let before = sidecar.task(&running).await?;
        // Killed with submissions under way: those that were answered are there afterwards.
        let bodies: Vec<String> =
            (0..50).map(|_| json!({"type": "mark-ready", "id": new_id()}).to_string()).collect();
        let answered = submit_until_killed(&sidecar, &bodies, round * 10).await;
        drop(sidecar);
        let sidecar = ground.start().await?;
        assert_eq!(sidecar.task(&failed).await?, failed_before, "what had ended is as it was");
        let after = sidecar.task(&running).await?;
        assert_eq!(after, before, "same run, same parameters, same time");
        for id in &answered {
            let task = sidecar.ended(id).await?;
            assert_eq!((&task["run"], &task["status"]), (&json!(1), &json!("completed")), "{task}");
        }
        assert_eq!(sidecar.ask("DELETE", &format!("/v0/tasks/{running}"), "").await?.code, 204);
    }
    Ok(())
}

/// Submits all at once, and kills the sidecar when so many were answered.
async fn submit_until_killed(sidecar: &Sidecar, bodies: &[String], most: usize) -> BTreeSet<String> {
    let answered = tokio::sync::Semaphore::new(0);
    let submissions = bodies.iter().map(|body| async {
        let answer = sidecar.ask("POST", "/v0/tasks", body).await;
        answered.add_permits(1);
        answer
    });
    let kill = async {
        let enough = answered.acquire_many(u32::try_from(most).expect("few")).await;
        drop(enough);
        sidecar.kill()
    };
    let (answers, killed) = tokio::join!(futures_util::future::join_all(submissions), kill);
    killed.expect("it was killed");
    let taken =
        answers.into_iter().flatten().filter(|answer| answer.code == 201 && answer.body.ends_with("}\n"));
    taken.map(|answer| answer.json()["id"].as_str().unwrap_or_default().to_owned()).collect()
}

/// ENG-17, S19: SIGTERM in a long task: it ends well and soon, and the task goes on afterwards.
pub async fn s19_a_shutdown_waits_and_the_task_goes_on_after_it(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let running = sidecar.submit(None, "await-condition", &endless()).await?;
    let before = sidecar.task(&running).await?;
    let begin = Instant::now();
    sidecar.stop(Duration::from_secs(28))?;
    assert!(begin.elapsed() < Duration::from_secs(10), "it took {:?}", begin.elapsed());
    assert!(!ground.home.join("sidecar.db-wal").exists(), "the log was put into the ledger");
    let sidecar = ground.start().await?;
    assert_eq!(sidecar.task(&running).await?, before);
    Ok(())
}

/// How many tasks have begun, by the log.
fn begun(sidecar: &Sidecar) -> u64 {
    sidecar.log().matches("\"begun\"").count() as u64
}

/// A task is answered before it begins: who counts begins, or kills, waits for it.
async fn until_begun(sidecar: &Sidecar, wanted: u64) -> TestResult {
    wait::until("so many begins", SOON, || async {
        let begun = begun(sidecar);
        if begun == wanted { Ok(()) } else { Err(format!("{begun}, and not {wanted}")) }
    })
    .await?;
    Ok(())
}

/// ENG-18: DELETE cancels, also what was recovered; the id is free again at once.
pub async fn a_deleted_task_ends_and_its_id_is_free(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let id = sidecar.submit(None, "await-condition", &endless()).await?;
    until_begun(&sidecar, 1).await?;
    sidecar.kill()?;
    let sidecar = ground.start().await?;
    for round in 0..20 {
        assert_eq!(sidecar.ask("DELETE", &format!("/v0/tasks/{id}"), "").await?.code, 204, "{round}");
        sidecar.submit(Some(&id), "await-condition", &endless()).await?;
        assert_eq!(sidecar.task(&id).await?["run"], json!(1), "{round}");
    }
    assert_eq!(sidecar.ask("DELETE", &format!("/v0/tasks/{id}"), "").await?.code, 204);
    wait::until("as many ends as begins", SOON, || async {
        let (begun, cancelled) = (begun(&sidecar), sidecar.log().matches("\"cancelled\"").count() as u64);
        // One was ended by the kill.
        if begun == cancelled + 1 { Ok(()) } else { Err(format!("{begun} begun, {cancelled} cancelled")) }
    })
    .await?;
    assert_eq!(sidecar.get(&format!("/v0/tasks/{id}")).await?.code, 404, "what ended late left nothing");
    Ok(())
}

/// A caller who hangs up takes no task along.
pub async fn who_hangs_up_leaves_the_task(cx: Context) -> TestResult {
    use tokio::io::AsyncWriteExt;
    let sidecar = Ground::new(&cx)?.start().await?;
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
    wait::until("no task that runs", SOON, || async {
        let tasks = sidecar.get("/v0/tasks").await.map_err(|error| error.to_string())?.json();
        let running: Vec<&Value> =
            tasks.as_array().into_iter().flatten().filter(|task| task["status"] == "running").collect();
        if running.is_empty() { Ok(()) } else { Err(format!("{running:?}")) }
    })
    .await?;
    Ok(())
}

/// ENG-19, ENG-20, S7: a store that fails is told as such: never as "not found", and never as "nothing there".
pub async fn s07_a_ledger_that_fails_is_503_everywhere(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let done = sidecar.submit(None, "mark-ready", &json!({})).await?;
    sidecar.ended(&done).await?;
    // Somebody else holds the ledger for longer than is waited.
    let other = rusqlite::Connection::open(ground.home.join("sidecar.db"))?;
    other.execute_batch("BEGIN EXCLUSIVE; DELETE FROM task_results WHERE 0;")?;
    let refused = sidecar.ask("POST", "/v0/tasks", r#"{"type":"mark-ready"}"#).await?;
    assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert!(refused.json()["error"].is_string());
    let kept = sidecar.ask("DELETE", &format!("/v0/tasks/{done}"), "").await?;
    assert_eq!((kept.code, kept.header("retry-after")), (503, Some("1")), "{kept:?}");
    assert_eq!(sidecar.get("/v0/healthz").await?.code, 200, "readiness does not depend on the ledger");
    other.execute_batch("ROLLBACK")?;
    assert_eq!(sidecar.task(&done).await?["status"], "completed", "it was not deleted");
    sidecar.done("mark-ready", &json!({})).await?;
    Ok(())
}

/// ENG-22: a damaged file ends the start with one line that says what to do.
pub async fn a_damaged_ledger_is_told_with_its_cure(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    std::fs::write(ground.home.join("sidecar.db"), "no database at all. ".repeat(100))?;
    let (code, said) = ground.ended().await?;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("sidecar.db is damaged") && said.contains("move it away"), "{said}");
    Ok(())
}

/// ENG-23: a torn log after a crash: what was committed is there.
pub async fn a_torn_log_loses_only_what_was_not_answered(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let done = sidecar.submit(None, "mark-ready", &json!({})).await?;
    sidecar.ended(&done).await?;
    sidecar.kill()?;
    let log = ground.home.join("sidecar.db-wal");
    let mut content = std::fs::read(&log)?;
    content.extend(vec![7; 3000]);
    std::fs::write(&log, content)?;
    let sidecar = ground.start().await?;
    assert_eq!(sidecar.task(&done).await?["status"], "completed");
    Ok(())
}

/// ENG-24, S8: so many tasks and no more, and those that only wait hold up nobody.
pub async fn s08_tasks_under_way_are_bounded(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?
        .env("OUTRIGGER_MAX_TASKS", "5")
        .env("OUTRIGGER_MAX_WORKING_TASKS", "1")
        .start()
        .await?;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(sidecar.submit(None, "await-condition", &endless()).await?);
    }
    sidecar.done("mark-ready", &json!({})).await?;
    sidecar.done("reset-data", &json!({})).await?;
    ids.push(sidecar.submit(None, "await-condition", &endless()).await?);
    let refused = sidecar.ask("POST", "/v0/tasks", r#"{"type":"mark-ready"}"#).await?;
    assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert!(refused.body.contains("--max-tasks"), "{refused:?}");
    assert_eq!(
        sidecar.submit(Some(&ids[0]), "await-condition", &endless()).await?,
        ids[0],
        "a repeated one is taken"
    );
    assert_eq!(sidecar.ask("DELETE", &format!("/v0/tasks/{}", ids[0]), "").await?.code, 204);
    sidecar.done("mark-ready", &json!({})).await?;
    Ok(())
}
