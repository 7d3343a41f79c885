//! Creation of nodes: the order of writes, and the tasks of each node kind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::sei_node::{PlanKind, SeiNodePhase, SeiNodeStatus, TaskStatus};
use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, IMAGE, OTHER_IMAGE, reason};
use crate::history::History;

pub async fn new_node_converges_without_further_writes(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let operator = fixture.start_operator()?;
    let node = fixture.create_ready("full", |_| {}).await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.phase, Some(SeiNodePhase::Running));
    assert_eq!(status.current_image.as_deref(), Some(IMAGE));
    assert_eq!(reason(&status, "SidecarReady"), "Ready");
    assert!(fixture.sidecars.journal().duplicates().is_empty(), "a task was submitted twice");
    fixture.assert_no_writes(Duration::from_secs(5)).await?;
    operator.check_alive()?;
    let now = fixture.nodes().get("full").await?;
    assert_eq!(now.resource_version(), node.resource_version(), "a converged node is not written");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for write in fixture.writes()? {
        *counts.entry(write.resource).or_default() += 1;
    }
    let objects = ["configmaps", "networkpolicies", "persistentvolumeclaims", "services", "statefulsets"];
    for resource in objects {
        assert_eq!(counts.remove(resource), Some(1), "{resource}");
    }
    assert_eq!(counts.remove("events"), Some(2), "one event per phase transition");
    let statuses = counts.remove("seinodes").unwrap_or_default();
    let versions = history.entries_of_node(&node).await?;
    let written: Vec<String> = versions.iter().skip(1).map(|version| describe(&version.status())).collect();
    println!("status writes of a new node: {}", written.join("; "));
    assert_eq!(written.len(), statuses, "{written:?}");
    // The plan is stored, the pod is awaited, the plan completes, the node is ready; a pod that starts slowly adds one.
    assert!((4..=5).contains(&statuses), "{written:?}");
    assert_eq!(counts, BTreeMap::new(), "no other writes");
    assert_eq!(operator.terminate()?, Some(0));
    Ok(())
}

/// Describes what a user sees in a status.
fn describe(status: &SeiNodeStatus) -> String {
    let phase = status.phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
    let waiting = status.waiting_for.as_ref().map_or_else(String::new, |waiting| {
        format!(", waiting for {} ({})", waiting.target, waiting.message.as_deref().unwrap_or_default())
    });
    format!("{phase}{waiting}, Ready={}", reason(status, "Ready"))
}

/// No action of a plan happens before the plan is visible in status.
pub async fn plan_is_stored_before_it_is_executed(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |_| {}).await?;
    let planned = history.first("SeiNode", "full", |entry| entry.status().plan.is_some()).await?;
    let plan = planned.status().plan.expect("a stored plan");
    assert_eq!(plan.kind, Some(PlanKind::Init));
    assert!(plan.tasks.iter().all(|task| task.status == TaskStatus::Pending && task.submitted_at.is_none()));
    assert_eq!(planned.status().phase, Some(SeiNodePhase::Initializing));
    for (kind, name) in [
        ("PersistentVolumeClaim", "data-full"),
        ("NetworkPolicy", "full"),
        ("ConfigMap", "full-rbac-proxy-config"),
        ("StatefulSet", "full"),
        ("Service", "full"),
    ] {
        let created = history.first(kind, name, |_| true).await?;
        assert!(created.version > planned.version, "{kind} {name} was created before the plan was stored");
    }
    fixture.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    fixture.wait_ready("full", "it runs the new image").await?;
    let update = |entry: &crate::history::Entry| {
        entry.status().plan.is_some_and(|plan| plan.kind == Some(PlanKind::NodeUpdate))
    };
    let planned = history.first("SeiNode", "full", update).await?;
    assert_eq!(reason(&planned.status(), "NodeUpdateInProgress"), "UpdateStarted");
    let changed =
        history.first("StatefulSet", "full", |entry| entry.object["metadata"]["generation"] != 1).await?;
    assert!(changed.version > planned.version, "the StatefulSet was changed before the plan was stored");
    let is_terminating =
        |entry: &crate::history::Entry| entry.object["metadata"]["deletionTimestamp"].is_string();
    let deleted = history.first("Pod", "full-0", is_terminating).await?;
    assert!(deleted.version > changed.version, "the pod was deleted before its template was changed");
    Ok(())
}

pub async fn task_ids_are_unique_and_params_match_the_plan(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let history = History::start(&fixture).await?;
    let _operator = fixture.start_operator()?;
    fixture.create_ready("full", |node| node["spec"]["peers"] = static_peers()).await?;
    fixture.edit("full", json!({ "spec": { "overrides": { "evm.http_port": "8545" } } })).await?;
    let node = fixture.wait_ready("full", "the overrides are applied").await?;
    let mut params: BTreeMap<String, Value> = BTreeMap::new();
    let mut plans = BTreeSet::new();
    for entry in history.entries_of_node(&node).await? {
        let Some(plan) = entry.status().plan else { continue };
        let ids: BTreeSet<&String> = plan.tasks.iter().map(|task| &task.id).collect();
        assert_eq!(ids.len(), plan.tasks.len(), "two tasks of one plan have the same id");
        if plans.insert(plan.id.clone()) {
            for task in plan.tasks {
                let before = params.insert(task.id.clone(), task.params.unwrap_or_default());
                assert_eq!(before, None, "{} is in two plans", task.id);
            }
        }
    }
    assert_eq!(plans.len(), 2, "one init plan, one update plan");
    let tasks = fixture.sidecar("full").tasks();
    assert!(tasks.len() >= 7, "{tasks:?}");
    for task in tasks {
        let stored = params.get(&task.id).and_then(Value::as_object).filter(|params| !params.is_empty());
        assert_eq!(task.params.as_ref(), stored, "{}", task.task_type);
    }
    Ok(())
}

pub async fn each_node_kind_runs_its_own_tasks(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let _operator = fixture.start_operator()?;
    let s3 = || json!({ "s3": { "targetHeight": 100 }, "trustPeriod": "168h0m0s" });
    let kinds: [(&str, Value, &str); 7] = [
        (
            "genesis",
            json!({ "fullNode": {}, "peers": static_peers() }),
            "configure-genesis config-apply discover-peers config-validate mark-ready",
        ),
        (
            "snapshot",
            json!({ "fullNode": {
                "snapshot": s3(),
                "snapshotGeneration": { "tendermint": { "keepRecent": 2, "publish": {} } },
            } }),
            "snapshot-restore configure-genesis config-apply configure-state-sync config-validate snapshot-upload \
             mark-ready",
        ),
        (
            "state-sync",
            json!({ "fullNode": { "snapshot": { "stateSync": {} } }, "peers": static_peers() }),
            "configure-genesis config-apply discover-peers configure-state-sync config-validate mark-ready",
        ),
        (
            "replayer",
            json!({ "replayer": { "snapshot": s3() }, "peers": static_peers() }),
            "snapshot-restore configure-genesis config-apply discover-peers configure-state-sync config-validate \
             mark-ready",
        ),
        ("archive", json!({ "archive": {} }), "configure-genesis config-apply config-validate mark-ready"),
        (
            "ceremony",
            json!({ "validator": { "genesisCeremony": {
                "chainId": "arctic-1", "stakingAmount": "10usei", "accountBalance": "100usei", "index": 0,
            } } }),
            "generate-identity generate-gentx upload-genesis-artifacts configure-genesis config-apply set-genesis-peers \
             config-validate mark-ready",
        ),
        (
            "bootstrap",
            json!({ "fullNode": { "snapshot": {
                "s3": { "targetHeight": 100 }, "bootstrapImage": "images.example/sei:v0",
            } } }),
            "snapshot-restore configure-genesis config-apply configure-state-sync config-validate mark-ready \
             configure-genesis config-apply config-validate mark-ready",
        ),
    ];
    for (name, spec, _) in &kinds {
        fixture
            .create(name, |node| {
                node["spec"] = json!({ "chainId": "arctic-1", "image": IMAGE });
                for (field, value) in spec.as_object().expect("an object") {
                    node["spec"][field] = value.clone();
                }
            })
            .await?;
    }
    for (name, _, tasks) in &kinds {
        fixture.wait_ready(name, "it is ready").await?;
        assert_eq!(fixture.started_tasks(name).join(" "), *tasks, "{name}");
    }
    assert!(fixture.sidecars.journal().duplicates().is_empty(), "a task was submitted twice");
    Ok(())
}

/// A static peer.
pub fn static_peers() -> Value {
    json!([{ "static": { "addresses": ["0123456789abcdef0123456789abcdef01234567@host:26656"] } }])
}
