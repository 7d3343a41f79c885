//! Rollup of conditions into a ClusterOperator.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Form, KUBE, TIMEOUT, failing, healthy, install_cluster_operators};

/// T-G13 with a real API server: a bad condition counts after an inertia of two minutes.
pub async fn conditions_are_rolled_up_after_inertia(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let operators = install_cluster_operators(&fixture).await?;
    fixture.deploy_keys("encryption-config-1", &[1]).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    fixture.set_static_pods(&[("a", 1)]).await?;
    // Unchanged for longer than its inertia: it counts immediately.
    let foreign = json!([{ "type": "NodeControllerDegraded", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    fixture.patch_status(KUBE, "cluster", json!({ "conditions": foreign })).await?;
    let reporters = fixture.reporters(KUBE, "cluster", Form::Typed, &[("a", vec![healthy("1")])]);
    let user = fixture.plane.user("kms-aggregator", Some("system:masters"))?;
    let _aggregator = fixture.aggregator_as("aggregator", &user, "kubeapiserver", |program| {
        fixture.without_election(program).flag("cluster-operator", "kube-apiserver")
    })?;
    let until_condition = |name: &'static str, status: &'static str, reason: &'static str| {
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
    until_condition("Degraded", "False", "AsExpected").await?;
    until_condition("Available", "True", "AsExpected").await?;
    until_condition("Upgradeable", "Unknown", "NoData").await?;
    fixture.assert_no_writes_for(Duration::from_secs(10)).await?;
    reporters.set("a", &[failing("1")]);
    until_condition("Available", "False", "KMSPlugins_WritePluginDown").await?;
    let degraded: Value = until_condition("Degraded", "False", "AsExpected").await?;
    assert!(
        degraded["message"].as_str().is_some_and(|message| message.contains("KMSPluginsDegraded: a keyID=1")),
        "{degraded}"
    );
    let degraded = until_condition("Degraded", "True", "KMSPlugins_PluginError").await?;
    assert!(
        degraded["message"].as_str().is_some_and(|message| message.contains("KMSPluginsDegraded: ")),
        "{degraded}"
    );
    fixture.delete(KUBE, "cluster").await?;
    wait::until("the deletion", TIMEOUT, || async {
        match operators.get_opt("kube-apiserver").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    Ok(())
}
