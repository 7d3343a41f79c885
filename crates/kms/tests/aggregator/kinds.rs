//! OpenShift's kinds, each with both forms.

use serde_json::json;
use testbed::{Context, TestResult};

use crate::ground::{AUTHENTICATION, Form, Ground, KUBE, OPENSHIFT, sick, well};

const DEGRADED: &str = "KMSPluginsDegraded";

pub async fn every_kind_is_rolled_up_in_both_forms(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.deploy("encryption-config-3", &[2, 1]).await?;
    ground.pods(&["a", "b"], "3").await?;
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION] {
        ground.object(kind, "cluster", json!({ "managementState": "Managed" })).await?;
    }
    ground.static_pods(&[("a", 3), ("b", 3)]).await?;
    let _aggregator = ground.aggregator("kubeapiserver,openshiftapiserver,authentication")?;
    for form in [Form::Condition, Form::Typed] {
        for kind in [KUBE, OPENSHIFT, AUTHENTICATION] {
            let all = || vec![well("2"), well("1")];
            let reporters = ground.reporters(kind, "cluster", form, &[("a", all()), ("b", all())]);
            let good = ground.until(kind, "cluster", DEGRADED, "AsExpected").await;
            good.map_err(|error| format!("{} {form:?}: {error}", kind.kind))?;
            reporters.set("b", &[sick("2"), well("1")]);
            let message = ground.until(kind, "cluster", DEGRADED, "PluginError").await?;
            assert!(
                message.contains("\nb keyID=2 role=write Error since "),
                "{} {form:?}: {message}",
                kind.kind
            );
            reporters.set("b", &[well("2"), sick("1")]);
            let message = ground.until(kind, "cluster", DEGRADED, "ReadPluginUnhealthy").await?;
            assert!(
                message.contains("\nb keyID=1 role=read Error since "),
                "{} {form:?}: {message}",
                kind.kind
            );
            reporters.set("b", &all());
            ground.until(kind, "cluster", DEGRADED, "AsExpected").await?;
            let converged = ground.condition(kind, "cluster", "KMSRemoteKeyConverged").await?;
            assert_eq!(converged.1, "Settling");
        }
    }
    Ok(())
}

/// Each node is expected to have the plugins of the revision that it runs.
pub async fn a_rollout_is_judged_by_what_each_node_runs(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.deploy("encryption-config-1", &[1]).await?;
    ground.deploy("encryption-config-2", &[2, 1]).await?;
    ground.object(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    ground.static_pods(&[("a", 1), ("b", 1)]).await?;
    let reporters =
        ground.reporters(KUBE, "cluster", Form::Typed, &[("a", vec![well("1")]), ("b", vec![well("1")])]);
    let _aggregator = ground.aggregator("kubeapiserver")?;
    ground.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    ground.roll_out(&[("a", 2), ("b", 1)]).await?;
    reporters.set("a", &[well("2"), well("1")]);
    let message = ground.until(KUBE, "cluster", "KMSPluginsProgressing", "KeySetsDiffer").await?;
    assert_eq!(message, "write key 1, read keys none on b; write key 2, read keys 1 on a");
    ground.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    ground.roll_out(&[("a", 2), ("b", 2)]).await?;
    reporters.set("b", &[well("2"), well("1")]);
    ground.until(KUBE, "cluster", "KMSPluginsProgressing", "AsExpected").await?;
    ground.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    Ok(())
}
