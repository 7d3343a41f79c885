//! Operators that die, and writers that interfere: what was stored is carried on, and nothing is done twice.

use std::time::Duration;

use api::sei_node::SeiNodePhase;
use api::sidecar_wire::TaskType;
use serde_json::{Value, json};
use testbed::fakes::sidecars::Outcome;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::diary::Diary;
use crate::ground::{Ground, OTHER_IMAGE, SOON, is_ready, message, reason};

pub async fn an_operator_that_is_killed_goes_on_where_it_was(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let sidecar = ground.sidecar("full");
    let held = sidecar.on_any_task(Outcome::Run);
    let mut operator = ground.operator()?;
    ground.create("full", |_| {}).await?;
    for task in
        [TaskType::ConfigureGenesis, TaskType::ConfigApply, TaskType::ConfigValidate, TaskType::MarkReady]
    {
        sidecar.wait_submitted(task, SOON).await?;
        operator.kill()?;
        if task == TaskType::MarkReady {
            held.lift();
        }
        assert_eq!(sidecar.complete(task), 1, "{task}");
        operator = ground.operator()?;
    }
    let node = ground.until("full", "it is ready", is_ready).await?;
    diary.of_node(&node).await?;
    assert_eq!(diary.plans_of("full").len(), 1, "the plan that was stored was carried out");
    assert!(ground.sidecars.journal().repeats().is_empty(), "a task was given twice");
    assert_eq!(ground.begun("full").join(" "), "configure-genesis config-apply config-validate mark-ready");
    assert_eq!(diary.pods_of("full"), 1);
    let mut made: Vec<String> = ground.writes()?.into_iter().map(|write| write.resource).collect();
    made.retain(|resource| resource != "seinodes" && resource != "events");
    made.sort();
    assert_eq!(
        made,
        ["configmaps", "networkpolicies", "persistentvolumeclaims", "services", "statefulsets"],
        "each object was written once"
    );
    operator.check_alive()?;
    Ok(())
}

pub async fn an_operator_that_is_killed_in_mid_update_deletes_one_pod(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    ground.kubelets.hold_pods();
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    diary.first("Pod", "full-0", |entry| crate::diary::image_of(&entry.object) == Some(OTHER_IMAGE)).await?;
    operator.kill()?;
    let _operator = ground.operator()?;
    ground.kubelets.release_pods();
    let node = ground.until("full", "it runs the new image", is_ready).await?;
    diary.of_node(&node).await?;
    assert_eq!(diary.plans_of("full").len(), 2);
    assert_eq!(ground.pod_deletions_of("full").await?, 1);
    Ok(())
}

pub async fn an_unknown_task_in_a_stored_plan_fails_it_visibly(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let operator = ground.operator()?;
    let held = ground.sidecar("full").on_task(TaskType::ConfigApply, Outcome::Run);
    ground.create("full", |_| {}).await?;
    ground.sidecar("full").wait_submitted(TaskType::ConfigApply, SOON).await?;
    operator.kill()?;
    let stored = ground.nodes().get("full").await?;
    let mut tasks = stored.status.and_then(|status| status.plan).expect("it is on").tasks;
    for task in tasks.iter_mut().filter(|task| task.task_type == "config-validate") {
        task.task_type = "dance".into();
    }
    ground.patch_status("full", json!({ "plan": { "tasks": tasks } })).await?;
    held.lift();
    ground.sidecar("full").complete(TaskType::ConfigApply);
    let _operator = ground.operator()?;
    let node =
        ground.until("full", "it failed", |_, status| status.phase == Some(SeiNodePhase::Failed)).await?;
    let status = node.status.unwrap_or_default();
    assert!(message(&status, "Ready").contains("dance"), "{}", message(&status, "Ready"));
    assert_eq!(status.last_failed_plan.map(|failed| failed.task.task_type).as_deref(), Some("dance"));
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    ground.until("full", "an edit mends it", is_ready).await?;
    Ok(())
}

pub async fn of_two_writers_of_a_status_one_is_refused_and_one_plan_survives(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    let nodes = ground.nodes();
    let meddler = tokio::spawn(async move {
        let mut count = 0_u64;
        loop {
            count += 1;
            let patch = json!({ "status": { "planStep": format!("meddled {count}") } });
            let patch = kube::api::Patch::Merge(patch);
            // There is no such node at first.
            let _ = nodes.patch_status("full", &kube::api::PatchParams::default(), &patch).await;
        }
    });
    ground.create("full", |_| {}).await?;
    wait::until("the operator was refused", SOON, || async {
        let requests = ground.requests().map_err(|error| error.to_string())?;
        let refused = requests.iter().any(|one| one.resource == "seinodes" && one.code == 409);
        if refused { Ok(()) } else { Err("every write of it was taken".to_owned()) }
    })
    .await?;
    meddler.abort();
    let node = ground.until("full", "it is ready all the same", is_ready).await?;
    diary.of_node(&node).await?;
    assert_eq!(diary.plans_of("full").len(), 1, "exactly one plan survives");
    assert!(ground.sidecars.journal().repeats().is_empty(), "a task was given twice");
    assert_eq!(node.status.and_then(|status| status.plan_step), None, "what the other wrote is not believed");
    Ok(())
}

/// An upgrade from another operator must not roll every node.
pub async fn what_was_never_observed_is_no_drift_until_the_first_edit(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let operator = ground.operator()?;
    let node = ground.running("full", |_| {}).await?;
    operator.kill()?;
    let status = serde_json::to_value(node.status).unwrap_or_default();
    let mut mirrors = json!({ "startedFrom": null, "reconciledGeneration": null });
    for name in status.as_object().expect("it has one").keys().filter(|name| name.starts_with("current")) {
        mirrors[name] = Value::Null;
    }
    ground.patch_status("full", mirrors).await?;
    let other =
        |program: testbed::process::Program| program.env("SEI_SIDECAR_IMAGE", "images.example/sidecar:v9");
    let _operator = ground.operator_with(other)?;
    ground
        .until("full", "it counts as it should be", |node, status| {
            status.reconciled_generation == node.metadata.generation
        })
        .await?;
    ground.rests(Duration::from_secs(3)).await?;
    assert_eq!(ground.pod_deletions()?, 0);
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = ground.until("full", "an edit brings everything up to date", is_ready).await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(status.current_sidecar_image.as_deref(), Some("images.example/sidecar:v9"));
    assert_eq!(reason(&status, "NodeUpdateInProgress"), "UpdateComplete");
    assert_eq!(ground.pod_deletions_of("full").await?, 1);
    Ok(())
}
