//! Removal of stale reports.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Form, INTERVAL, KUBE, TIMEOUT, healthy};

const DEGRADED: &str = "KMSPluginsDegraded";

/// T-G9, T-G11: nodes are removed, replaced under the same name, scaled from three to five and back.
pub async fn only_reports_without_live_reporter_are_removed(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.deploy_keys("encryption-config-1", &[1]).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    let all = ["a", "b", "c", "d", "e"];
    let at = |nodes: &[&'static str]| -> Vec<(&'static str, i64)> {
        nodes.iter().map(|node| (*node, 1)).collect()
    };
    fixture.set_static_pods(&at(&all[..3])).await?;
    let report = || vec![healthy("1")];
    let first: Vec<_> = all[..3].iter().map(|node| (*node, report())).collect();
    let reporters = fixture.reporters(KUBE, "cluster", Form::Typed, &first);
    let _aggregator = fixture.aggregator("kubeapiserver")?;
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    fixture.set_static_pods(&at(&all)).await?;
    all[3..].iter().for_each(|node| reporters.set(node, &report()));
    fixture.until_reports(KUBE, "cluster", &["a/1", "b/1", "c/1", "d/1", "e/1"]).await?;
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    // Back to three nodes; the reporter of a removed one stays alive.
    fixture.roll_out(&at(&all[..3])).await?;
    reporters.set("d", &[]);
    fixture.until_reports(KUBE, "cluster", &["a/1", "b/1", "c/1", "e/1"]).await?;
    wait::throughout("the report of the live reporter", INTERVAL * 10, || async {
        let reports = fixture.reports(KUBE, "cluster").await.map_err(|error| error.to_string())?;
        if reports.contains(&"e/1".to_owned()) { Ok(()) } else { Err(format!("{reports:?}")) }
    })
    .await?;
    // A node is away for less than the removal timeout and comes back under its name.
    fixture.roll_out(&at(&all[..2])).await?;
    reporters.set("c", &[]);
    fixture.set_static_pods(&at(&all[..3])).await?;
    reporters.set("c", &report());
    reporters.set("e", &[]);
    fixture.until_reports(KUBE, "cluster", &["a/1", "b/1", "c/1"]).await?;
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    // Events are sent in the background, so the second one may arrive after the report is gone.
    let removed = wait::until("an event per removal", TIMEOUT, || async {
        let events = fixture.events("cluster").await.map_err(|error| error.to_string())?;
        let removed = events.iter().filter(|(reason, _)| reason == "KMSReportsRemoved").count();
        if removed >= 2 { Ok(removed) } else { Err(format!("{events:?}")) }
    })
    .await?;
    assert_eq!(removed, 2);
    Ok(())
}

/// T-G10: an object with the maximum number of reports.
pub async fn full_object_accepts_new_nodes_after_cleanup(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.deploy_keys("encryption-config-1", &[1]).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    fixture.set_static_pods(&[("new", 1)]).await?;
    let old = |n: usize| json!({ "nodeName": format!("old-{n:03}"), "keyID": "1", "status": "Healthy", "remoteKeyID": "k", "lastCheckedTime": "2026-01-01T00:00:00Z" });
    let list: Vec<Value> = (0..200).map(old).collect();
    fixture.patch_status(KUBE, "cluster", json!({ "encryptionStatus": { "healthReports": list } })).await?;
    let rejected = fixture.report(KUBE, "cluster", Form::Typed, "new", &[healthy("1")]).await;
    let error = rejected.expect_err("the object is full").to_string();
    assert!(error.contains("200"), "{error}");
    let _reporters = fixture.reporters(KUBE, "cluster", Form::Typed, &[("new", vec![healthy("1")])]);
    let _aggregator = fixture.aggregator("kubeapiserver")?;
    fixture.until_reports(KUBE, "cluster", &["new/1"]).await?;
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    // Emitted once, although the object was reconciled often while it was full.
    let events = fixture.events("cluster").await?;
    let full: Vec<_> = events.iter().filter(|(reason, _)| reason == "KMSReportsNearlyFull").collect();
    assert!(full.len() == 1 && full[0].1.starts_with("200 of at most 200 reports"), "{events:?}");
    Ok(())
}

/// T-G8: KMS encryption is disabled.
pub async fn disabling_kms_removes_conditions_and_reports(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.deploy_keys("encryption-config-1", &[1]).await?;
    fixture.deploy_keys("encryption-config-2", &[]).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    fixture.set_static_pods(&[("a", 1), ("b", 1)]).await?;
    let foreign = json!([{ "type": "Encrypted", "status": "True", "reason": "EncryptionCompleted", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    fixture.patch_status(KUBE, "cluster", json!({ "conditions": foreign })).await?;
    let typed = fixture.reporters(KUBE, "cluster", Form::Typed, &[("a", vec![healthy("1")])]);
    let in_condition = fixture.reporters(KUBE, "cluster", Form::Condition, &[("b", vec![healthy("1")])]);
    let _aggregator = fixture.aggregator("kubeapiserver")?;
    fixture.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    fixture.roll_out(&[("a", 2), ("b", 2)]).await?;
    drop((typed, in_condition));
    for type_ in [DEGRADED, "KMSPluginsAvailable", "KMSPluginsProgressing", "KMSRemoteKeyConverged"] {
        fixture.until(KUBE, "cluster", type_, "").await?;
    }
    // The schema allows neither an empty list nor an empty object around it.
    wait::until("the reports to be removed", TIMEOUT, || async {
        let object = KUBE.api(&fixture.client).get("cluster").await.map_err(|error| error.to_string())?;
        let status = &object.data["status"];
        let types: Vec<&str> = status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["type"].as_str())
            .collect();
        if status["encryptionStatus"].is_null() && types == ["Encrypted"] {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await?;
    fixture.assert_no_writes_for(Duration::from_secs(10)).await?;
    // A preflight result next to the reports is kept.
    let preflight = json!({ "observedConfigHash": "cuZm_g==" });
    fixture.report(KUBE, "cluster", Form::Typed, "a", &[healthy("1")]).await?;
    fixture.patch_status(KUBE, "cluster", json!({ "encryptionStatus": { "preflight": preflight } })).await?;
    fixture.until_reports(KUBE, "cluster", &[]).await?;
    let object = KUBE.api(&fixture.client).get("cluster").await?;
    assert_eq!(object.data["status"]["encryptionStatus"], json!({ "preflight": preflight }));
    Ok(())
}
