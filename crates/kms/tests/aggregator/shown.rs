//! Conditions on the ClusterOperator, where no other operator puts them there.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::ground::{Form, Ground, KUBE, SOON, cluster_operators, sick, well};

/// T-G13 on the real thing: two minutes pass before what is bad counts.
pub async fn conditions_reach_the_cluster_operator_and_rest(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    let operators = cluster_operators(&ground).await?;
    ground.deploy("encryption-config-1", &[1]).await?;
    ground.object(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    ground.static_pods(&[("a", 1)]).await?;
    // Bad for longer than the inertia: it counts at once.
    let foreign = json!([{ "type": "NodeControllerDegraded", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    ground.operator_writes(KUBE, "cluster", json!({ "conditions": foreign })).await?;
    let reporters = ground.reporters(KUBE, "cluster", Form::Typed, &[("a", vec![well("1")])]);
    let user = ground.plane.user("kms-aggregator", Some("system:masters"))?;
    let _aggregator = ground.aggregator_as("aggregator", &user, "kubeapiserver", |program| {
        ground.alone(program).flag("cluster-operator", "kube-apiserver")
    })?;
    let slot = |name: &'static str, status: &'static str, reason: &'static str| {
        let operators = operators.clone();
        wait::until(format!("{name}={status} for {reason}"), Duration::from_secs(180), move || {
            let operators = operators.clone();
            async move {
                let object = operators.get("kube-apiserver").await.map_err(|error| error.to_string())?;
                let conditions = object.data["status"]["conditions"].clone();
                let found =
                    conditions.as_array().into_iter().flatten().find(|one| one["type"] == name).cloned();
                match found {
                    Some(one) if one["status"] == status && one["reason"] == reason => Ok(one),
                    other => Err(format!("{other:?}")),
                }
            }
        })
    };
    slot("Degraded", "False", "AsExpected").await?;
    slot("Available", "True", "AsExpected").await?;
    slot("Upgradeable", "Unknown", "NoData").await?;
    ground.rests_for(Duration::from_secs(10)).await?;
    reporters.set("a", &[sick("1")]);
    slot("Available", "False", "KMSPlugins_WritePluginDown").await?;
    let seen: Value = slot("Degraded", "False", "AsExpected").await?;
    assert!(
        seen["message"].as_str().is_some_and(|said| said.contains("KMSPluginsDegraded: a keyID=1")),
        "{seen}"
    );
    let degraded = slot("Degraded", "True", "KMSPlugins_PluginError").await?;
    assert!(
        degraded["message"].as_str().is_some_and(|said| said.contains("KMSPluginsDegraded: ")),
        "{degraded}"
    );
    ground.remove(KUBE, "cluster").await?;
    wait::until("its end", SOON, || async {
        match operators.get_opt("kube-apiserver").await {
            Ok(None) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await?;
    Ok(())
}
