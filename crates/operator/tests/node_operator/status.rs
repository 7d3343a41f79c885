//! Status tells the truth: what runs, and what keeps it from running.

use std::time::{Duration, Instant};

use api::sei_node::{PlanKind, SeiNodeStatus};
use api::sidecar_wire::TaskType;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::fakes::kubelet::Breakage;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::diary::{Diary, image_of, seid_runs};
use crate::ground::{Ground, IMAGE, OTHER_IMAGE, SOON, is_ready, message, reason};

const THIRD_IMAGE: &str = "images.example/sei:v3";

pub async fn mirrors_are_stamped_from_the_running_pod_and_never_before(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.kubelets.hold_pods();
    ground.create("full", |_| {}).await?;
    let waits = |status: &SeiNodeStatus| {
        status.waiting_for.as_ref().is_some_and(|waiting| waiting.target == "Pod/full-0")
    };
    let node = ground.until("full", "it waits for its pod", |_, status| waits(status)).await?;
    let status = node.status.unwrap_or_default();
    assert_eq!((status.current_image, status.current_sidecar_image), (None, None));
    ground.kubelets.release_pods();
    ground.until("full", "it is ready", is_ready).await?;
    ground.kubelets.hold_pods();
    let sidecar = "images.example/sidecar:v2";
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE, "sidecar": { "image": sidecar } } })).await?;
    let new = diary.first("Pod", "full-0", |entry| image_of(&entry.object) == Some(OTHER_IMAGE)).await?;
    assert!(!seid_runs(&new.object));
    let node = ground.until("full", "it waits for its pod", |_, status| waits(status)).await?;
    assert_eq!(
        node.status.unwrap_or_default().current_image.as_deref(),
        Some(IMAGE),
        "the new one does not run"
    );
    ground.kubelets.release_pods();
    let node = ground.until("full", "it is ready", is_ready).await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.current_sidecar_image.as_deref(), Some(sidecar));
    assert_stamped_from_running_pods(&diary, &node).await?;
    Ok(())
}

/// Every image that a status named was that of the pod that ran, when it was written.
async fn assert_stamped_from_running_pods(
    diary: &Diary,
    node: &api::SeiNode,
) -> Result<usize, testbed::Error> {
    let name = node.name_any();
    let mut before = None;
    let mut stamps = 0;
    for entry in diary.of_node(node).await? {
        let image = entry.status().current_image;
        if image != before {
            let pods = diary.of("Pod", &format!("{name}-0"));
            let pod = pods.iter().rfind(|pod| pod.at < entry.at).expect("no pod was ever there");
            assert_eq!(image_of(&pod.object), image.as_deref(), "it was stamped while another pod was there");
            assert!(seid_runs(&pod.object) && !pod.gone, "it was stamped before its pod ran");
            stamps += 1;
            before = image;
        }
    }
    Ok(stamps)
}

pub async fn an_image_that_cannot_run_is_named_and_the_next_edit_is_taken_up_at_once(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    ground.kubelets.break_image(OTHER_IMAGE, Breakage::ImagePullBackOff("manifest unknown".into()));
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let told = |status: &SeiNodeStatus| {
        let said =
            status.waiting_for.as_ref().and_then(|waiting| waiting.message.as_deref()).unwrap_or_default();
        said.contains(OTHER_IMAGE) && said.contains("ImagePullBackOff") && said.contains("manifest unknown")
    };
    let node = ground.until("full", "the pod's own words are told", |_, status| told(status)).await?;
    let status = node.status.unwrap_or_default();
    assert_eq!(status.current_image.as_deref(), Some(IMAGE));
    assert_eq!(reason(&status, "Ready"), "Updating");
    assert!(message(&status, "Ready").contains(OTHER_IMAGE), "{}", message(&status, "Ready"));
    let begin = Instant::now();
    ground.edit("full", json!({ "spec": { "image": THIRD_IMAGE } })).await?;
    let node = ground.until("full", "the next edit is carried out", is_ready).await?;
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    assert_eq!(assert_stamped_from_running_pods(&diary, &node).await?, 2, "the first image, and the third");
    let superseded = ground.events("full").await?;
    assert_eq!(
        superseded.iter().filter(|(reason, _)| reason == "PlanSuperseded").count(),
        1,
        "{superseded:?}"
    );
    Ok(())
}

pub async fn a_new_node_whose_image_cannot_run_says_so_and_is_mended_by_an_edit(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.kubelets.break_image(IMAGE, Breakage::CrashLoopBackOff("back-off restarting".into()));
    ground.create("full", |_| {}).await?;
    let told = |status: &SeiNodeStatus| {
        let said = message(status, "Ready");
        said.contains("CrashLoopBackOff") && said.contains(IMAGE)
    };
    ground.until("full", "the pod's own words are told", |_, status| told(status)).await?;
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = ground.until("full", "it is mended", is_ready).await?;
    assert_eq!(node.status.unwrap_or_default().current_image.as_deref(), Some(OTHER_IMAGE));
    Ok(())
}

pub async fn after_two_quick_edits_status_never_names_an_image_that_the_pod_does_not_run(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    ground.kubelets.start_pods_after(Duration::from_millis(300));
    for round in 0..3 {
        let (first, second) =
            (format!("images.example/sei:a{round}"), format!("images.example/sei:b{round}"));
        ground.edit("full", json!({ "spec": { "image": first } })).await?;
        if round > 0 {
            // The second edit comes when the first is half done.
            diary.first("Pod", "full-0", |entry| image_of(&entry.object) == Some(&first)).await?;
        }
        ground.edit("full", json!({ "spec": { "image": second } })).await?;
        let node = ground.until("full", "it runs the second", is_ready).await?;
        assert_eq!(node.status.clone().unwrap_or_default().current_image, Some(second));
        assert_stamped_from_running_pods(&diary, &node).await?;
    }
    Ok(())
}

pub async fn a_pod_that_was_deleted_is_told_to_start_as_soon_as_its_sidecar_answers(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    let node = ground.running("full", |_| {}).await?;
    let old = ground.pod("full").await?;
    ground.kubelets.hold_pods();
    ground.api::<Pod>().delete("full-0", &DeleteParams::default()).await?;
    ground.until_object::<Pod>("full-0", "another one is there", |pod| pod.uid() != old.uid()).await?;
    ground.kubelets.release_pods();
    let begin = Instant::now();
    let sidecar = ground.sidecar("full");
    sidecar.wait_ready(SOON).await?;
    assert!(begin.elapsed() < Duration::from_secs(8), "it was told after {:?}", begin.elapsed());
    let now = ground.until("full", "it is ready again", was_told_again).await?;
    assert!(begin.elapsed() < Duration::from_secs(12), "it was ready after {:?}", begin.elapsed());
    assert_eq!(ground.given("full", TaskType::MarkReady), 2);
    let ids = |node: &api::SeiNode| {
        let plan = node.status.as_ref().and_then(|status| status.plan.as_ref()).expect("it has one");
        plan.tasks.last().expect("it ends so").id.clone()
    };
    assert_ne!(ids(&node), ids(&now), "each time it is another task");
    diary.of_node(&now).await?;
    assert_eq!(diary.plans_of("full").len(), 2);
    assert_eq!(ground.pod_deletions_of("full").await?, 0, "only we deleted it");
    Ok(())
}

pub async fn a_sidecar_that_restarts_is_told_again_and_events_come_once(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    ground.sidecar("full").restart();
    ground.until("full", "it is ready again", was_told_again).await?;
    // Events follow the status, and a killed operator sends none.
    wait::until("the last event", SOON, || async {
        let sent = ground.events("full").await.map_err(|error| error.to_string())?;
        let told = sent.iter().any(|(reason, _)| reason == "SidecarReadinessRestored");
        if told { Ok(()) } else { Err(format!("only {sent:?}")) }
    })
    .await?;
    operator.kill()?;
    let _operator = ground.operator()?;
    ground.rests(Duration::from_secs(3)).await?;
    let mut reasons: Vec<String> =
        ground.events("full").await?.into_iter().map(|(reason, _)| reason).collect();
    reasons.sort();
    assert_eq!(
        reasons,
        ["PhaseTransition", "PhaseTransition", "SidecarReadinessLost", "SidecarReadinessRestored"],
        "transitions, each once, and nothing for an operator that comes anew"
    );
    Ok(())
}

pub async fn a_plan_that_only_lets_seid_start_says_nothing_of_the_last_update(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let before = ground.until("full", "it runs the new image", is_ready).await?;
    let update = |node: api::SeiNode| {
        let conditions = node.status.unwrap_or_default().conditions;
        conditions.into_iter().find(|one| one.type_ == "NodeUpdateInProgress").expect("it is always there")
    };
    ground.sidecar("full").restart();
    let now = ground.until("full", "it is ready again", was_told_again).await?;
    assert_eq!(update(now), update(before));
    Ok(())
}

/// Whether a node is ready, and was told so by a plan for that alone.
fn was_told_again(node: &api::SeiNode, status: &SeiNodeStatus) -> bool {
    is_ready(node, status) && status.plan.as_ref().is_some_and(|plan| plan.kind == Some(PlanKind::MarkReady))
}
