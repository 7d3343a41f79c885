//! What goes wrong with tasks: seen, told, tried again where that helps, and mended by the next edit.

use std::time::{Duration, Instant};

use api::sei_node::{PlanPhase, SeiNodePhase, SeiNodeStatus};
use api::sidecar_wire::TaskType;
use http::StatusCode;
use serde_json::json;
use testbed::fakes::sidecars::{Outcome, Requests, Trouble};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::begin::fixed_peers;
use crate::diary::Diary;
use crate::ground::{Ground, OTHER_IMAGE, SOON, is_ready, message, reason};

pub async fn a_task_that_fails_fails_the_node_until_an_edit_mends_it(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    let full = ground.sidecar("full").on_task(TaskType::ConfigApply, Outcome::fail_always("no space left"));
    ground.create("full", |_| {}).await?;
    let node =
        ground.until("full", "it failed", |_, status| status.phase == Some(SeiNodePhase::Failed)).await?;
    let status = node.status.clone().unwrap_or_default();
    let plan = status.plan.clone().expect("it failed");
    assert_eq!(plan.phase, PlanPhase::Failed);
    let detail = plan.failed_task_detail.clone().expect("it failed");
    assert_eq!((detail.task_type.as_str(), detail.error.as_str()), ("config-apply", "no space left"));
    assert_eq!(plan.tasks[plan.failed_task_index.unwrap_or_default() as usize].id, detail.id);
    assert_eq!(status.last_failed_plan.as_ref().map(|failed| &failed.id), Some(&plan.id));
    assert_eq!(reason(&status, "Ready"), "PlanFailed");
    assert!(message(&status, "Ready").contains("no space left"), "{}", message(&status, "Ready"));
    let begun = ground.begun("full");
    ground.rests(Duration::from_secs(3)).await?;
    assert_eq!(ground.begun("full"), begun, "nothing is given after a failure");
    full.lift();
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = ground.until("full", "it is mended", is_ready).await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.current_image.as_deref(), Some(OTHER_IMAGE));
    assert_eq!(status.last_failed_plan, None, "what was mended is not told any more");
    let again = status.plan.expect("it is ready");
    assert!(
        again.tasks.iter().all(|task| plan.tasks.iter().all(|before| before.id != task.id)),
        "a plan that is made anew has other ids"
    );
    diary.of_node(&node).await?;
    assert_eq!(diary.plans_of("full").len(), 2);
    let failed = ground.events("full").await?.iter().filter(|(reason, _)| reason == "NodeFailed").count();
    assert_eq!(failed, 1);
    Ok(())
}

pub async fn a_sidecar_that_cannot_be_reached_is_asked_again_and_given_nothing_twice(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    let sidecar = ground.sidecar("full");
    let gone = sidecar.on_request(
        Requests::any().first(6),
        Trouble::Answer(StatusCode::BAD_GATEWAY, "nobody listens".into()),
    );
    // Done, but nobody learns of it: what a connection that breaks looks like.
    let lost =
        sidecar.on_request(Requests::submissions().of(TaskType::ConfigApply).first(1), Trouble::LoseAnswer);
    let away = sidecar.on_request(Requests::submissions().of(TaskType::MarkReady).first(2), Trouble::Away);
    ground.running("full", |_| {}).await?;
    assert_eq!((gone.fired(), lost.fired(), away.fired()), (6, 1, 2));
    assert_eq!(ground.given("full", TaskType::ConfigApply), 1, "it had been given");
    assert!(ground.sidecars.journal().repeats().is_empty(), "a task was given twice");
    assert_eq!(ground.begun("full").join(" "), "configure-genesis config-apply config-validate mark-ready");
    Ok(())
}

pub async fn a_task_with_a_budget_is_tried_again_after_its_wait_and_until_its_budget_is_spent(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.sidecar("lucky").on_task(TaskType::DiscoverPeers, Outcome::fail(1, "no peers yet"));
    ground.sidecar("unlucky").on_task(TaskType::DiscoverPeers, Outcome::fail_always("never any peers"));
    for name in ["lucky", "unlucky"] {
        ground.create(name, |node| node["spec"]["peers"] = fixed_peers()).await?;
    }
    for name in ["lucky", "unlucky"] {
        let waits = |status: &SeiNodeStatus| {
            status.waiting_for.as_ref().is_some_and(|waiting| waiting.target == "Retry/discover-peers")
        };
        let node = ground.until(name, "its retry is counted", |_, status| waits(status)).await?;
        let plan = node.status.and_then(|status| status.plan).expect("it waits");
        let task = plan.tasks.iter().find(|task| task.task_type == "discover-peers").expect("it has peers");
        assert_eq!((task.max_retries, task.retry_count), (Some(20), Some(1)));
        assert!(task.error.as_deref().unwrap_or_default().contains("peers"), "{task:?}");
        assert_eq!(ground.given(name, TaskType::DiscoverPeers), 1, "it is given again only after the wait");
        if name == "unlucky" {
            // The rest of a budget of twenty takes ten minutes.
            let mut tasks = plan.tasks.clone();
            for task in tasks.iter_mut().filter(|task| task.task_type == "discover-peers") {
                task.max_retries = Some(1);
            }
            ground.patch_status(name, json!({ "plan": { "tasks": tasks } })).await?;
        }
    }
    ground.until("lucky", "its second attempt succeeds", is_ready).await?;
    let given = ground.sidecars.journal().requests(|request| {
        request.node.name == "lucky"
            && request.is_submission()
            && request.task_type.as_deref() == Some("discover-peers")
    });
    let waited = given[1].at.duration_since(given[0].at).unwrap_or_default();
    assert!((8..20).contains(&waited.as_secs()), "the first wait is 10 s, and it was {waited:?}");
    let node = ground
        .until("unlucky", "its budget is spent", |_, status| status.phase == Some(SeiNodePhase::Failed))
        .await?;
    let failed = node.status.and_then(|status| status.last_failed_plan).expect("it failed");
    assert_eq!((failed.task.retry_count, failed.task.max_retries), (1, 1));
    assert_eq!(failed.task.error, "never any peers");
    assert_eq!(ground.given("unlucky", TaskType::DiscoverPeers), 2);
    Ok(())
}

pub async fn a_failed_update_leaves_the_node_running_and_the_next_edit_is_taken_up_at_once(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    let refused = ground.sidecar("full").on_task(TaskType::ConfigApply, Outcome::reject("unknown key a.b"));
    ground.edit("full", json!({ "spec": { "overrides": { "a.b": "1" } } })).await?;
    let failed = |_: &_, status: &SeiNodeStatus| reason(status, "NodeUpdateInProgress") == "UpdateFailed";
    ground.until("full", "its update failed", failed).await?;
    refused.lift();
    let begin = Instant::now();
    ground.edit("full", json!({ "spec": { "overrides": null } })).await?;
    let node = ground.until("full", "the edit is carried out", is_ready).await?;
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    let status = node.status.unwrap_or_default();
    assert_eq!(reason(&status, "NodeUpdateInProgress"), "UpdateComplete");
    assert_eq!(status.last_failed_plan, None);
    assert_eq!(status.current_overrides.map(|all| all.len()), Some(0));
    ground.sidecar("full").wait_ready(SOON).await?;
    Ok(())
}

pub async fn a_sidecar_that_hangs_or_answers_late_delays_nobody_else(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    // With one node at a time, a pass that waited would hold up all of them.
    let _operator = ground.operator_with(|program| program.flag("max-concurrent-reconciles", "1"))?;
    let late = Trouble::Late(Duration::from_secs(25));
    let slow = ground.sidecar("slow").on_request(Requests::any(), late);
    let hung = ground.sidecar("hung").on_request(Requests::any(), Trouble::Hang);
    ground.create("slow", |_| {}).await?;
    ground.create("hung", |_| {}).await?;
    wait::until("both are being asked", SOON, || async {
        if slow.fired() > 0 && hung.fired() > 0 { Ok(()) } else { Err("not yet") }
    })
    .await?;
    let begin = Instant::now();
    for name in ["one", "two", "three"] {
        ground.create(name, |_| {}).await?;
    }
    for name in ["one", "two", "three"] {
        ground.until(name, "it is ready", is_ready).await?;
        ground.edit(name, json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    }
    for name in ["one", "two", "three"] {
        ground.until(name, "it is ready", is_ready).await?;
    }
    assert!(begin.elapsed() < Duration::from_secs(24), "three nodes took {:?}", begin.elapsed());
    Ok(())
}
