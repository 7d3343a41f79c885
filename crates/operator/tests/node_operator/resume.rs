//! Restarts of the operator and conflicting writers: stored plans are resumed, and no action is repeated.

use std::time::Duration;

use api::sidecar_wire::TaskType;
use serde_json::{Value, json};
use testbed::fakes::sidecars::ScriptedOutcome;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, OTHER_IMAGE, TIMEOUT, message, reason};
use crate::history::History;

pub async fn restarted_operator_resumes_the_plan(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let sidecar = fixture.sidecar("full");
    let held = sidecar.on_any_task(ScriptedOutcome::Run);
    let mut operator = fixture.start_operator()?;
    fixture.create("full", |_| {}).await?;
    for task in
        [TaskType::ConfigureGenesis, TaskType::ConfigApply, TaskType::ConfigValidate, TaskType::MarkReady]
    {
        sidecar.wait_submitted(task, TIMEOUT).await?;
        operator.kill()?;
        if task == TaskType::MarkReady {
            held.remove();
        }
        assert_eq!(sidecar.complete(task), 1, "{task}");
        operator = fixture.start_operator()?;
    }
    let node = fixture.wait_ready("full", "it is ready").await?;
    history.entries_of_node(&node).await?;
    assert_eq!(history.plan_ids("full").len(), 1, "the stored plan was executed");
    assert!(fixture.sidecars.journal().duplicates().is_empty(), "a task was submitted twice");
    assert_eq!(
        fixture.started_tasks("full").join(" "),
        "configure-genesis config-apply config-validate mark-ready"
    );
    assert_eq!(history.pod_count("full"), 1);
    let mut written: Vec<String> = fixture.writes()?.into_iter().map(|write| write.resource).collect();
    written.retain(|resource| resource != "seinodes" && resource != "events");
    written.sort();
    assert_eq!(
        written,
        ["configmaps", "networkpolicies", "persistentvolumeclaims", "services", "statefulsets"],
        "each object was written once"
    );
    operator.check_alive()?;
    Ok(())
}

pub async fn operator_killed_during_update_deletes_one_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.kubelets.hold_pods();
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    history
        .first("Pod", "full-0", |entry| crate::history::seid_image(&entry.object) == Some(OTHER_IMAGE))
        .await?;
    operator.kill()?;
    let _operator = fixture.start_operator()?;
    fixture.kubelets.release_pods();
    let node = fixture.wait_ready("full", "it runs the new image").await?;
    history.entries_of_node(&node).await?;
    assert_eq!(history.plan_ids("full").len(), 2);
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    Ok(())
}

pub async fn unknown_task_in_stored_plan_fails_the_plan(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    let held = fixture.sidecar("full").on_task(TaskType::ConfigApply, ScriptedOutcome::Run);
    fixture.create("full", |_| {}).await?;
    fixture.sidecar("full").wait_submitted(TaskType::ConfigApply, TIMEOUT).await?;
    operator.kill()?;
    let stored = fixture.nodes().get("full").await?;
    let mut tasks = stored.status.and_then(|status| status.plan).expect("an active plan").tasks;
    for task in tasks.iter_mut().filter(|task| task.task_type == "config-validate") {
        task.task_type = "unknown-task".into();
    }
    fixture.patch_status("full", json!({ "plan": { "tasks": tasks } })).await?;
    held.remove();
    fixture.sidecar("full").complete(TaskType::ConfigApply);
    let _operator = fixture.start_operator()?;
    let node = fixture.wait_failed("full").await?;
    let status = node.status.unwrap_or_default();
    assert!(message(&status, "Ready").contains("unknown-task"), "{}", message(&status, "Ready"));
    assert_eq!(status.last_failed_plan.map(|failed| failed.task.task_type).as_deref(), Some("unknown-task"));
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    fixture.wait_ready("full", "an edit fixes it").await?;
    Ok(())
}

pub async fn conflicting_status_writers_leave_one_plan(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    let nodes = fixture.nodes();
    let other_writer = tokio::spawn(async move {
        let mut count = 0_u64;
        loop {
            count += 1;
            let patch = json!({ "status": { "planStep": format!("overwritten {count}") } });
            let patch = kube::api::Patch::Merge(patch);
            // Fails until the node is created.
            let _ = nodes.patch_status("full", &kube::api::PatchParams::default(), &patch).await;
        }
    });
    fixture.create("full", |_| {}).await?;
    wait::until("a conflict of the operator", TIMEOUT, || async {
        let requests = fixture.requests().map_err(|error| error.to_string())?;
        let has_conflict = requests.iter().any(|one| one.resource == "seinodes" && one.code == 409);
        if has_conflict { Ok(()) } else { Err("no conflict so far".to_owned()) }
    })
    .await?;
    other_writer.abort();
    let node = fixture.wait_ready("full", "it is ready despite conflicts").await?;
    history.entries_of_node(&node).await?;
    assert_eq!(history.plan_ids("full").len(), 1, "exactly one plan was stored");
    assert!(fixture.sidecars.journal().duplicates().is_empty(), "a task was submitted twice");
    assert_eq!(
        node.status.and_then(|status| status.plan_step),
        None,
        "the value of the other writer is overwritten"
    );
    Ok(())
}

/// A takeover from the upstream controller must not roll every node.
pub async fn missing_mirrors_are_not_drift_until_first_edit(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    let node = fixture.create_ready("full", |_| {}).await?;
    operator.kill()?;
    let status = serde_json::to_value(node.status).unwrap_or_default();
    let mut mirrors = json!({ "startedFrom": null, "reconciledGeneration": null });
    for name in status.as_object().expect("an object").keys().filter(|name| name.starts_with("current")) {
        mirrors[name] = Value::Null;
    }
    fixture.patch_status("full", mirrors).await?;
    let other_image =
        |program: testbed::process::Program| program.env("SEI_SIDECAR_IMAGE", "images.example/sidecar:v9");
    let _operator = fixture.start_operator_with(other_image)?;
    fixture
        .wait_until("full", "it counts as in sync", |node, status| {
            status.reconciled_generation == node.metadata.generation
        })
        .await?;
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert_eq!(fixture.pod_deletion_count()?, 0);
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = fixture.wait_ready("full", "an edit updates every field").await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(status.current_sidecar_image.as_deref(), Some("images.example/sidecar:v9"));
    assert_eq!(reason(&status, "NodeUpdateInProgress"), "UpdateComplete");
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    Ok(())
}
