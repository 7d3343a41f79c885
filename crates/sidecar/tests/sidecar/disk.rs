//! ENG-19 to ENG-21: what becomes of tasks when the disk is full, read-only, broken or silent.

use std::fs;

use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::crash::{ID, state};
use crate::engine::endless;
use crate::ground::{Ground, SOON, new_id};
use crate::node;
use crate::volume::Volume;

/// ENG-21: a full disk refuses tasks, keeps what there is, and is over when it is over.
pub async fn a_full_disk_refuses_and_loses_nothing(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let _volume = Volume::of(&ground.home, "2m")?;
    let sidecar = ground.start().await?;
    let running = sidecar.submit(None, "await-condition", &endless()).await?;
    fs::write(ground.home.join("ballast"), vec![1; 4 << 20]).expect_err("the disk is full");
    let large = json!({"type": "mark-ready", "params": {"a": "x".repeat(200_000)}}).to_string();
    let refused = sidecar.ask("POST", "/v0/tasks", &large).await?;
    assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert_eq!(sidecar.task(&running).await?["status"], "running");
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200, "a restart would not help");
    fs::remove_file(ground.home.join("ballast"))?;
    sidecar.done("mark-ready", &json!({})).await?;
    drop(sidecar);
    Ok(())
}

/// Scenario 32 and ENG-21: tasks on a full disk fail with what is wrong, change nothing, and are done when there is room.
pub async fn a_full_disk_fails_tasks_that_change_nothing(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    // Of the settings alone: what a ledger does on a full disk is another test.
    let _volume = Volume::of(&ground.home.join("config"), "256k")?;
    let sidecar = ground.start().await?;
    assert_eq!(sidecar.done("config-apply", &json!({"mode": "full"})).await?["status"], "completed");
    let before = state(&ground, false);
    let ballast = ground.home.join("config/ballast");
    fs::write(&ballast, vec![1; 1 << 20]).expect_err("the disk is full");
    let (apply, id) = (json!({"mode": "archive"}), ID);
    sidecar.submit(Some(id), "config-apply", &apply).await?;
    let failed = sidecar.ended(id).await?;
    let error = failed["error"].as_str().unwrap_or_default();
    assert!(failed["status"] == "failed" && error.contains("No space left"), "{failed}");
    fs::remove_file(&ballast)?;
    assert_eq!(state(&ground, false), before, "nothing changed");
    sidecar.submit(Some(id), "config-apply", &apply).await?;
    let done = sidecar.ended(id).await?;
    assert_eq!((&done["status"], &done["run"]), (&json!("completed"), &json!(2)), "{done}");
    Ok(())
}

/// ENG-20: a start on a volume that is read-only says so in one line.
pub async fn a_read_only_volume_is_told_at_the_start_and_nothing_is_lost(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let volume = Volume::of(&ground.home, "3m")?;
    let sidecar = ground.start().await?;
    let done = sidecar.submit(None, "mark-ready", &json!({})).await?;
    sidecar.ended(&done).await?;
    sidecar.stop(SOON)?;
    drop(sidecar);
    volume.read_only(true)?;
    let (code, said) = ground.ended().await?;
    let line = said.lines().last().unwrap_or_default();
    assert!(code == 1 && (line.contains("SEI_HOME") || line.contains("sidecar.db")), "{code}: {said}");
    volume.read_only(false)?;
    let sidecar = ground.start().await?;
    assert_eq!(sidecar.task(&done).await?["status"], "completed", "it is there as it was");
    let again = sidecar.done("mark-ready", &json!({})).await?;
    assert_eq!(again["status"], "completed");
    Ok(())
}

/// ENG-19, ENG-20: a disk that breaks under a sidecar is read-only from then on. What is there can be read, nothing else is taken,
/// and what ended meanwhile is not told as ended; on the repaired disk everything goes on.
pub async fn a_read_only_volume_under_a_running_sidecar_is_told_and_nothing_is_lost(
    cx: Context,
) -> TestResult {
    let ground = Ground::new(&cx)?;
    let disk = Volume::disk(&ground.home, &ground.site.dir().join("disk"))?;
    let sidecar = ground.start().await?;
    let done = sidecar.submit(None, "mark-ready", &json!({})).await?;
    let completed = sidecar.ended(&done).await?;
    // Nobody has looked since it was stored: whoever looks first does so on the broken disk.
    let awaits = sidecar.submit(None, "await-condition", &endless()).await?;
    disk.breaks()?;
    let new = json!({"id": new_id(), "type": "mark-not-ready"}).to_string();
    for (method, path, body) in
        [("POST", "/v0/tasks", new.as_str()), ("DELETE", &format!("/v0/tasks/{done}"), "")]
    {
        let refused = sidecar.ask(method, path, body).await?;
        assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")), "{method}: {refused:?}");
        assert!(refused.body.contains("the ledger cannot be used"), "{refused:?}");
    }
    // The condition comes true.
    let _rpc = node::rpc(ground.rpc, node::status).await?;
    wait::until("an end that cannot be stored", SOON, || async {
        let log = sidecar.log();
        if log.contains("its end cannot be stored") { Ok(()) } else { Err(log) }
    })
    .await?;
    assert_eq!(sidecar.task(&done).await?, completed, "it is there as it was");
    assert_eq!(sidecar.task(&awaits).await?["status"], "running", "its end is not stored");
    assert_eq!(sidecar.get("/v0/tasks").await?.json().as_array().map(Vec::len), Some(2));
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200, "a restart would not help");
    assert!(sidecar.is_ready().await?, "nothing was held");
    sidecar.stop(SOON)?;
    drop(sidecar);
    let (code, said) = ground.ended().await?;
    assert_eq!(code, 1, "{said}");
    disk.repaired()?;
    let sidecar = ground.start().await?;
    assert_eq!(sidecar.task(&done).await?, completed, "it was not deleted");
    let ended = sidecar.ended(&awaits).await?;
    assert_eq!((&ended["status"], &ended["run"]), (&json!("completed"), &json!(1)), "{ended}");
    assert_eq!(sidecar.done("mark-ready", &json!({})).await?["status"], "completed");
    Ok(())
}

/// A disk that hangs: livez says so, submissions are refused, and what was taken all the same is done when it is over.
pub async fn livez_tells_a_disk_that_hangs(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let disk = Volume::disk(&ground.home, &ground.site.dir().join("disk"))?;
    let sidecar = ground.start().await?;
    disk.freeze()?;
    let id = new_id();
    let body = json!({"id": id, "type": "mark-ready"}).to_string();
    let post = sidecar.ask("POST", "/v0/tasks", &body);
    let live = wait::until("livez to tell", SOON, || async {
        let live = sidecar.get("/v0/livez?verbose=1").await.map_err(|error| error.to_string())?;
        if live.code == 503 { Ok(live) } else { Err(format!("{live:?}")) }
    });
    let (post, live) = tokio::join!(post, live);
    assert_eq!(live?.json()["error"], "the ledger does not answer");
    let post = post?;
    assert_eq!((post.code, post.header("retry-after")), (503, Some("1")), "{post:?}");
    assert_eq!(sidecar.get("/v0/healthz").await?.code, 503, "not ready, and it answers");
    assert_eq!(sidecar.get(&format!("/v0/tasks/{id}")).await?.code, 503, "not 404: nobody knows");
    disk.thaw()?;
    let task = wait::until("the task that was taken after all", SOON, || async {
        let answer = sidecar.get(&format!("/v0/tasks/{id}")).await.map_err(|error| error.to_string())?;
        if answer.code == 200 && answer.json()["status"] == "completed" {
            Ok(answer.json())
        } else {
            Err(format!("{answer:?}"))
        }
    })
    .await?;
    assert_eq!(task["run"], json!(1));
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200);
    sidecar.stop(SOON)?;
    Ok(())
}
