//! Edits of running nodes: whatever they touch, each is one plan and at most one new pod.

use std::time::Duration;

use api::sei_node::{PlanKind, SeiNodeStatus};
use api::sidecar_wire::{TaskType, path};
use http::StatusCode;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};
use testbed::fakes::sidecars::{Outcome, Requests, Trouble};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::begin::fixed_peers;
use crate::diary::Diary;
use crate::ground::{Ground, OTHER_IMAGE, SOON, is_ready, message, reason};

/// Every part of a spec that can be edited, with what the condition calls it.
fn edits() -> [(&'static str, &'static str, Value); 8] {
    [
        ("image", "image", json!({ "image": OTHER_IMAGE })),
        ("sidecar-image", "sidecar image", json!({ "sidecar": { "image": "images.example/sidecar:v2" } })),
        ("port", "sidecar port", json!({ "sidecar": { "port": 7001 } })),
        (
            "resources",
            "sidecar resources",
            json!({ "sidecar": { "resources": { "limits": { "memory": "1Gi" }, "requests": { "cpu": "100m" } } } }),
        ),
        ("labels", "pod labels", json!({ "podLabels": { "team": "infra" } })),
        ("overrides", "overrides", json!({ "overrides": { "evm.http_port": "8545" } })),
        ("peers", "peers", json!({ "peers": fixed_peers() })),
        ("address", "external address", json!({ "externalAddress": "node.example.com:26656" })),
    ]
}

pub async fn an_image_edit_is_one_plan_and_one_pod_cycle(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    let before = ground.running("full", |_| {}).await?;
    let pod = ground.pod("full").await?;
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = ground.until("full", "it runs the new image", is_ready).await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.current_image.as_deref(), Some(OTHER_IMAGE));
    assert_eq!(reason(&status, "NodeUpdateInProgress"), "UpdateComplete");
    let plan = status.plan.expect("it was updated");
    let steps: Vec<&str> = plan.tasks.iter().map(|task| task.task_type.as_str()).collect();
    assert_eq!(
        steps.join(" "),
        "apply-network-policy apply-rbac-proxy-config apply-statefulset apply-service replace-pod observe-image mark-ready"
    );
    let started = diary
        .first("SeiNode", "full", |entry| reason(&entry.status(), "NodeUpdateInProgress") == "UpdateStarted")
        .await?;
    let said = message(&started.status(), "NodeUpdateInProgress").to_owned();
    assert!(said.contains("image images.example/sei:v2 instead of images.example/sei:v1"), "{said}");
    diary.of_node(&node).await?;
    let first = before.status.and_then(|status| status.plan).map(|plan| plan.id).unwrap_or_default();
    assert_eq!(diary.plans_of("full"), [first, plan.id]);
    assert_eq!(ground.pod_deletions_of("full").await?, 1);
    assert_ne!(ground.pod("full").await?.uid(), pod.uid());
    ground.rests(Duration::from_secs(3)).await?;
    Ok(())
}

pub async fn each_edit_alone_is_one_plan_and_at_most_one_pod_cycle(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    for (name, ..) in edits() {
        ground.create(name, |_| {}).await?;
    }
    for (name, ..) in edits() {
        ground.until(name, "it is ready", is_ready).await?;
    }
    for (name, _, spec) in edits() {
        ground.edit(name, json!({ "spec": spec })).await?;
    }
    for (name, phrase, _) in edits() {
        let node = ground.until(name, "its edit is carried out", is_ready).await?;
        diary.of_node(&node).await?;
        assert_eq!(diary.plans_of(name).len(), 2, "{name}: one plan for the edit");
        let started = diary
            .first("SeiNode", name, |entry| {
                reason(&entry.status(), "NodeUpdateInProgress") == "UpdateStarted"
            })
            .await?;
        let said = message(&started.status(), "NodeUpdateInProgress").to_owned();
        assert!(said.contains(phrase), "{name}: {said}");
        assert_eq!(ground.pod_deletions_of(name).await?, 1, "{name}");
        assert_eq!(diary.pods_of(name), 2, "{name}");
    }
    let pod = ground.pod("labels").await?;
    assert_eq!(pod.labels().get("team").map(String::as_str), Some("infra"));
    for (name, tasks) in [
        ("overrides", "config-apply config-validate mark-ready"),
        ("peers", "config-apply discover-peers config-validate mark-ready"),
        ("address", "config-apply config-validate mark-ready"),
        ("image", "mark-ready"),
    ] {
        let begun = ground.begun(name);
        assert_eq!(begun[4..].join(" "), tasks, "{name}");
    }
    Ok(())
}

pub async fn everything_in_one_edit_is_one_plan_and_one_pod_cycle(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    let mut spec = json!({});
    for (_, _, part) in edits() {
        merge(&mut spec, &part);
    }
    ground.edit("full", json!({ "spec": spec })).await?;
    let node = ground.until("full", "all of it is carried out", is_ready).await?;
    diary.of_node(&node).await?;
    assert_eq!(diary.plans_of("full").len(), 2);
    let started = diary
        .first("SeiNode", "full", |entry| reason(&entry.status(), "NodeUpdateInProgress") == "UpdateStarted")
        .await?;
    let said = message(&started.status(), "NodeUpdateInProgress").to_owned();
    for (_, phrase, _) in edits() {
        assert!(said.contains(phrase), "{phrase}: {said}");
    }
    assert_eq!(ground.pod_deletions_of("full").await?, 1);
    assert_eq!(diary.pods_of("full"), 2);
    ground.rests(Duration::from_secs(3)).await?;
    Ok(())
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert_with(|| json!({})), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// A seid that was halted at a height is never ready, and an update is what it waits for.
pub async fn an_update_replaces_the_pod_of_a_node_that_is_not_ready(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    let answer = Trouble::Answer(StatusCode::SERVICE_UNAVAILABLE, String::new());
    ground.sidecar("full").on_request(Requests::path(path::HEALTHZ), answer);
    ground.sidecar("full").restart();
    ground.until("full", "it is not ready", |_, status| reason(status, "SidecarReady") == "NotReady").await?;
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let runs = |status: &SeiNodeStatus| status.current_image.as_deref() == Some(OTHER_IMAGE);
    ground.until("full", "it runs the new image", |_, status| runs(status)).await?;
    assert_eq!(ground.pod_deletions_of("full").await?, 1);
    Ok(())
}

pub async fn a_pod_that_ends_slowly_is_deleted_once_and_those_of_others_never(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    // It has the label of the node and no owner; it waits for a claim that nobody makes.
    let stranger: Pod = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "stranger", "labels": {
            "sei.io/node": "full", "controller-revision-hash": "another",
        } },
        "spec": {
            "serviceAccountName": "seid-node",
            "containers": [{ "name": "seid", "image": "images.example/other:v1" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "nobodys" } }],
        },
    }))
    .expect("it is a pod");
    ground.api::<Pod>().create(&PostParams::default(), &stranger).await?;
    ground.kubelets.remove_pods_after(Duration::from_secs(4));
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    ground.until_object::<Pod>("full-0", "it is going", going).await?;
    operator.kill()?;
    let _operator = ground.operator()?;
    ground.until("full", "it runs the new image", is_ready).await?;
    assert_eq!(ground.pod_deletions_of("full").await?, 1);
    assert_eq!(ground.pod_deletions()?, 1);
    let stranger = ground.api::<Pod>().get("stranger").await?;
    assert_eq!(stranger.metadata.deletion_timestamp, None);
    Ok(())
}

pub async fn a_paused_node_is_left_alone_and_says_what_waits(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    ground.create("new", |node| node["spec"]["paused"] = json!(true)).await?;
    ground.running("full", |_| {}).await?;
    ground.edit("full", json!({ "spec": { "paused": true, "image": OTHER_IMAGE } })).await?;
    let is_paused = |status: &SeiNodeStatus| reason(status, "Paused") == "Paused";
    let node = ground.until("full", "it is paused", |_, status| is_paused(status)).await?;
    let said = message(&node.status.unwrap_or_default(), "Paused").to_owned();
    assert!(said.contains("image images.example/sei:v2"), "{said}");
    ground.until("new", "it is paused", |_, status| is_paused(status)).await?;
    ground.delete::<Service>("full").await?;
    ground.rests(Duration::from_secs(3)).await?;
    assert!(ground.writes()?.iter().all(|write| !write.name.contains("new") || write.resource == "seinodes"));
    assert_eq!(ground.pod_deletions()?, 0);
    for name in ["new", "full"] {
        ground.edit(name, json!({ "spec": { "paused": false } })).await?;
        ground.until(name, "it goes on", is_ready).await?;
    }
    assert_eq!(ground.pod_deletions_of("full").await?, 1);
    ground.api::<Service>().get("full").await?;
    Ok(())
}

pub async fn a_plan_that_is_paused_goes_on_where_it_was(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    let held = ground.sidecar("full").on_task(TaskType::ConfigApply, Outcome::Run);
    ground.create("full", |_| {}).await?;
    ground.sidecar("full").wait_submitted(TaskType::ConfigApply, SOON).await?;
    ground.edit("full", json!({ "spec": { "paused": true } })).await?;
    let node = ground.until("full", "it is paused", |_, status| reason(status, "Paused") == "Paused").await?;
    let plan = node.status.and_then(|status| status.plan).map(|plan| plan.id);
    held.lift();
    assert_eq!(ground.sidecar("full").complete(TaskType::ConfigApply), 1);
    wait::throughout("nothing is given", Duration::from_secs(2), || async {
        match ground.given("full", TaskType::ConfigValidate) {
            0 => Ok(()),
            given => Err(format!("config-validate was given {given} times")),
        }
    })
    .await?;
    ground.edit("full", json!({ "spec": { "paused": false } })).await?;
    let node = ground.until("full", "it goes on", is_ready).await?;
    let now = node.status.and_then(|status| status.plan).expect("it was set up");
    assert_eq!((Some(now.id), now.kind), (plan, Some(PlanKind::Init)));
    assert!(ground.sidecars.journal().repeats().is_empty());
    Ok(())
}
