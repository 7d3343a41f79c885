//! How nodes begin: what is written down before it is done, and what is done for each kind of node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::sei_node::{PlanKind, SeiNodePhase, TaskStatus};
use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::diary::Diary;
use crate::ground::{Ground, IMAGE, OTHER_IMAGE, is_ready, reason};

pub async fn a_new_node_runs_and_rests(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let operator = ground.operator()?;
    let node = ground.running("full", |_| {}).await?;
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.phase, Some(SeiNodePhase::Running));
    assert_eq!(status.current_image.as_deref(), Some(IMAGE));
    assert_eq!(reason(&status, "SidecarReady"), "Ready");
    assert!(ground.sidecars.journal().repeats().is_empty(), "a task was given twice");
    ground.rests(Duration::from_secs(5)).await?;
    operator.check_alive()?;
    let now = ground.nodes().get("full").await?;
    assert_eq!(now.resource_version(), node.resource_version(), "nobody wrote the node at rest");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for one in ground.writes()? {
        *counts.entry(one.resource).or_default() += 1;
    }
    let objects = ["configmaps", "networkpolicies", "persistentvolumeclaims", "services", "statefulsets"];
    for resource in objects {
        assert_eq!(counts.remove(resource), Some(1), "{resource}");
    }
    assert_eq!(counts.remove("events"), Some(2), "new, initializing, running");
    let statuses = counts.remove("seinodes").unwrap_or_default();
    assert!(statuses <= 5, "{statuses} writes of the status");
    assert_eq!(counts, BTreeMap::new(), "and nothing else");
    assert_eq!(operator.end()?, Some(0));
    Ok(())
}

/// Upstream's order was not guarded by any test: what nobody could see in status was done.
pub async fn a_plan_is_visible_before_anything_of_it_is_done(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.running("full", |_| {}).await?;
    let planned = diary.first("SeiNode", "full", |entry| entry.status().plan.is_some()).await?;
    let plan = planned.status().plan.expect("it was looked for");
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
        let made = diary.first(kind, name, |_| true).await?;
        assert!(made.at > planned.at, "{kind} {name} was made before the plan was stored");
    }
    ground.edit("full", json!({ "spec": { "image": OTHER_IMAGE } })).await?;
    ground.until("full", "it runs the new image", is_ready).await?;
    let update = |entry: &crate::diary::Entry| {
        entry.status().plan.is_some_and(|plan| plan.kind == Some(PlanKind::NodeUpdate))
    };
    let planned = diary.first("SeiNode", "full", update).await?;
    assert_eq!(reason(&planned.status(), "NodeUpdateInProgress"), "UpdateStarted");
    let changed =
        diary.first("StatefulSet", "full", |entry| entry.object["metadata"]["generation"] != 1).await?;
    assert!(changed.at > planned.at, "the StatefulSet was changed before the plan was stored");
    let going = |entry: &crate::diary::Entry| entry.object["metadata"]["deletionTimestamp"].is_string();
    let deleted = diary.first("Pod", "full-0", going).await?;
    assert!(deleted.at > changed.at, "the pod was deleted before its template was changed");
    Ok(())
}

pub async fn ids_are_unique_and_parameters_arrive_as_they_were_stored(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let diary = Diary::begin(&ground).await?;
    let _operator = ground.operator()?;
    ground.running("full", |node| node["spec"]["peers"] = fixed_peers()).await?;
    ground.edit("full", json!({ "spec": { "overrides": { "evm.http_port": "8545" } } })).await?;
    let node = ground.until("full", "it has its settings", is_ready).await?;
    let mut params: BTreeMap<String, Value> = BTreeMap::new();
    let mut plans = BTreeSet::new();
    for entry in diary.of_node(&node).await? {
        let Some(plan) = entry.status().plan else { continue };
        let ids: BTreeSet<&String> = plan.tasks.iter().map(|task| &task.id).collect();
        assert_eq!(ids.len(), plan.tasks.len(), "two tasks of one plan have the same id");
        if plans.insert(plan.id.clone()) {
            for task in plan.tasks {
                let before = params.insert(task.id.clone(), task.params.unwrap_or_default());
                assert_eq!(before, None, "{} of two plans", task.id);
            }
        }
    }
    assert_eq!(plans.len(), 2, "one plan to set it up, one for the edit");
    let given = ground.sidecar("full").tasks();
    assert!(given.len() >= 7, "{given:?}");
    for task in given {
        let stored = params.get(&task.id).and_then(Value::as_object).filter(|params| !params.is_empty());
        assert_eq!(task.params.as_ref(), stored, "{}", task.task_type);
    }
    Ok(())
}

pub async fn each_kind_of_node_comes_up_by_its_own_tasks(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let _operator = ground.operator()?;
    let s3 = || json!({ "s3": { "targetHeight": 100 }, "trustPeriod": "168h0m0s" });
    let kinds: [(&str, Value, &str); 7] = [
        (
            "genesis",
            json!({ "fullNode": {}, "peers": fixed_peers() }),
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
            json!({ "fullNode": { "snapshot": { "stateSync": {} } }, "peers": fixed_peers() }),
            "configure-genesis config-apply discover-peers configure-state-sync config-validate mark-ready",
        ),
        (
            "replayer",
            json!({ "replayer": { "snapshot": s3() }, "peers": fixed_peers() }),
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
        ground
            .create(name, |node| {
                node["spec"] = json!({ "chainId": "arctic-1", "image": IMAGE });
                for (field, value) in spec.as_object().expect("it is written so above") {
                    node["spec"][field] = value.clone();
                }
            })
            .await?;
    }
    for (name, _, tasks) in &kinds {
        ground.until(name, "it is ready", is_ready).await?;
        assert_eq!(ground.begun(name).join(" "), *tasks, "{name}");
    }
    assert!(ground.sidecars.journal().repeats().is_empty(), "a task was given twice");
    Ok(())
}

/// One peer that has an address.
pub fn fixed_peers() -> Value {
    json!([{ "static": { "addresses": ["id@host:26656"] } }])
}
