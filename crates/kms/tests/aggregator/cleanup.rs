//! Entries that nobody needs go, those of live reporters stay.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::ground::{Form, Ground, INTERVAL, KUBE, SOON, well};

const DEGRADED: &str = "KMSPluginsDegraded";

/// T-G9, T-G11: nodes are removed, replaced under their names, scaled from three to five and back.
pub async fn entries_of_nodes_that_are_gone_go_and_those_of_live_reporters_never_do(
    cx: Context,
) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.deploy("encryption-config-1", &[1]).await?;
    ground.object(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    let all = ["a", "b", "c", "d", "e"];
    let at = |nodes: &[&'static str]| -> Vec<(&'static str, i64)> {
        nodes.iter().map(|node| (*node, 1)).collect()
    };
    ground.static_pods(&at(&all[..3])).await?;
    let report = || vec![well("1")];
    let first: Vec<_> = all[..3].iter().map(|node| (*node, report())).collect();
    let reporters = ground.reporters(KUBE, "cluster", Form::Typed, &first);
    let _aggregator = ground.aggregator("kubeapiserver")?;
    ground.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    ground.static_pods(&at(&all)).await?;
    all[3..].iter().for_each(|node| reporters.set(node, &report()));
    ground.until_entries(KUBE, "cluster", &["a/1", "b/1", "c/1", "d/1", "e/1"]).await?;
    ground.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    // Back to three; the reporter of one that is gone lives on.
    ground.roll_out(&at(&all[..3])).await?;
    reporters.set("d", &[]);
    ground.until_entries(KUBE, "cluster", &["a/1", "b/1", "c/1", "e/1"]).await?;
    wait::throughout("the live entry", INTERVAL * 10, || async {
        let seen = ground.entries(KUBE, "cluster").await.map_err(|error| error.to_string())?;
        if seen.contains(&"e/1".to_owned()) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await?;
    // One is away for less than it takes to be removed, and comes back under its name.
    ground.roll_out(&at(&all[..2])).await?;
    reporters.set("c", &[]);
    ground.static_pods(&at(&all[..3])).await?;
    reporters.set("c", &report());
    reporters.set("e", &[]);
    ground.until_entries(KUBE, "cluster", &["a/1", "b/1", "c/1"]).await?;
    ground.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    let events = ground.events("cluster").await?;
    let removed = events.iter().filter(|(reason, _)| reason == "KMSReportsRemoved").count();
    assert_eq!(removed, 2, "{events:?}");
    Ok(())
}

/// T-G10.
pub async fn a_full_object_takes_new_nodes_once_the_old_ones_are_removed(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.deploy("encryption-config-1", &[1]).await?;
    ground.object(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    ground.static_pods(&[("new", 1)]).await?;
    let old = |n: usize| json!({ "nodeName": format!("old-{n:03}"), "keyID": "1", "status": "Healthy", "remoteKeyID": "k", "lastCheckedTime": "2026-01-01T00:00:00Z" });
    let list: Vec<Value> = (0..200).map(old).collect();
    ground.operator_writes(KUBE, "cluster", json!({ "encryptionStatus": { "healthReports": list } })).await?;
    let refused = ground.report(KUBE, "cluster", Form::Typed, "new", &[well("1")]).await;
    let refused = refused.expect_err("the object is full").to_string();
    assert!(refused.contains("200"), "{refused}");
    let _reporters = ground.reporters(KUBE, "cluster", Form::Typed, &[("new", vec![well("1")])]);
    let _aggregator = ground.aggregator("kubeapiserver")?;
    ground.until_entries(KUBE, "cluster", &["new/1"]).await?;
    ground.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    // Told once, although it was looked at often before the old ones were removed.
    let events = ground.events("cluster").await?;
    let full: Vec<_> = events.iter().filter(|(reason, _)| reason == "KMSReportsNearlyFull").collect();
    assert!(full.len() == 1 && full[0].1.starts_with("200 of at most 200 reports"), "{events:?}");
    Ok(())
}

/// T-G8.
pub async fn without_kms_conditions_and_entries_go_and_nothing_comes_back(cx: Context) -> TestResult {
    let ground = Ground::of(&cx).await?;
    ground.deploy("encryption-config-1", &[1]).await?;
    ground.deploy("encryption-config-2", &[]).await?;
    ground.object(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    ground.static_pods(&[("a", 1), ("b", 1)]).await?;
    let foreign = json!([{ "type": "Encrypted", "status": "True", "reason": "EncryptionCompleted", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    ground.operator_writes(KUBE, "cluster", json!({ "conditions": foreign })).await?;
    let typed = ground.reporters(KUBE, "cluster", Form::Typed, &[("a", vec![well("1")])]);
    let told = ground.reporters(KUBE, "cluster", Form::Condition, &[("b", vec![well("1")])]);
    let _aggregator = ground.aggregator("kubeapiserver")?;
    ground.until(KUBE, "cluster", DEGRADED, "AsExpected").await?;
    ground.roll_out(&[("a", 2), ("b", 2)]).await?;
    drop((typed, told));
    for type_ in [DEGRADED, "KMSPluginsAvailable", "KMSPluginsProgressing", "KMSRemoteKeyConverged"] {
        ground.until(KUBE, "cluster", type_, "").await?;
    }
    // Neither the list nor what holds it may be empty.
    wait::until("the entries' end", SOON, || async {
        let object = KUBE.api(&ground.client).get("cluster").await.map_err(|error| error.to_string())?;
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
    ground.rests_for(Duration::from_secs(10)).await?;
    // Where a preflight result stands beside the reports it stays.
    let preflight = json!({ "observedConfigHash": "cuZm_g==" });
    ground.report(KUBE, "cluster", Form::Typed, "a", &[well("1")]).await?;
    ground
        .operator_writes(KUBE, "cluster", json!({ "encryptionStatus": { "preflight": preflight } }))
        .await?;
    ground.until_entries(KUBE, "cluster", &[]).await?;
    let object = KUBE.api(&ground.client).get("cluster").await?;
    assert_eq!(object.data["status"]["encryptionStatus"], json!({ "preflight": preflight }));
    Ok(())
}
