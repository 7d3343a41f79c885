//! Failing tasks and unreachable sidecars: reported, retried, and recovered by the next edit.

use std::time::{Duration, Instant};

use api::SeiNode;
use api::sei_node::{PlanPhase, SeiNodeStatus};
use api::sidecar_wire::TaskType;
use http::StatusCode;
use serde_json::json;
use testbed::fakes::sidecars::{RequestFault, RequestFilter, ScriptedOutcome};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::creation::static_peers;
use crate::fixture::{Fixture, OTHER_IMAGE, TIMEOUT, message, reason};
use crate::history::History;

pub async fn failed_task_fails_node_until_next_edit(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    let failing =
        fixture.sidecar("full").on_task(TaskType::ConfigApply, ScriptedOutcome::fail_always("no space left"));
    fixture.create("full", |_| {}).await?;
    let node = fixture.wait_failed("full").await?;
    let status = node.status.clone().unwrap_or_default();
    let plan = status.plan.clone().expect("a failed plan");
    assert_eq!(plan.phase, PlanPhase::Failed);
    let detail = plan.failed_task_detail.clone().expect("a failed plan");
    assert_eq!((detail.task_type.as_str(), detail.error.as_str()), ("config-apply", "no space left"));
    assert_eq!(plan.tasks[plan.failed_task_index.unwrap_or_default() as usize].id, detail.id);
    assert_eq!(status.last_failed_plan.as_ref().map(|failed| &failed.id), Some(&plan.id));
    assert_eq!(reason(&status, "Ready"), "PlanFailed");
    assert!(message(&status, "Ready").contains("no space left"), "{}", message(&status, "Ready"));
    let started = fixture.started_tasks("full");
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert_eq!(fixture.started_tasks("full"), started, "no task is submitted after a failure");
    failing.remove();
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = fixture.wait_ready("full", "it recovers").await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.current_image.as_deref(), Some(OTHER_IMAGE));
    assert_eq!(status.last_failed_plan, None, "a resolved failure is cleared");
    let retried = status.plan.expect("a plan");
    assert!(
        retried.tasks.iter().all(|task| plan.tasks.iter().all(|before| before.id != task.id)),
        "a new plan has new task ids"
    );
    history.entries_of_node(&node).await?;
    assert_eq!(history.plan_ids("full").len(), 2);
    let failed = fixture.events("full").await?.iter().filter(|(reason, _)| reason == "NodeFailed").count();
    assert_eq!(failed, 1);
    Ok(())
}

/// A rejected task is not retried by itself.
pub async fn retry_annotation_retries_a_failed_node_at_once(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let rejection = json!({ "error": "unknown mode" }).to_string();
    let rejecting = fixture.sidecar("full").on_request(
        RequestFilter::submissions().for_task_type(TaskType::ConfigApply),
        RequestFault::Respond(StatusCode::BAD_REQUEST, rejection),
    );
    fixture.create("full", |_| {}).await?;
    let failed_plan = |node: &SeiNode| node.status.clone().and_then(|status| status.last_failed_plan);
    let failed = failed_plan(&fixture.wait_failed("full").await?).expect("a failed plan");
    assert_eq!((failed.next_retry_at, failed.attempts), (None, 1), "only an edit or a request retries it");
    let request = |value: &str| json!({ "metadata": { "annotations": { "outrigger.dev/retry": value } } });
    let generation = fixture.edit("full", request("1")).await?.metadata.generation;
    let node = fixture
        .wait_until("full", "the second attempt fails", |_, status| {
            status.last_failed_plan.as_ref().is_some_and(|again| again.id != failed.id)
        })
        .await?;
    assert_eq!(failed_plan(&node).map(|again| again.attempts), Some(2));
    assert_eq!(node.metadata.generation, generation, "the spec is the same");
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    rejecting.remove();
    fixture.edit("full", request("2")).await?;
    let node = fixture.wait_ready("full", "the third attempt succeeds").await?;
    let status = node.status.unwrap_or_default();
    assert_eq!((status.retry_requested.as_deref(), status.last_failed_plan), (Some("2"), None));
    Ok(())
}

pub async fn unreachable_sidecar_is_retried_without_duplicate_tasks(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let sidecar = fixture.sidecar("full");
    let unavailable = sidecar.on_request(
        RequestFilter::any().first(6),
        RequestFault::Respond(StatusCode::BAD_GATEWAY, "no upstream".into()),
    );
    // The task is accepted and the response lost, as by a broken connection.
    let lost = sidecar.on_request(
        RequestFilter::submissions().for_task_type(TaskType::ConfigApply).first(1),
        RequestFault::LoseResponse,
    );
    let refused = sidecar.on_request(
        RequestFilter::submissions().for_task_type(TaskType::MarkReady).first(2),
        RequestFault::Reset,
    );
    fixture.create_ready("full", |_| {}).await?;
    assert_eq!((unavailable.fired(), lost.fired(), refused.fired()), (6, 1, 2));
    assert_eq!(fixture.submission_count("full", TaskType::ConfigApply), 1, "it was already submitted");
    assert!(fixture.sidecars.journal().duplicates().is_empty(), "a task was submitted twice");
    assert_eq!(
        fixture.started_tasks("full").join(" "),
        "configure-genesis config-apply config-validate mark-ready"
    );
    Ok(())
}

pub async fn task_is_retried_after_backoff_until_max_retries(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.sidecar("lucky").on_task(TaskType::DiscoverPeers, ScriptedOutcome::fail(1, "no peers yet"));
    fixture
        .sidecar("unlucky")
        .on_task(TaskType::DiscoverPeers, ScriptedOutcome::fail_always("never any peers"));
    for name in ["lucky", "unlucky"] {
        fixture.create(name, |node| node["spec"]["peers"] = static_peers()).await?;
    }
    for name in ["lucky", "unlucky"] {
        let is_waiting = |status: &SeiNodeStatus| {
            status.waiting_for.as_ref().is_some_and(|waiting| waiting.target == "Retry/discover-peers")
        };
        let node = fixture.wait_until(name, "its retry is scheduled", |_, status| is_waiting(status)).await?;
        let plan = node.status.and_then(|status| status.plan).expect("an active plan");
        let task =
            plan.tasks.iter().find(|task| task.task_type == "discover-peers").expect("a discover-peers task");
        assert_eq!((task.max_retries, task.retry_count), (Some(20), Some(1)));
        assert!(task.error.as_deref().unwrap_or_default().contains("peers"), "{task:?}");
        assert_eq!(
            fixture.submission_count(name, TaskType::DiscoverPeers),
            1,
            "it is submitted again only after the backoff"
        );
        if name == "unlucky" {
            // The remaining retries would take ten minutes.
            let mut tasks = plan.tasks.clone();
            for task in tasks.iter_mut().filter(|task| task.task_type == "discover-peers") {
                task.max_retries = Some(1);
            }
            fixture.patch_status(name, json!({ "plan": { "tasks": tasks } })).await?;
        }
    }
    fixture.wait_ready("lucky", "its second attempt succeeds").await?;
    let submissions = fixture.sidecars.journal().requests(|request| {
        request.node.name == "lucky"
            && request.is_submission()
            && request.task_type.as_deref() == Some("discover-peers")
    });
    let waited = submissions[1].at.duration_since(submissions[0].at).unwrap_or_default();
    assert!((8..20).contains(&waited.as_secs()), "the first backoff is 10 s, not {waited:?}");
    let node = fixture.wait_failed("unlucky").await?;
    let failed = node.status.and_then(|status| status.last_failed_plan).expect("a failed plan");
    assert_eq!((failed.task.retry_count, failed.task.max_retries), (1, 1));
    assert_eq!(failed.task.error, "never any peers");
    assert_eq!(fixture.submission_count("unlucky", TaskType::DiscoverPeers), 2);
    Ok(())
}

pub async fn failed_update_keeps_node_running_and_next_edit_applies(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let rejecting =
        fixture.sidecar("full").on_task(TaskType::ConfigApply, ScriptedOutcome::reject("unknown key a.b"));
    fixture.edit("full", json!({ "spec": { "overrides": { "evm.http_port": "8545" } } })).await?;
    let failed = |_: &_, status: &SeiNodeStatus| reason(status, "NodeUpdateInProgress") == "UpdateFailed";
    fixture.wait_until("full", "its update failed", failed).await?;
    rejecting.remove();
    let begin = Instant::now();
    fixture.edit("full", json!({ "spec": { "overrides": null } })).await?;
    let node = fixture.wait_ready("full", "the edit is applied").await?;
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    let status = node.status.unwrap_or_default();
    assert_eq!(reason(&status, "NodeUpdateInProgress"), "UpdateComplete");
    assert_eq!(status.last_failed_plan, None);
    assert_eq!(status.current_overrides.map(|all| all.len()), Some(0));
    fixture.sidecar("full").wait_ready(TIMEOUT).await?;
    Ok(())
}

pub async fn slow_sidecar_does_not_delay_other_nodes(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    // With one worker, a reconcile that blocks would delay all nodes.
    let _operator = fixture.start_operator_with(|program| program.flag("max-concurrent-reconciles", "1"))?;
    let late = RequestFault::DelayResponse(Duration::from_secs(25));
    let slow = fixture.sidecar("slow").on_request(RequestFilter::any(), late);
    let hung = fixture.sidecar("hung").on_request(RequestFilter::any(), RequestFault::Hang);
    fixture.create("slow", |_| {}).await?;
    fixture.create("hung", |_| {}).await?;
    wait::until("both sidecars receive a request", TIMEOUT, || async {
        if slow.fired() > 0 && hung.fired() > 0 { Ok(()) } else { Err("not yet") }
    })
    .await?;
    let begin = Instant::now();
    for name in ["one", "two", "three"] {
        fixture.create(name, |_| {}).await?;
    }
    for name in ["one", "two", "three"] {
        fixture.wait_ready(name, "it is ready").await?;
        fixture.edit(name, json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    }
    for name in ["one", "two", "three"] {
        fixture.wait_ready(name, "it is ready").await?;
    }
    assert!(begin.elapsed() < Duration::from_secs(24), "three nodes took {:?}", begin.elapsed());
    Ok(())
}
