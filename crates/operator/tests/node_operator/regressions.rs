//! Defects of the operator before us, each with its number in the list of the specification (11.4): none comes back.

use std::time::{Duration, Instant};

use api::sei_node::{PlanPhase, SeiNodePhase, SeiNodeStatus};
use api::sidecar_wire::TaskType;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::fakes::kubelet::Claims;
use testbed::fakes::sidecars::{Outcome, Requests, Trouble};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::diary::{Diary, image_of, seid_runs};
use crate::ground::{Ground, OTHER_IMAGE, SOON, is_ready, message, reason};

/// A full node that is brought to a height by another image first.
fn bootstrapped(node: &mut Value) {
    node["spec"]["fullNode"] =
        json!({ "snapshot": { "s3": { "targetHeight": 100 }, "bootstrapImage": "images.example/sei:v0" } });
}

/// 1. An update applied no configuration of the proxy: a node that lacked it never came up again.
pub async fn defect_1_an_update_makes_the_proxys_configuration_that_is_missing(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    operator.kill()?;
    ground.delete::<ConfigMap>("full-rbac-proxy-config").await?;
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.until("full", "it runs the new image", is_ready).await?;
    let made = diary.first("ConfigMap", "full-rbac-proxy-config", |_| true).await?;
    let pod = diary.first("Pod", "full-0", |entry| image_of(&entry.object) == Some(OTHER_IMAGE)).await?;
    assert!(made.at < pod.at, "the new pod mounts it");
    Ok(())
}

/// 2. A task was given again every five seconds: one that failed was begun anew before its failure was seen.
pub async fn defect_2_a_task_that_fails_slowly_is_given_once_and_its_failure_is_seen(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.sidecar("full").on_task(TaskType::ConfigApply, Outcome::Run);
    ground.create("full", |_| {}).await?;
    let sidecar = ground.sidecar("full");
    let given = sidecar.wait_submitted(TaskType::ConfigApply, SOON).await?;
    let asks = |request: &testbed::fakes::sidecars::Request| {
        request.task_id == given.task_id && !request.is_submission()
    };
    // It is asked about several times while it runs.
    let before = ground.sidecars.journal().count(asks);
    ground.sidecars.journal().wait_for(before + 4, SOON, asks).await?;
    assert_eq!(sidecar.fail(TaskType::ConfigApply, "the disk is full"), 1);
    let node =
        ground.until("full", "it failed", |_, status| status.phase == Some(SeiNodePhase::Failed)).await?;
    assert!(message(&node.status.unwrap_or_default(), "Ready").contains("the disk is full"));
    assert_eq!(ground.given("full", TaskType::ConfigApply), 1);
    Ok(())
}

/// 3. A task that the sidecar refuses was given again for ever, and nobody was told why.
pub async fn defect_3_a_task_that_is_refused_fails_the_plan_in_the_sidecars_words(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.sidecar("full").on_task(TaskType::ConfigApply, Outcome::reject("unknown key evm.nothing"));
    ground.create("full", |_| {}).await?;
    let node =
        ground.until("full", "it failed", |_, status| status.phase == Some(SeiNodePhase::Failed)).await?;
    let status = node.status.unwrap_or_default();
    let failed = status.last_failed_plan.clone().expect("it failed");
    assert_eq!(failed.task.task_type, "config-apply");
    assert!(failed.task.error.contains("unknown key evm.nothing"), "{}", failed.task.error);
    assert!(message(&status, "Ready").contains("unknown key evm.nothing"));
    let plan = status.plan.expect("it stays");
    let task = plan.tasks.iter().find(|task| task.task_type == "config-apply").expect("it has one");
    assert_eq!(task.error.as_deref(), Some(failed.task.error.as_str()));
    ground.rests(Duration::from_secs(2)).await?;
    assert_eq!(ground.given("full", TaskType::ConfigApply), 1);
    Ok(())
}

/// 4. That an update had failed was overwritten before anybody could read it.
pub async fn defect_4_a_failed_update_stays_visible(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    ground.sidecar("full").on_task(TaskType::ConfigApply, Outcome::reject("unknown key a.b"));
    ground.edit("full", json!({ "spec": { "overrides": { "a.b": "1" } } })).await?;
    let failed = |status: &SeiNodeStatus| reason(status, "NodeUpdateInProgress") == "UpdateFailed";
    ground.until("full", "its update failed", |_, status| failed(status)).await?;
    wait::throughout("the failure is told", Duration::from_secs(5), || async {
        let node = ground.nodes().get("full").await.map_err(|error| error.to_string())?;
        let status = node.status.unwrap_or_default();
        let told = failed(&status)
            && message(&status, "NodeUpdateInProgress").contains("unknown key a.b")
            && reason(&status, "Ready") == "PlanFailed"
            && status.phase == Some(SeiNodePhase::Running)
            && status.plan.is_some_and(|plan| plan.phase == PlanPhase::Failed)
            && status.last_failed_plan.is_some_and(|failed| failed.attempts == 1);
        if told { Ok(()) } else { Err(format!("{:?}", status.conditions)) }
    })
    .await?;
    let events = ground.events("full").await?;
    assert_eq!(events.iter().filter(|(reason, _)| reason == "UpdateFailed").count(), 1, "{events:?}");
    Ok(())
}

/// 5. The image of the spec was stamped instead of the one that had been applied.
pub async fn defect_5_an_image_that_is_edited_in_mid_plan_is_not_stamped_before_it_runs(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    ground.kubelets.hold_pods();
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    diary.first("Pod", "full-0", |entry| image_of(&entry.object) == Some(OTHER_IMAGE)).await?;
    let third = "images.example/sei:v3";
    ground.edit("full", json!({ "spec": { "image": third } })).await?;
    ground.kubelets.release_pods();
    let node = ground.until("full", "it runs the third image", is_ready).await?;
    let stamped = |entry: &&crate::diary::Entry| entry.status().current_image.as_deref() == Some(third);
    let entries = diary.of_node(&node).await?;
    let stamped = entries.iter().find(stamped).expect("it was stamped");
    let runs =
        |entry: &crate::diary::Entry| image_of(&entry.object) == Some(third) && seid_runs(&entry.object);
    assert!(diary.first("Pod", "full-0", runs).await?.at < stamped.at);
    assert_eq!(image_of(&serde_json::to_value(ground.pod("full").await?)?), Some(third));
    Ok(())
}

/// 6. The node's own pod was made while the bootstrap's still held the volume.
pub async fn defect_6_the_bootstrap_is_gone_before_the_nodes_own_pod_comes(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.kubelets.remove_pods_after(Duration::from_secs(2));
    ground.running("full", bootstrapped).await?;
    let job = diary.first("Job", "full-bootstrap", |entry| entry.gone).await?;
    let own = diary.first("StatefulSet", "full", |_| true).await?;
    assert!(job.at < own.at, "the Job was there when the StatefulSet was made");
    let pods = diary.of_kind("Pod");
    let others: Vec<_> = pods.iter().filter(|entry| entry.name != "full-0").collect();
    let ended = others.iter().find(|entry| entry.gone).expect("its pod was removed");
    assert!(ended.at < own.at, "its pod was there when the StatefulSet was made");
    let service = diary.first("Service", "full", |entry| entry.gone).await?;
    assert!(service.at < own.at);
    Ok(())
}

/// 7. The bootstrap's pod took a volume of its own instead of the imported one, and ran as root.
pub async fn defect_7_the_bootstrap_uses_the_imported_volume_and_runs_as_the_node_does(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.kubelets.treat_claims(Claims::BoundToVolume);
    let claim = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "given" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": { "requests": { "storage": "10Gi" } },
        },
    }))?;
    ground
        .api::<k8s_openapi::api::core::v1::PersistentVolumeClaim>()
        .create(&kube::api::PostParams::default(), &claim)
        .await?;
    let held = ground.sidecar("full").on_task(TaskType::SnapshotRestore, Outcome::Run);
    ground
        .create("full", |node| {
            bootstrapped(node);
            node["spec"]["dataVolume"] = json!({ "import": { "pvcName": "given" } });
        })
        .await?;
    ground.sidecar("full").wait_submitted(TaskType::SnapshotRestore, SOON).await?;
    let job = serde_json::to_value(ground.api::<Job>().get("full-bootstrap").await?)?;
    held.lift();
    assert_eq!(ground.sidecar("full").complete(TaskType::SnapshotRestore), 1);
    ground.until("full", "it is ready", is_ready).await?;
    let set = serde_json::to_value(ground.api::<StatefulSet>().get("full").await?)?;
    let (job, set) = (&job["spec"]["template"]["spec"], &set["spec"]["template"]["spec"]);
    for pod in [job, set] {
        let volumes = pod["volumes"].as_array().expect("it has some");
        let claims: Vec<&Value> = volumes
            .iter()
            .map(|one| &one["persistentVolumeClaim"]["claimName"])
            .filter(|name| name.is_string())
            .collect();
        assert_eq!(claims, [&json!("given")]);
    }
    assert!(job["securityContext"]["fsGroup"].is_number(), "{}", job["securityContext"]);
    assert_eq!(job["securityContext"], set["securityContext"]);
    let context = |pod: &Value| {
        let containers = pod["containers"].as_array().expect("it has some");
        containers.iter().find(|one| one["name"] == "seid").expect("it has seid")["securityContext"].clone()
    };
    assert_eq!(context(job), context(set));
    Ok(())
}

/// 8. A Job removed itself an hour after its end: an operator that came back later took success for failure.
pub async fn defect_8_a_bootstrap_that_ended_while_nobody_looked_has_succeeded(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let operator = ground.operator()?;
    ground.create("full", bootstrapped).await?;
    ground.sidecar("full").wait_submitted(TaskType::MarkReady, SOON).await?;
    operator.kill()?;
    let ended = |job: &Job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1));
    let job = ground.until_object::<Job>("full-bootstrap", "it ended", ended).await?;
    let ttl = job.spec.and_then(|spec| spec.ttl_seconds_after_finished);
    assert_eq!(ttl, None, "it stays until its end was seen");
    let _operator = ground.operator()?;
    let node = ground.until("full", "it is ready", is_ready).await?;
    assert_eq!(node.status.and_then(|status| status.plan).map(|plan| plan.phase), Some(PlanPhase::Complete));
    assert_eq!(ground.api::<Job>().get_opt("full-bootstrap").await?, None, "and is removed then");
    Ok(())
}

/// 13. What a spec was refused for was in the operator's log only.
pub async fn defect_13_a_spec_that_cannot_be_applied_says_why_in_its_status(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    let more_than_allowed = json!({ "requests": { "memory": "2Gi" }, "limits": { "memory": "1Gi" } });
    ground.create("full", |node| node["spec"]["sidecar"] = json!({ "resources": more_than_allowed })).await?;
    let told = |status: &SeiNodeStatus| {
        let said = message(status, "Ready");
        status.phase == Some(SeiNodePhase::Failed) && said.contains("memory") && said.contains("limit")
    };
    ground.until("full", "the API server's words are told", |_, status| told(status)).await?;
    let enough = json!({ "requests": { "memory": "1Gi" }, "limits": { "memory": "1Gi" } });
    ground.edit("full", json!({ "spec": { "sidecar": { "resources": enough } } })).await?;
    ground.until("full", "an edit mends it", is_ready).await?;
    Ok(())
}

/// 15. A request to a sidecar had no end: a proxy that hung held its node up for ever.
pub async fn defect_15_a_sidecar_that_never_answers_is_given_up_and_told(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    let hung = ground.sidecar("full").on_request(Requests::any(), Trouble::Hang);
    // Something happens to its pod, so that the sidecar is asked.
    let touch = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/touched": "yes" } } }));
    let begin = Instant::now();
    ground.api::<Pod>().patch("full-0", &PatchParams::default(), &touch).await?;
    let node = ground
        .until("full", "its silence is told", |_, status| reason(status, "SidecarReady") == "Unreachable")
        .await?;
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    assert_eq!(reason(&node.status.unwrap_or_default(), "Ready"), "SidecarUnreachable");
    hung.lift();
    ground.until("full", "it is heard again", is_ready).await?;
    Ok(())
}

/// 17. A changed configuration of the proxy reached no proxy: it is read once.
pub async fn defect_17_a_changed_configuration_of_the_proxy_makes_a_new_pod(cx: Context) -> TestResult {
    const HASH: &str = "outrigger.dev/proxy-config-hash";
    let ground = Ground::of(&cx).await?;
    let operator = ground.operator()?;
    let node = ground.running("full", |_| {}).await?;
    let wanted = node.status.and_then(|status| status.current_proxy_config_hash).expect("it was stamped");
    operator.kill()?;
    // As an older operator left it: another configuration in the template, in the pod and in status.
    let mut set = serde_json::to_value(ground.api::<StatefulSet>().get("full").await?)?;
    for field in ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"] {
        set["metadata"].as_object_mut().expect("it has one").remove(field);
    }
    set.as_object_mut().expect("it is one").remove("status");
    set["spec"]["template"]["metadata"]["annotations"][HASH] = json!("older");
    let apply = PatchParams::apply("seinode-controller").force();
    ground.api::<StatefulSet>().patch("full", &apply, &Patch::Apply(set)).await?;
    let old = ground.pod("full").await?;
    ground.delete::<Pod>("full-0").await?;
    let older = |pod: &Pod| {
        pod.uid() != old.uid() && pod.annotations().get(HASH).map(String::as_str) == Some("older")
    };
    let older = ground.until_object::<Pod>("full-0", "it is of the older one", older).await?;
    ground.patch_status("full", json!({ "currentProxyConfigHash": "older" })).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    let stamped = |status: &SeiNodeStatus| status.current_proxy_config_hash.as_deref() == Some(&wanted);
    ground
        .until("full", "it has the new one", |node, status| is_ready(node, status) && stamped(status))
        .await?;
    let pod = ground.pod("full").await?;
    assert_ne!(pod.uid(), older.uid());
    assert_eq!(pod.annotations().get(HASH), Some(&wanted));
    let started = diary
        .first("SeiNode", "full", |entry| reason(&entry.status(), "NodeUpdateInProgress") == "UpdateStarted")
        .await?;
    assert!(message(&started.status(), "NodeUpdateInProgress").contains("proxy configuration"));
    assert_eq!(ground.pod_deletions_of("full").await?, 1);
    Ok(())
}
