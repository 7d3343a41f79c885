//! Server-side apply: who owns what, and what is left when somebody goes.

use std::collections::BTreeMap;

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use plan::kms::publication::manager;
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::ground::{Ground, SOON, place};

/// The fields that each manager owns below the typed reports.
fn owned(object: &Value) -> BTreeMap<String, Vec<String>> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let reports = |entry: &Value| {
        let reports = &entry["fieldsV1"]["f:status"]["f:encryptionStatus"]["f:healthReports"];
        reports.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    let all = entries
        .iter()
        .map(|entry| (entry["manager"].as_str().unwrap_or_default().to_owned(), reports(entry)));
    all.filter(|(manager, _)| manager.starts_with("kms-health-reporter-")).collect()
}

/// T-SSA1.
pub async fn three_reporters_own_their_own_entries(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let _plugin = ground.plugin(1)?;
    let nodes = ["master-0", "master-1", "master-2"];
    let reporters: Vec<_> =
        nodes.iter().map(|node| ground.reporter(node).start()).collect::<Result<_, _>>()?;
    for reporter in &reporters {
        ground.status(reporter, 1, "Healthy").await?;
    }
    let object = ground.object("kubeapiserver").await?;
    let expected: BTreeMap<_, _> = nodes
        .iter()
        .map(|node| (manager(node, None), vec![format!("k:{{\"keyID\":\"1\",\"nodeName\":\"{node}\"}}")]))
        .collect();
    assert_eq!(owned(&object), expected);
    Ok(())
}

/// T-SSA2.
pub async fn a_plugin_that_is_gone_leaves_with_the_next_start(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let (_two, _one) = (ground.plugin(2)?, ground.plugin(1)?);
    let other = ground.reporter("master-1").keys(&[2, 1]).start()?;
    let reporter = ground.reporter("master-0").keys(&[2, 1]).start()?;
    ground.status(&reporter, 1, "Healthy").await?;
    ground.status(&other, 1, "Healthy").await?;
    reporter.process.stop(SOON)?;
    let _again = ground.reporter("master-0").keys(&[2]).start()?;
    wait::until("the entry's end", SOON, || async {
        let reports = ground.reports("kubeapiserver", "typed", "master-0").await?;
        let keys: Vec<_> = reports.iter().map(|report| report.key.as_str()).collect();
        if keys == ["2"] { Ok(()) } else { Err(testbed::Error::Refused(format!("{reports:?}"))) }
    })
    .await?;
    assert_eq!(
        ground.reports("kubeapiserver", "typed", "master-1").await?.len(),
        2,
        "the other node keeps both"
    );
    Ok(())
}

/// T-SSA3: what an API server makes of the last entry's going, for whoever cleans up.
pub async fn what_remains_when_the_last_entry_goes(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let apply = |status: Value| {
        let body = json!({ "apiVersion": "operator.openshift.io/v1", "kind": "KubeAPIServer",
                           "metadata": { "name": ground.name }, "status": status });
        let api = ground.api("kubeapiserver");
        let name = ground.name.clone();
        async move {
            let params = PatchParams::apply("leaver").force();
            match api.patch_status(&name, &params, &Patch::Apply(&body)).await {
                Ok(object) => {
                    Ok((200, serde_json::to_value(object).unwrap_or_default()["status"].to_string()))
                }
                Err(kube::Error::Api(status)) => Ok((status.code, status.message.clone())),
                Err(error) => Err(error),
            }
        }
    };
    let entry = json!({ "nodeName": "n", "keyID": "1", "status": "Error", "remoteKeyID": "k",
                        "lastCheckedTime": "2026-05-18T10:00:00Z" });
    assert_eq!(apply(json!({ "encryptionStatus": { "healthReports": [entry] } })).await?.0, 200);
    let (code, said) = apply(json!({})).await?;
    println!("an apply without the entry is answered {code}: {said}");
    let (listed, said_of_list) = apply(json!({ "encryptionStatus": { "healthReports": [] } })).await?;
    println!("an apply with an empty list is answered {listed}: {said_of_list}");
    assert_eq!((code, listed), (422, 200), "{said}; {said_of_list}");
    Ok(())
}

/// T-SSA4.
pub async fn two_reporters_with_one_node_name_erase_each_other_unless_told_apart(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let (_two, _one) = (ground.plugin(2)?, ground.plugin(1)?);
    let keys = |reports: Vec<crate::ground::Seen>| {
        let mut keys: Vec<_> = reports.into_iter().map(|report| report.key).collect();
        keys.sort();
        keys
    };
    let old = ground.reporter("shared").keys(&[2, 1]).start()?;
    ground.status(&old, 1, "Healthy").await?;
    let new = ground.reporter("shared").keys(&[2]).start()?;
    wait::until("the loss of an entry", SOON, || async {
        let left = keys(ground.reports("kubeapiserver", "typed", "shared").await?);
        if left == ["2"] { Ok(()) } else { Err(testbed::Error::Refused(format!("{left:?}"))) }
    })
    .await?;
    // It is back when the overlap is over.
    new.process.stop(SOON)?;
    ground.status(&old, 1, "Healthy").await?;
    old.process.stop(SOON)?;

    let apart = |instance: &str, key| {
        let orders = ground.reporter("apart").keys(&[key]).flag(format!("--instance={instance}"));
        orders.on("kmshealth", "kmshealth").start()
    };
    let (first, second) = (apart("pod-a", 2)?, apart("pod-b", 1)?);
    ground.status(&first, 2, "Healthy").await?;
    ground.status(&second, 1, "Healthy").await?;
    let rounds = first.rounds().await? + second.rounds().await?;
    wait::until("more rounds of both", SOON, || async {
        let now = first.rounds().await? + second.rounds().await?;
        if now > rounds + 6.0 { Ok(()) } else { Err(testbed::Error::Refused(format!("{now}"))) }
    })
    .await?;
    assert_eq!(keys(ground.reports("kmshealth", "kmshealth", "apart").await?), ["1", "2"]);
    Ok(())
}

/// T-SSA5: a writer that reads, changes and updates the same status between any two rounds of the reporter.
pub async fn a_writer_beside_the_reporter_loses_nothing(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let _plugin = ground.plugin(1)?;
    let reporter = ground.reporter("master-0").every("50ms").start()?;
    let first = ground.status(&reporter, 1, "Healthy").await?;
    let api = ground.api("kubeapiserver");
    for round in 0..30 {
        let hash = format!("hash{round:04}");
        wait::until("the update", SOON, || async {
            let mut object: DynamicObject = api.get(&ground.name).await?;
            object.data["status"]["encryptionStatus"]["preflight"] = json!({ "observedConfigHash": hash });
            api.replace_status(&ground.name, &PostParams::default(), &object).await.map(drop)
        })
        .await?;
        let rounds = reporter.rounds().await?;
        wait::until("another round", SOON, || async {
            let now = reporter.rounds().await?;
            if now > rounds { Ok(()) } else { Err(testbed::Error::Refused(format!("{now}"))) }
        })
        .await?;
    }
    let report = ground.until(&reporter, 1, "progress", |report| report.checked > first.checked).await?;
    assert_eq!(report.status, "Healthy");
    let object = ground.object("kubeapiserver").await?;
    assert_eq!(place("kubeapiserver", &object)["preflight"]["observedConfigHash"], "hash0029");
    assert_eq!(reporter.told(&["reports cannot be published"]), 0, "{}", reporter.log());
    Ok(())
}

/// T-SSA6.
pub async fn the_longest_node_name_fits(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let _plugin = ground.plugin(1)?;
    let label = "n".repeat(62);
    let node = format!("{label}.{label}.{label}.{}x", "n".repeat(63));
    assert_eq!(node.len(), 253);
    for (target, form) in
        [("kubeapiserver", "typed"), ("kubeapiserver", "condition"), ("kmshealth", "kmshealth")]
    {
        let reporter = ground.reporter(&node).on(target, form).start()?;
        ground.status(&reporter, 1, "Healthy").await?;
    }
    Ok(())
}

/// The condition's status never changes, so that its time must not either (1.7); and what was known of keys is kept.
pub async fn the_condition_keeps_its_time_over_restarts(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    let time = || async {
        let object = ground.object("kubeapiserver").await?;
        Ok::<_, testbed::Error>(object["status"]["conditions"][0]["lastTransitionTime"].clone())
    };
    let reporter = ground.reporter("master-0").on("kubeapiserver", "condition").start()?;
    let first = ground.status(&reporter, 1, "Healthy").await?;
    let since = time().await?;
    ground.until(&reporter, 1, "another second", |report| report.checked > first.checked).await?;
    plugin.crash();
    ground.status(&reporter, 1, "Error").await?;
    reporter.process.stop(SOON)?;
    plugin.restart()?;
    let again = ground.reporter("master-0").on("kubeapiserver", "condition").start()?;
    ground.status(&again, 1, "Healthy").await?;
    assert_eq!(time().await?, since);
    again.process.stop(SOON)?;

    let typed = ground.reporter("master-0").start()?;
    ground.status(&typed, 1, "Healthy").await?;
    typed.process.stop(SOON)?;
    plugin.stop();
    let typed = ground.reporter("master-0").start()?;
    let report = ground.status(&typed, 1, "Error").await?;
    assert_eq!(report.id.as_deref(), Some("kms-1-1"), "as the process before knew it");
    Ok(())
}
