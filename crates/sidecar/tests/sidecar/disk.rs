//! Full, read-only, failing and hanging disks.

use std::fs;

use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::crash::{ID, state};
use crate::engine::endless_params;
use crate::fake_rpc;
use crate::fixture::{Fixture, TIMEOUT, new_id};
use crate::volume::Volume;

/// A full disk rejects tasks, loses none, and recovers when there is space.
pub async fn full_disk_rejects_tasks_and_loses_none(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let _volume = Volume::tmpfs(&fixture.home, "2m")?;
    let sidecar = fixture.start().await?;
    let running = sidecar.submit(None, "await-condition", &endless_params()).await?;
    fs::write(fixture.home.join("ballast"), vec![1; 4 << 20]).expect_err("the disk is full");
    let large = json!({"type": "mark-ready", "params": {"a": "x".repeat(200_000)}}).to_string();
    let refused = sidecar.request("POST", "/v0/tasks", &large).await?;
    assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert_eq!(sidecar.task(&running).await?["status"], "running");
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200, "a restart would not help");
    fs::remove_file(fixture.home.join("ballast"))?;
    sidecar.run_task("mark-ready", &json!({})).await?;
    drop(sidecar);
    Ok(())
}

/// Tasks fail on a full disk, change nothing, and succeed when there is space.
pub async fn full_disk_fails_tasks_without_side_effects(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    // Only the config directory is full; the test above covers the ledger.
    let _volume = Volume::tmpfs(&fixture.home.join("config"), "256k")?;
    let sidecar = fixture.start().await?;
    assert_eq!(sidecar.run_task("config-apply", &json!({"mode": "full"})).await?["status"], "completed");
    let before = state(&fixture, false);
    let ballast = fixture.home.join("config/ballast");
    fs::write(&ballast, vec![1; 1 << 20]).expect_err("the disk is full");
    let (apply, id) = (json!({"mode": "archive"}), ID);
    sidecar.submit(Some(id), "config-apply", &apply).await?;
    let failed = sidecar.wait_finished(id).await?;
    let error = failed["error"].as_str().unwrap_or_default();
    assert!(failed["status"] == "failed" && error.contains("No space left"), "{failed}");
    fs::remove_file(&ballast)?;
    assert_eq!(state(&fixture, false), before, "unchanged");
    sidecar.submit(Some(id), "config-apply", &apply).await?;
    let done = sidecar.wait_finished(id).await?;
    assert_eq!((&done["status"], &done["run"]), (&json!("completed"), &json!(2)), "{done}");
    Ok(())
}

/// Startup fails on a read-only volume with one line.
pub async fn read_only_volume_fails_startup_and_loses_nothing(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let volume = Volume::tmpfs(&fixture.home, "3m")?;
    let sidecar = fixture.start().await?;
    let done = sidecar.submit(None, "mark-ready", &json!({})).await?;
    sidecar.wait_finished(&done).await?;
    sidecar.stop(TIMEOUT)?;
    drop(sidecar);
    volume.set_read_only(true)?;
    let (code, output) = fixture.run_to_exit().await?;
    let line = output.lines().last().unwrap_or_default();
    assert!(code == 1 && (line.contains("SEI_HOME") || line.contains("sidecar.db")), "{code}: {output}");
    volume.set_read_only(false)?;
    let sidecar = fixture.start().await?;
    assert_eq!(sidecar.task(&done).await?["status"], "completed", "unchanged");
    let again = sidecar.run_task("mark-ready", &json!({})).await?;
    assert_eq!(again["status"], "completed");
    Ok(())
}

/// A disk that fails at runtime becomes read-only: tasks can be read but not submitted, and results are not reported before they
/// are stored. Everything continues on the repaired disk.
pub async fn read_only_volume_at_runtime_returns_503_and_loses_nothing(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let disk = Volume::disk(&fixture.home, &fixture.site.dir().join("disk"))?;
    let sidecar = fixture.start().await?;
    let done = sidecar.submit(None, "mark-ready", &json!({})).await?;
    let completed = sidecar.wait_finished(&done).await?;
    // The row is not read before the disk fails.
    let awaits = sidecar.submit(None, "await-condition", &endless_params()).await?;
    disk.inject_error()?;
    let new = json!({"id": new_id(), "type": "mark-not-ready"}).to_string();
    for (method, path, body) in
        [("POST", "/v0/tasks", new.as_str()), ("DELETE", &format!("/v0/tasks/{done}"), "")]
    {
        let refused = sidecar.request(method, path, body).await?;
        assert_eq!((refused.code, refused.header("retry-after")), (503, Some("1")), "{method}: {refused:?}");
        assert!(refused.body.contains("ledger unavailable"), "{refused:?}");
    }
    // The condition becomes true.
    let _rpc = fake_rpc::serve(fixture.rpc, fake_rpc::synced_node).await?;
    wait::until("a result that cannot be stored", TIMEOUT, || async {
        let log = sidecar.log();
        if log.contains("failed to store task result") { Ok(()) } else { Err(log) }
    })
    .await?;
    assert_eq!(sidecar.task(&done).await?, completed, "unchanged");
    assert_eq!(sidecar.task(&awaits).await?["status"], "running", "its result is not stored");
    assert_eq!(sidecar.get("/v0/tasks").await?.json().as_array().map(Vec::len), Some(2));
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200, "a restart would not help");
    assert!(sidecar.is_ready().await?, "no hold was applied");
    sidecar.stop(TIMEOUT)?;
    drop(sidecar);
    let (code, output) = fixture.run_to_exit().await?;
    assert_eq!(code, 1, "{output}");
    disk.repair()?;
    let sidecar = fixture.start().await?;
    assert_eq!(sidecar.task(&done).await?, completed, "not deleted");
    let ended = sidecar.wait_finished(&awaits).await?;
    assert_eq!((&ended["status"], &ended["run"]), (&json!("completed"), &json!(1)), "{ended}");
    assert_eq!(sidecar.run_task("mark-ready", &json!({})).await?["status"], "completed");
    Ok(())
}

/// A hanging disk: livez fails, submissions return 503, and a submission that was committed anyway runs later.
pub async fn hanging_disk_fails_livez(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let disk = Volume::disk(&fixture.home, &fixture.site.dir().join("disk"))?;
    let sidecar = fixture.start().await?;
    disk.freeze()?;
    let id = new_id();
    let body = json!({"id": id, "type": "mark-ready"}).to_string();
    let post = sidecar.request("POST", "/v0/tasks", &body);
    let live = wait::until("livez to fail", TIMEOUT, || async {
        let live = sidecar.get("/v0/livez?verbose=1").await.map_err(|error| error.to_string())?;
        if live.code == 503 { Ok(live) } else { Err(format!("{live:?}")) }
    });
    let (post, live) = tokio::join!(post, live);
    assert_eq!(live?.json()["error"], "ledger timed out");
    let post = post?;
    assert_eq!((post.code, post.header("retry-after")), (503, Some("1")), "{post:?}");
    assert_eq!(sidecar.get("/v0/healthz").await?.code, 503, "not ready, but it responds");
    assert_eq!(sidecar.get(&format!("/v0/tasks/{id}")).await?.code, 503, "not 404: the state is unknown");
    disk.thaw()?;
    let task = wait::until("the task to complete after all", TIMEOUT, || async {
        let response = sidecar.get(&format!("/v0/tasks/{id}")).await.map_err(|error| error.to_string())?;
        if response.code == 200 && response.json()["status"] == "completed" {
            Ok(response.json())
        } else {
            Err(format!("{response:?}"))
        }
    })
    .await?;
    assert_eq!(task["run"], json!(1));
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200);
    sidecar.stop(TIMEOUT)?;
    Ok(())
}
