//! Edits of running nodes: each is one plan and at most one new pod.

use std::time::Duration;

use api::sei_node::{PlanKind, SeiNodeStatus};
use api::sidecar_wire::{TaskType, path};
use http::StatusCode;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::fakes::sidecars::{RequestFault, RequestFilter, ScriptedOutcome};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::creation::static_peers;
use crate::fixture::{Fixture, OTHER_IMAGE, TIMEOUT, message, reason};
use crate::history::History;

/// Every editable field of a spec: the name of the test node, the name of the field in conditions, and the edit.
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
        ("peers", "peers", json!({ "peers": static_peers() })),
        ("address", "external address", json!({ "externalAddress": "node.example.com:26656" })),
    ]
}

pub async fn image_edit_is_one_plan_and_one_pod_cycle(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    let before = fixture.create_ready("full", |_| {}).await?;
    let pod = fixture.pod("full").await?;
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let node = fixture.wait_ready("full", "it runs the new image").await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.current_image.as_deref(), Some(OTHER_IMAGE));
    assert_eq!(reason(&status, "NodeUpdateInProgress"), "UpdateComplete");
    let plan = status.plan.expect("an update plan");
    let steps: Vec<&str> = plan.tasks.iter().map(|task| task.task_type.as_str()).collect();
    assert_eq!(
        steps.join(" "),
        "apply-network-policy apply-rbac-proxy-config apply-statefulset apply-service replace-pod observe-image mark-ready"
    );
    let started = history
        .first("SeiNode", "full", |entry| reason(&entry.status(), "NodeUpdateInProgress") == "UpdateStarted")
        .await?;
    let text = message(&started.status(), "NodeUpdateInProgress").to_owned();
    assert!(text.contains("image images.example/sei:v2 instead of images.example/sei:v1"), "{text}");
    history.entries_of_node(&node).await?;
    let first = before.status.and_then(|status| status.plan).map(|plan| plan.id).unwrap_or_default();
    assert_eq!(history.plan_ids("full"), [first, plan.id]);
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    assert_ne!(fixture.pod("full").await?.uid(), pod.uid());
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    Ok(())
}

pub async fn each_edit_is_one_plan_and_at_most_one_pod_cycle(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    for (name, ..) in edits() {
        fixture.create(name, |_| {}).await?;
    }
    for (name, ..) in edits() {
        fixture.wait_ready(name, "it is ready").await?;
    }
    for (name, _, spec) in edits() {
        fixture.edit(name, json!({ "spec": spec })).await?;
    }
    for (name, field, _) in edits() {
        let node = fixture.wait_ready(name, "its edit is applied").await?;
        history.entries_of_node(&node).await?;
        assert_eq!(history.plan_ids(name).len(), 2, "{name}: one plan for the edit");
        let started = history
            .first("SeiNode", name, |entry| {
                reason(&entry.status(), "NodeUpdateInProgress") == "UpdateStarted"
            })
            .await?;
        let text = message(&started.status(), "NodeUpdateInProgress").to_owned();
        assert!(text.contains(field), "{name}: {text}");
        assert_eq!(fixture.pod_deletion_count_of(name).await?, 1, "{name}");
        assert_eq!(history.pod_count(name), 2, "{name}");
    }
    let pod = fixture.pod("labels").await?;
    assert_eq!(pod.labels().get("team").map(String::as_str), Some("infra"));
    for (name, tasks) in [
        ("overrides", "config-apply config-validate mark-ready"),
        ("peers", "config-apply discover-peers config-validate mark-ready"),
        ("address", "config-apply config-validate mark-ready"),
        ("image", "mark-ready"),
    ] {
        let started = fixture.started_tasks(name);
        assert_eq!(started[4..].join(" "), tasks, "{name}");
    }
    Ok(())
}

pub async fn combined_edit_is_one_plan_and_one_pod_cycle(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let mut spec = json!({});
    for (_, _, edit) in edits() {
        merge(&mut spec, &edit);
    }
    fixture.edit("full", json!({ "spec": spec })).await?;
    let node = fixture.wait_ready("full", "all edits are applied").await?;
    history.entries_of_node(&node).await?;
    assert_eq!(history.plan_ids("full").len(), 2);
    let started = history
        .first("SeiNode", "full", |entry| reason(&entry.status(), "NodeUpdateInProgress") == "UpdateStarted")
        .await?;
    let text = message(&started.status(), "NodeUpdateInProgress").to_owned();
    for (_, field, _) in edits() {
        assert!(text.contains(field), "{field}: {text}");
    }
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    assert_eq!(history.pod_count("full"), 2);
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
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

/// A seid that halted at an upgrade height is never ready, and needs the update.
pub async fn update_replaces_the_pod_of_an_unready_node(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let response = RequestFault::Respond(StatusCode::SERVICE_UNAVAILABLE, String::new());
    fixture.sidecar("full").on_request(RequestFilter::path(path::HEALTHZ), response);
    fixture.sidecar("full").restart();
    fixture
        .wait_until("full", "it is not ready", |_, status| reason(status, "SidecarReady") == "NotReady")
        .await?;
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let has_new_image = |status: &SeiNodeStatus| status.current_image.as_deref() == Some(OTHER_IMAGE);
    fixture.wait_until("full", "it runs the new image", |_, status| has_new_image(status)).await?;
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    Ok(())
}

pub async fn slow_pod_is_deleted_once_and_foreign_pods_never(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    // A pod with the label of the node and no owner. It stays pending: its claim does not exist.
    let foreign: Pod = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "foreign", "labels": {
            "sei.io/node": "full", "controller-revision-hash": "another",
        } },
        "spec": {
            "serviceAccountName": "seid-node",
            "containers": [{ "name": "seid", "image": "images.example/other:v1" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "missing" } }],
        },
    }))
    .expect("a valid pod");
    fixture.api::<Pod>().create(&PostParams::default(), &foreign).await?;
    fixture.kubelets.remove_pods_after(Duration::from_secs(4));
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    let is_terminating = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    fixture.wait_until_object::<Pod>("full-0", "it is terminating", is_terminating).await?;
    operator.kill()?;
    let _operator = fixture.start_operator()?;
    fixture.wait_ready("full", "it runs the new image").await?;
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    assert_eq!(fixture.pod_deletion_count()?, 1);
    let foreign = fixture.api::<Pod>().get("foreign").await?;
    assert_eq!(foreign.metadata.deletion_timestamp, None);
    Ok(())
}

pub async fn paused_node_is_untouched_and_reports_pending_edits(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create("new", |node| node["spec"]["paused"] = json!(true)).await?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.edit("full", json!({ "spec": { "paused": true, "image": OTHER_IMAGE } })).await?;
    let is_paused = |status: &SeiNodeStatus| reason(status, "Paused") == "Paused";
    let node = fixture.wait_until("full", "it is paused", |_, status| is_paused(status)).await?;
    let text = message(&node.status.unwrap_or_default(), "Paused").to_owned();
    assert!(text.contains("image images.example/sei:v2"), "{text}");
    fixture.wait_until("new", "it is paused", |_, status| is_paused(status)).await?;
    fixture.delete::<Service>("full").await?;
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert!(
        fixture.writes()?.iter().all(|write| !write.name.contains("new") || write.resource == "seinodes")
    );
    assert_eq!(fixture.pod_deletion_count()?, 0);
    for name in ["new", "full"] {
        fixture.edit(name, json!({ "spec": { "paused": false } })).await?;
        fixture.wait_ready(name, "it resumes").await?;
    }
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    fixture.api::<Service>().get("full").await?;
    Ok(())
}

pub async fn paused_plan_resumes(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let held = fixture.sidecar("full").on_task(TaskType::ConfigApply, ScriptedOutcome::Run);
    fixture.create("full", |_| {}).await?;
    fixture.sidecar("full").wait_submitted(TaskType::ConfigApply, TIMEOUT).await?;
    fixture.edit("full", json!({ "spec": { "paused": true } })).await?;
    let node =
        fixture.wait_until("full", "it is paused", |_, status| reason(status, "Paused") == "Paused").await?;
    let plan = node.status.and_then(|status| status.plan).map(|plan| plan.id);
    held.remove();
    assert_eq!(fixture.sidecar("full").complete(TaskType::ConfigApply), 1);
    wait::throughout("no task is submitted", Duration::from_secs(2), || async {
        match fixture.submission_count("full", TaskType::ConfigValidate) {
            0 => Ok(()),
            count => Err(format!("config-validate was submitted {count} times")),
        }
    })
    .await?;
    fixture.edit("full", json!({ "spec": { "paused": false } })).await?;
    let node = fixture.wait_ready("full", "it resumes").await?;
    let now = node.status.and_then(|status| status.plan).expect("a plan");
    assert_eq!((Some(now.id), now.kind), (plan, Some(PlanKind::Init)));
    assert!(fixture.sidecars.journal().duplicates().is_empty());
    Ok(())
}

/// What can be judged before the pod is touched is judged before, and the corrected edit applies.
pub async fn bad_edit_replaces_no_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let (pod, tasks) = (fixture.pod("full").await?, fixture.started_tasks("full"));
    let edits = [
        (json!({ "overrides": { "evm.htp_port": "8545" } }), "spec.overrides.evm.htp_port: unknown setting"),
        (
            json!({ "overrides": { "evm.htp_port": null, "evm.http_port": "many" } }),
            "spec.overrides.evm.http_port: ",
        ),
        (
            json!({ "overrides": null, "peers": [{ "static": { "addresses": ["node@host:26656"] } }] }),
            "spec.peers[0].static",
        ),
        (json!({ "peers": null, "image": "Images.example/Sei:v1" }), "spec.image: "),
    ];
    for (spec, expected) in edits {
        fixture.edit("full", json!({ "spec": spec })).await?;
        let node = fixture
            .wait_until("full", "the problem is reported", |_, status| {
                message(status, "SpecApplied").contains(expected)
            })
            .await?;
        let status = node.status.unwrap_or_default();
        assert_eq!(reason(&status, "SpecApplied"), "SpecInvalid");
        assert_eq!(reason(&status, "Ready"), "SpecNotApplied");
    }
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    assert_eq!((fixture.pod("full").await?.uid(), fixture.started_tasks("full")), (pod.uid(), tasks));
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    fixture.wait_ready("full", "the corrected edit applies").await?;
    assert_eq!(fixture.pod_deletion_count_of("full").await?, 1);
    Ok(())
}

/// The sidecar may know other settings than the operator, and the files on its volume may be damaged.
pub async fn rejected_dry_run_replaces_no_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    fixture.assert_no_writes(Duration::from_secs(1)).await?;
    let (pod, tasks, writes) =
        (fixture.pod("full").await?, fixture.started_tasks("full"), fixture.writes()?.len());
    let set = fixture.api::<StatefulSet>().get("full").await?;
    let (sidecar, dry_runs) = (fixture.sidecar("full"), || RequestFilter::path(path::DRY_RUN));
    let why = "config-apply incremental: config.toml is not valid TOML";
    let rejection = sidecar.on_request(dry_runs(), RequestFault::unprocessable(why));
    fixture.edit("full", json!({ "spec": { "overrides": { "evm.http_port": "8545" } } })).await?;
    let is_rejected = |status: &SeiNodeStatus| {
        message(status, "SpecApplied").contains(why) && reason(status, "SpecApplied") == "SpecInvalid"
    };
    fixture.wait_until("full", "the rejection is reported", |_, status| is_rejected(status)).await?;
    let asked = rejection.fired();
    operator.kill()?;
    let _operator = fixture.start_operator()?;
    fixture.assert_no_writes(Duration::from_secs(3)).await?;
    let node = fixture.nodes().get("full").await?;
    let status = node.status.unwrap_or_default();
    assert!(is_rejected(&status), "{status:?}");
    assert_eq!(reason(&status, "Ready"), "SpecNotApplied");
    let failed = status.last_failed_plan.expect("a failed plan");
    assert_eq!((failed.task.task_type.as_str(), failed.task.error.as_str()), ("dry-run-config", why));
    assert_eq!(rejection.fired(), asked, "not asked again");
    let new_writes = fixture.writes()?.split_off(writes);
    let is_report = |write: &AuditedRequest| write.resource == "events" || write.subresource == "status";
    assert!(new_writes.iter().all(is_report), "{new_writes:?}");
    assert_eq!(fixture.pod_deletion_count()?, 0);
    assert_eq!((fixture.pod("full").await?.uid(), fixture.started_tasks("full")), (pod.uid(), tasks));
    let set_now = fixture.api::<StatefulSet>().get("full").await?;
    assert_eq!(set_now.metadata.resource_version, set.metadata.resource_version);
    rejection.remove();

    // An older sidecar does not know the path, and a slow one answers late.
    for (count, port, fault) in [
        (1, "8546", RequestFault::Respond(StatusCode::NOT_FOUND, "404 page not found".into())),
        (2, "8547", RequestFault::DelayResponse(Duration::from_secs(1))),
        (3, "8548", RequestFault::Reset),
    ] {
        let script = sidecar.on_request(dry_runs(), fault);
        fixture.edit("full", json!({ "spec": { "overrides": { "evm.http_port": port } } })).await?;
        fixture.wait_ready("full", "the next edit applies").await?;
        assert_eq!(fixture.pod_deletion_count_of("full").await?, count, "{port}");
        assert!(script.fired() > 0, "{port}");
        script.remove();
    }
    Ok(())
}
