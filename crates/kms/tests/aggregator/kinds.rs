//! Rollup of reports in OpenShift's kinds, in both formats.

use serde_json::json;
use testbed::{Context, TestResult};

use crate::fixture::{AUTHENTICATION, Fixture, Form, KUBE, OPENSHIFT, failing, healthy};

const DEGRADED: &str = "KMSPluginsDegraded";

pub async fn every_kind_is_rolled_up_in_both_formats(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.deploy_keys("encryption-config-3", &[2, 1]).await?;
    fixture.create_ready_pods(&["a", "b"], "3").await?;
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION] {
        fixture.create(kind, "cluster", json!({ "managementState": "Managed" })).await?;
    }
    fixture.set_static_pods(&[("a", 3), ("b", 3)]).await?;
    let _aggregator = fixture.aggregator("kubeapiserver,openshiftapiserver,authentication")?;
    for form in [Form::Condition, Form::Typed] {
        for kind in [KUBE, OPENSHIFT, AUTHENTICATION] {
            let all = || vec![healthy("2"), healthy("1")];
            let reporters = fixture.reporters(kind, "cluster", form, &[("a", all()), ("b", all())]);
            let healthy_rollup = fixture.until(kind, "cluster", DEGRADED, "AsExpected").await;
            healthy_rollup.map_err(|error| format!("{} {form:?}: {error}", kind.kind))?;
            reporters.set("b", &[failing("2"), healthy("1")]);
            let message = fixture.until(kind, "cluster", DEGRADED, "PluginError").await?;
            assert!(
                message.contains("\nb keyID=2 role=write Error since "),
                "{} {form:?}: {message}",
                kind.kind
            );
            reporters.set("b", &[healthy("2"), failing("1")]);
            let message = fixture.until(kind, "cluster", DEGRADED, "ReadPluginUnhealthy").await?;
            assert!(
                message.contains("\nb keyID=1 role=read Error since "),
                "{} {form:?}: {message}",
                kind.kind
            );
            reporters.set("b", &all());
            fixture.until(kind, "cluster", DEGRADED, "AsExpected").await?;
            let converged = fixture.condition(kind, "cluster", "KMSRemoteKeyConverged").await?;
            assert_eq!(converged.1, "Settling");
        }
    }
    Ok(())
}

/// During a rollout, each node is expected to report the keys of its own revision.
pub async fn rollout_expects_keys_of_each_nodes_revision(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.deploy_keys("encryption-config-1", &[1]).await?;
    fixture.deploy_keys("encryption-config-2", &[2, 1]).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    fixture.set_static_pods(&[("a", 1), ("b", 1)]).await?;
    let reporters = fixture.reporters(
        KUBE,
        "cluster",
        Form::Typed,
        &[("a", vec![healthy("1")]), ("b", vec![healthy("1")])],
    );
    let _aggregator = fixture.aggregator("kubeapiserver")?;
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    fixture.roll_out(&[("a", 2), ("b", 1)]).await?;
    reporters.set("a", &[healthy("2"), healthy("1")]);
    let message = fixture.until(KUBE, "cluster", "KMSPluginsProgressing", "KeySetsDiffer").await?;
    assert_eq!(message, "write key 1, read keys none on b; write key 2, read keys 1 on a");
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    fixture.roll_out(&[("a", 2), ("b", 2)]).await?;
    reporters.set("b", &[healthy("2"), healthy("1")]);
    fixture.until(KUBE, "cluster", "KMSPluginsProgressing", "AsExpected").await?;
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    Ok(())
}
