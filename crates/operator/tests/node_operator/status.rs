//! Status reports what runs, and what keeps a node from running.

use std::time::{Duration, Instant};

use api::sei_node::{PlanKind, SeiNodeStatus};
use api::sidecar_wire::{TaskType, path};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testbed::fakes::kubelet::ContainerFailure;
use testbed::fakes::sidecars::{Request, RequestFault, RequestFilter};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, IMAGE, OTHER_IMAGE, TIMEOUT, is_ready, message, reason};
use crate::history::{History, is_seid_running, seid_image};

const THIRD_IMAGE: &str = "images.example/sei:v3";

pub async fn mirrors_follow_the_running_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.kubelets.hold_pods();
    fixture.create("full", |_| {}).await?;
    let is_waiting = |status: &SeiNodeStatus| {
        status.waiting_for.as_ref().is_some_and(|waiting| waiting.target == "Pod/full-0")
    };
    let node =
        fixture.wait_until("full", "it is waiting for its pod", |_, status| is_waiting(status)).await?;
    let status = node.status.unwrap_or_default();
    assert_eq!((status.current_image, status.current_sidecar_image), (None, None));
    fixture.kubelets.release_pods();
    fixture.wait_ready("full", "it is ready").await?;
    fixture.kubelets.hold_pods();
    let sidecar = "images.example/sidecar:v2";
    fixture
        .edit("full", json!({ "spec": { "image": OTHER_IMAGE, "sidecar": { "image": sidecar } } }))
        .await?;
    let new = history.first("Pod", "full-0", |entry| seid_image(&entry.object) == Some(OTHER_IMAGE)).await?;
    assert!(!is_seid_running(&new.object));
    let node =
        fixture.wait_until("full", "it is waiting for its pod", |_, status| is_waiting(status)).await?;
    assert_eq!(
        node.status.unwrap_or_default().current_image.as_deref(),
        Some(IMAGE),
        "the new image does not run yet"
    );
    fixture.kubelets.release_pods();
    let node = fixture.wait_ready("full", "it is ready").await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.current_sidecar_image.as_deref(), Some(sidecar));
    assert_images_were_running(&history, &node).await?;
    Ok(())
}

/// Asserts that every reported image was the image of the running pod when the status was written. Returns the number of
/// changes.
async fn assert_images_were_running(history: &History, node: &api::SeiNode) -> Result<usize, testbed::Error> {
    let name = node.name_any();
    let mut before = None;
    let mut changes = 0;
    for entry in history.entries_of_node(node).await? {
        let image = entry.status().current_image;
        if image != before {
            let pods = history.entries_of("Pod", &format!("{name}-0"));
            let pod = pods.iter().rfind(|pod| pod.version < entry.version).expect("an earlier pod");
            assert_eq!(seid_image(&pod.object), image.as_deref(), "reported while another pod existed");
            assert!(is_seid_running(&pod.object) && !pod.is_deleted, "reported before its pod ran");
            changes += 1;
            before = image;
        }
    }
    Ok(changes)
}

pub async fn failing_image_is_reported_and_next_edit_applies(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.kubelets.fail_image(OTHER_IMAGE, ContainerFailure::ImagePullBackOff("manifest unknown".into()));
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let is_reported = |status: &SeiNodeStatus| {
        let text =
            status.waiting_for.as_ref().and_then(|waiting| waiting.message.as_deref()).unwrap_or_default();
        text.contains(OTHER_IMAGE) && text.contains("ImagePullBackOff") && text.contains("manifest unknown")
    };
    let node =
        fixture.wait_until("full", "the pod error is reported", |_, status| is_reported(status)).await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(status.current_image.as_deref(), Some(IMAGE));
    assert_eq!(reason(&status, "Ready"), "Updating");
    assert!(message(&status, "Ready").contains(OTHER_IMAGE), "{}", message(&status, "Ready"));
    let begin = Instant::now();
    fixture.edit("full", json!({ "spec": { "image": THIRD_IMAGE } })).await?;
    let node = fixture.wait_ready("full", "the next edit is applied").await?;
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    assert_eq!(assert_images_were_running(&history, &node).await?, 2, "the first and the third image");
    let events = fixture.events("full").await?;
    assert_eq!(events.iter().filter(|(reason, _)| reason == "PlanSuperseded").count(), 1, "{events:?}");
    Ok(())
}

pub async fn failing_image_of_new_node_is_reported(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.kubelets.fail_image(IMAGE, ContainerFailure::CrashLoopBackOff("back-off restarting".into()));
    fixture.create("full", |_| {}).await?;
    let is_reported = |status: &SeiNodeStatus| {
        let text = message(status, "Ready");
        text.contains("CrashLoopBackOff") && text.contains(IMAGE)
    };
    fixture.wait_until("full", "the pod error is reported", |_, status| is_reported(status)).await?;
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = fixture.wait_ready("full", "it recovers").await?;
    assert_eq!(node.status.unwrap_or_default().current_image.as_deref(), Some(OTHER_IMAGE));
    Ok(())
}

pub async fn quick_edits_never_report_an_image_before_it_runs(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.kubelets.start_pods_after(Duration::from_millis(300));
    for round in 0..3 {
        let (first, second) =
            (format!("images.example/sei:a{round}"), format!("images.example/sei:b{round}"));
        fixture.edit("full", json!({ "spec": { "image": first } })).await?;
        if round > 0 {
            // The second edit happens while the first one is being applied.
            history.first("Pod", "full-0", |entry| seid_image(&entry.object) == Some(&first)).await?;
        }
        fixture.edit("full", json!({ "spec": { "image": second } })).await?;
        let node = fixture.wait_ready("full", "it runs the second image").await?;
        assert_eq!(node.status.clone().unwrap_or_default().current_image, Some(second));
        assert_images_were_running(&history, &node).await?;
    }
    Ok(())
}

pub async fn deleted_pod_is_marked_ready_again(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    let node = fixture.create_ready("full", |_| {}).await?;
    let old = fixture.pod("full").await?;
    fixture.kubelets.hold_pods();
    fixture.api::<Pod>().delete("full-0", &DeleteParams::default()).await?;
    fixture.wait_until_object::<Pod>("full-0", "a new pod exists", |pod| pod.uid() != old.uid()).await?;
    fixture.kubelets.release_pods();
    let begin = Instant::now();
    let sidecar = fixture.sidecar("full");
    sidecar.wait_ready(TIMEOUT).await?;
    assert!(begin.elapsed() < Duration::from_secs(8), "marked ready after {:?}", begin.elapsed());
    let now = fixture.wait_until("full", "it is ready again", was_marked_ready_again).await?;
    assert!(begin.elapsed() < Duration::from_secs(12), "ready after {:?}", begin.elapsed());
    assert_eq!(fixture.submission_count("full", TaskType::MarkReady), 2);
    let last_task_id = |node: &api::SeiNode| {
        let plan = node.status.as_ref().and_then(|status| status.plan.as_ref()).expect("a plan");
        plan.tasks.last().expect("a task").id.clone()
    };
    assert_ne!(last_task_id(&node), last_task_id(&now), "each mark-ready task has a new id");
    history.entries_of_node(&now).await?;
    assert_eq!(history.plan_ids("full").len(), 2);
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 0, "only the test deleted it");
    Ok(())
}

pub async fn restarted_sidecar_is_marked_ready_with_one_event_each(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.sidecar("full").restart();
    fixture.wait_until("full", "it is ready again", was_marked_ready_again).await?;
    // Events are sent after the status write, and a killed operator sends none.
    wait::until("the last event", TIMEOUT, || async {
        let sent = fixture.events("full").await.map_err(|error| error.to_string())?;
        let is_sent = sent.iter().any(|(reason, _)| reason == "SidecarReadinessRestored");
        if is_sent { Ok(()) } else { Err(format!("only {sent:?}")) }
    })
    .await?;
    operator.kill()?;
    let _operator = fixture.start_operator()?;
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    let mut reasons: Vec<String> =
        fixture.events("full").await?.into_iter().map(|(reason, _)| reason).collect();
    reasons.sort();
    assert_eq!(
        reasons,
        ["PhaseTransition", "PhaseTransition", "SidecarReadinessLost", "SidecarReadinessRestored"],
        "one event per transition, and none for a restarted operator"
    );
    Ok(())
}

pub async fn mark_ready_plan_keeps_the_update_condition(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let before = fixture.wait_ready("full", "it runs the new image").await?;
    let update_condition = |node: api::SeiNode| {
        let conditions = node.status.unwrap_or_default().conditions;
        conditions
            .into_iter()
            .find(|condition| condition.type_ == "NodeUpdateInProgress")
            .expect("the condition")
    };
    fixture.sidecar("full").restart();
    let now = fixture.wait_until("full", "it is ready again", was_marked_ready_again).await?;
    assert_eq!(update_condition(now), update_condition(before));
    Ok(())
}

/// One late answer, as of a busy machine, was two status writes and an alert.
pub async fn late_health_answer_changes_no_status(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.assert_no_writes(Duration::from_secs(1)).await?;
    let sidecar = fixture.sidecar("full");
    let probes = || RequestFilter::path(path::HEALTHZ);
    let is_probe = |request: &Request| request.node == *sidecar.name() && request.path == path::HEALTHZ;
    // Longer than the timeout of a probe.
    let late = RequestFault::DelayResponse(Duration::from_secs(4));
    for (round, fault) in [late, RequestFault::Reset].into_iter().enumerate() {
        let before = fixture.sidecars.journal().count(is_probe);
        let script = sidecar.on_request(probes().first(1), fault);
        touch_pod(&fixture, &format!("{round}")).await?;
        fixture.assert_no_writes(Duration::from_secs(6)).await?;
        assert_eq!(script.fired(), 1);
        // The next probe does not wait for the resync.
        fixture.sidecars.journal().wait_for(before + 2, Duration::from_secs(5), is_probe).await?;
        script.remove();
    }
    let node = fixture.nodes().get("full").await?;
    assert!(is_ready(&node, &node.status.clone().unwrap_or_default()), "{:?}", node.status);
    let failed = [("namespace", fixture.ns.as_str()), ("outcome", "unreachable")];
    let failed = operator.metric("sei_controller_seinode_sidecar_health_probes_total", &failed).await?;
    assert!(failed >= Some(2.0), "the metric counts every probe: {failed:?}");

    let begin = Instant::now();
    sidecar.on_request(probes(), RequestFault::Hang);
    touch_pod(&fixture, "hanging").await?;
    fixture
        .wait_until("full", "the timeouts are reported", |_, status| {
            reason(status, "Ready") == "SidecarUnreachable"
        })
        .await?;
    println!("reported after {:?} without an answer", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    Ok(())
}

/// Changes an annotation of the pod, which triggers a health probe.
async fn touch_pod(fixture: &Fixture<'_>, value: &str) -> Result<(), testbed::Error> {
    let touch = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/touched": value } } }));
    fixture.api::<Pod>().patch("full-0", &PatchParams::default(), &touch).await?;
    Ok(())
}

/// True when a node is ready after a mark-ready plan.
fn was_marked_ready_again(node: &api::SeiNode, status: &SeiNodeStatus) -> bool {
    is_ready(node, status) && status.plan.as_ref().is_some_and(|plan| plan.kind == Some(PlanKind::MarkReady))
}
