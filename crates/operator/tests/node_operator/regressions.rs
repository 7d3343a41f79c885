//! Regression tests for defects of the upstream controller.

use std::time::{Duration, Instant};

use api::sei_node::{PlanPhase, SeiNodePhase, SeiNodeStatus};
use api::sidecar_wire::TaskType;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::fakes::kubelet::ClaimPolicy;
use testbed::fakes::sidecars::{RequestFault, RequestFilter, ScriptedOutcome};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, OTHER_IMAGE, TIMEOUT, is_ready, message, reason};
use crate::history::{History, is_seid_running, seid_image};

/// Makes a full node that bootstraps from a snapshot with another image.
fn with_bootstrap(node: &mut Value) {
    node["spec"]["fullNode"] =
        json!({ "snapshot": { "s3": { "targetHeight": 100 }, "bootstrapImage": "images.example/sei:v0" } });
}

/// Updates did not apply the proxy configuration: a node without it never started again.
pub async fn update_recreates_missing_proxy_config(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    operator.kill()?;
    fixture.delete::<ConfigMap>("full-rbac-proxy-config").await?;
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.wait_ready("full", "it runs the new image").await?;
    let config = history.first("ConfigMap", "full-rbac-proxy-config", |_| true).await?;
    let pod = history.first("Pod", "full-0", |entry| seid_image(&entry.object) == Some(OTHER_IMAGE)).await?;
    assert!(config.version < pod.version, "the new pod mounts it");
    Ok(())
}

/// Tasks were submitted again every five seconds: a failed task was restarted before its failure was observed.
pub async fn slow_failing_task_is_submitted_once(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.sidecar("full").on_task(TaskType::ConfigApply, ScriptedOutcome::Run);
    fixture.create("full", |_| {}).await?;
    let sidecar = fixture.sidecar("full");
    let submitted = sidecar.wait_submitted(TaskType::ConfigApply, TIMEOUT).await?;
    let is_poll = |request: &testbed::fakes::sidecars::Request| {
        request.task_id == submitted.task_id && !request.is_submission()
    };
    // The operator polls the task several times while it runs.
    let before = fixture.sidecars.journal().count(is_poll);
    fixture.sidecars.journal().wait_for(before + 4, TIMEOUT, is_poll).await?;
    assert_eq!(sidecar.fail(TaskType::ConfigApply, "the disk is full"), 1);
    let node = fixture.wait_failed("full").await?;
    assert!(message(&node.status.unwrap_or_default(), "Ready").contains("the disk is full"));
    assert_eq!(fixture.submission_count("full", TaskType::ConfigApply), 1);
    Ok(())
}

/// Tasks that the sidecar rejects were retried forever, without a reason in status.
pub async fn rejected_task_fails_the_plan_with_the_sidecar_error(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture
        .sidecar("full")
        .on_task(TaskType::ConfigApply, ScriptedOutcome::reject("unknown key evm.nothing"));
    fixture.create("full", |_| {}).await?;
    let node = fixture.wait_failed("full").await?;
    let status = node.status.unwrap_or_default();
    let failed = status.last_failed_plan.clone().expect("a failed plan");
    assert_eq!(failed.task.task_type, "config-apply");
    assert!(failed.task.error.contains("unknown key evm.nothing"), "{}", failed.task.error);
    assert!(message(&status, "Ready").contains("unknown key evm.nothing"));
    let plan = status.plan.expect("the failed plan");
    let task = plan.tasks.iter().find(|task| task.task_type == "config-apply").expect("a config-apply task");
    assert_eq!(task.error.as_deref(), Some(failed.task.error.as_str()));
    fixture.assert_no_writes(Duration::from_secs(2)).await?;
    assert_eq!(fixture.submission_count("full", TaskType::ConfigApply), 1);
    Ok(())
}

/// A failed update was overwritten in status before it could be read.
pub async fn failed_update_stays_visible(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.sidecar("full").on_task(TaskType::ConfigApply, ScriptedOutcome::fail(1, "unknown key a.b"));
    fixture
        .edit("full", json!({ "spec": { "image": OTHER_IMAGE, "overrides": { "evm.http_port": "8545" } } }))
        .await?;
    let is_rolled_back = |status: &SeiNodeStatus| {
        message(status, "SpecApplied").contains("the node runs its previous configuration")
            && reason(status, "Ready") == "SpecNotApplied"
    };
    fixture.wait_until("full", "its update is rolled back", |_, status| is_rolled_back(status)).await?;
    wait::throughout("the failure is reported", Duration::from_secs(5), || async {
        let node = fixture.nodes().get("full").await.map_err(|error| error.to_string())?;
        let status = node.status.unwrap_or_default();
        let is_reported = is_rolled_back(&status)
            && reason(&status, "SpecApplied") == "UpdateRolledBack"
            && message(&status, "SpecApplied").contains("unknown key a.b")
            && reason(&status, "NodeUpdateInProgress") == "UpdateFailed"
            && status.phase == Some(SeiNodePhase::Running)
            && status.current_image.as_deref() != Some(OTHER_IMAGE)
            && status.last_failed_plan.is_some_and(|failed| failed.attempts == 1 && failed.rolled_back);
        if is_reported { Ok(()) } else { Err(format!("{:?}", status.conditions)) }
    })
    .await?;
    fixture.sidecar("full").wait_ready(TIMEOUT).await?;
    assert_ne!(seid_image(&serde_json::to_value(fixture.pod("full").await?)?), Some(OTHER_IMAGE));
    let events = fixture.events("full").await?;
    assert_eq!(events.iter().filter(|(reason, _)| reason == "UpdateFailed").count(), 1, "{events:?}");
    Ok(())
}

/// Status reported the image of the spec instead of the applied one.
pub async fn image_edited_during_plan_is_not_reported_before_it_runs(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.kubelets.hold_pods();
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    history.first("Pod", "full-0", |entry| seid_image(&entry.object) == Some(OTHER_IMAGE)).await?;
    let third = "images.example/sei:v3";
    fixture.edit("full", json!({ "spec": { "image": third } })).await?;
    fixture.kubelets.release_pods();
    let node = fixture.wait_ready("full", "it runs the third image").await?;
    let is_reported = |entry: &&crate::history::Entry| entry.status().current_image.as_deref() == Some(third);
    let entries = history.entries_of_node(&node).await?;
    let reported = entries.iter().find(is_reported).expect("the field is set");
    let is_running = |entry: &crate::history::Entry| {
        seid_image(&entry.object) == Some(third) && is_seid_running(&entry.object)
    };
    assert!(history.first("Pod", "full-0", is_running).await?.version < reported.version);
    assert_eq!(seid_image(&serde_json::to_value(fixture.pod("full").await?)?), Some(third));
    Ok(())
}

/// The StatefulSet was created while the bootstrap pod still used the volume.
pub async fn bootstrap_is_deleted_before_the_stateful_set_is_created(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.kubelets.remove_pods_after(Duration::from_secs(2));
    fixture.create_ready("full", with_bootstrap).await?;
    let job = history.first("Job", "full-bootstrap", |entry| entry.is_deleted).await?;
    let stateful_set = history.first("StatefulSet", "full", |_| true).await?;
    assert!(job.version < stateful_set.version, "the Job still existed when the StatefulSet was created");
    let pods = history.entries_of_kind("Pod");
    let bootstrap_pods: Vec<_> = pods.iter().filter(|entry| entry.name != "full-0").collect();
    let deleted = bootstrap_pods.iter().find(|entry| entry.is_deleted).expect("a deleted bootstrap pod");
    assert!(
        deleted.version < stateful_set.version,
        "the bootstrap pod still existed when the StatefulSet was created"
    );
    let service = history.first("Service", "full", |entry| entry.is_deleted).await?;
    assert!(service.version < stateful_set.version);
    Ok(())
}

/// The bootstrap pod created its own volume instead of using the imported one, and ran as root.
pub async fn bootstrap_uses_imported_volume_and_node_security_context(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.kubelets.set_claim_policy(ClaimPolicy::BoundToVolume);
    let claim = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "imported" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": { "requests": { "storage": "10Gi" } },
        },
    }))?;
    fixture
        .api::<k8s_openapi::api::core::v1::PersistentVolumeClaim>()
        .create(&kube::api::PostParams::default(), &claim)
        .await?;
    let held = fixture.sidecar("full").on_task(TaskType::SnapshotRestore, ScriptedOutcome::Run);
    fixture
        .create("full", |node| {
            with_bootstrap(node);
            node["spec"]["dataVolume"] = json!({ "import": { "pvcName": "imported" } });
        })
        .await?;
    fixture.sidecar("full").wait_submitted(TaskType::SnapshotRestore, TIMEOUT).await?;
    let job = serde_json::to_value(fixture.api::<Job>().get("full-bootstrap").await?)?;
    held.remove();
    assert_eq!(fixture.sidecar("full").complete(TaskType::SnapshotRestore), 1);
    fixture.wait_ready("full", "it is ready").await?;
    let set = serde_json::to_value(fixture.api::<StatefulSet>().get("full").await?)?;
    let (job, set) = (&job["spec"]["template"]["spec"], &set["spec"]["template"]["spec"]);
    for pod in [job, set] {
        let volumes = pod["volumes"].as_array().expect("volumes");
        let claims: Vec<&Value> = volumes
            .iter()
            .map(|volume| &volume["persistentVolumeClaim"]["claimName"])
            .filter(|name| name.is_string())
            .collect();
        assert_eq!(claims, [&json!("imported")]);
    }
    assert!(job["securityContext"]["fsGroup"].is_number(), "{}", job["securityContext"]);
    assert_eq!(job["securityContext"], set["securityContext"]);
    let context = |pod: &Value| {
        let containers = pod["containers"].as_array().expect("containers");
        containers.iter().find(|container| container["name"] == "seid").expect("the seid container")["securityContext"].clone()
    };
    assert_eq!(context(job), context(set));
    Ok(())
}

/// The Job was deleted by its TTL an hour after it finished: an operator that restarted later took success for failure.
pub async fn finished_bootstrap_is_recognized_after_restart(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    fixture.create("full", with_bootstrap).await?;
    fixture.sidecar("full").wait_submitted(TaskType::MarkReady, TIMEOUT).await?;
    operator.kill()?;
    let is_finished = |job: &Job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1));
    let job = fixture.wait_until_object::<Job>("full-bootstrap", "it finished", is_finished).await?;
    let ttl = job.spec.and_then(|spec| spec.ttl_seconds_after_finished);
    assert_eq!(ttl, None, "the Job has no TTL");
    let _operator = fixture.start_operator()?;
    let node = fixture.wait_ready("full", "it is ready").await?;
    assert_eq!(node.status.and_then(|status| status.plan).map(|plan| plan.phase), Some(PlanPhase::Complete));
    assert_eq!(fixture.api::<Job>().get_opt("full-bootstrap").await?, None, "the operator deletes it");
    Ok(())
}

/// The reason why the API server rejected an object was only in the log of the operator.
pub async fn rejected_spec_is_reported_in_status(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let invalid = json!({ "requests": { "memory": "2Gi" }, "limits": { "memory": "1Gi" } });
    fixture.create("full", |node| node["spec"]["sidecar"] = json!({ "resources": invalid })).await?;
    let is_reported = |status: &SeiNodeStatus| {
        let text = message(status, "Ready");
        status.phase == Some(SeiNodePhase::Failed) && text.contains("memory") && text.contains("limit")
    };
    fixture.wait_until("full", "the API server's error is reported", |_, status| is_reported(status)).await?;
    let valid = json!({ "requests": { "memory": "1Gi" }, "limits": { "memory": "1Gi" } });
    fixture.edit("full", json!({ "spec": { "sidecar": { "resources": valid } } })).await?;
    fixture.wait_ready("full", "an edit fixes it").await?;
    Ok(())
}

/// Requests to sidecars had no timeout: a hanging proxy blocked its node forever.
pub async fn hanging_sidecar_is_reported_unreachable(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let hung = fixture.sidecar("full").on_request(RequestFilter::any(), RequestFault::Hang);
    // A change of the pod triggers a health probe.
    let touch = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/touched": "yes" } } }));
    let begin = Instant::now();
    fixture.api::<Pod>().patch("full-0", &PatchParams::default(), &touch).await?;
    let node = fixture
        .wait_until("full", "the timeout is reported", |_, status| {
            reason(status, "SidecarReady") == "Unreachable"
        })
        .await?;
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    assert_eq!(reason(&node.status.unwrap_or_default(), "Ready"), "SidecarUnreachable");
    hung.remove();
    fixture.wait_ready("full", "it recovers").await?;
    Ok(())
}

/// A changed proxy configuration had no effect: the proxy reads it only once.
pub async fn changed_proxy_config_replaces_the_pod(cx: Context) -> TestResult {
    const HASH: &str = "outrigger.dev/proxy-config-hash";
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    let node = fixture.create_ready("full", |_| {}).await?;
    let current = node.status.and_then(|status| status.current_proxy_config_hash).expect("the field is set");
    operator.kill()?;
    // The state after an older operator: another hash in the template, in the pod and in status.
    let mut set = serde_json::to_value(fixture.api::<StatefulSet>().get("full").await?)?;
    for field in ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"] {
        set["metadata"].as_object_mut().expect("metadata").remove(field);
    }
    set.as_object_mut().expect("an object").remove("status");
    set["spec"]["template"]["metadata"]["annotations"][HASH] = json!("older");
    let apply = PatchParams::apply("seinode-controller").force();
    fixture.api::<StatefulSet>().patch("full", &apply, &Patch::Apply(set)).await?;
    let old = fixture.pod("full").await?;
    fixture.delete::<Pod>("full-0").await?;
    let is_older = |pod: &Pod| {
        pod.uid() != old.uid() && pod.annotations().get(HASH).map(String::as_str) == Some("older")
    };
    let older = fixture.wait_until_object::<Pod>("full-0", "it has the older hash", is_older).await?;
    fixture.patch_status("full", json!({ "currentProxyConfigHash": "older" })).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    let has_current = |status: &SeiNodeStatus| status.current_proxy_config_hash.as_deref() == Some(&current);
    fixture
        .wait_until("full", "it has the current hash", |node, status| {
            is_ready(node, status) && has_current(status)
        })
        .await?;
    let pod = fixture.pod("full").await?;
    assert_ne!(pod.uid(), older.uid());
    assert_eq!(pod.annotations().get(HASH), Some(&current));
    let started = history
        .first("SeiNode", "full", |entry| reason(&entry.status(), "NodeUpdateInProgress") == "UpdateStarted")
        .await?;
    assert!(message(&started.status(), "NodeUpdateInProgress").contains("proxy configuration"));
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    Ok(())
}
