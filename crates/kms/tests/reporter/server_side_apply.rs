//! Ownership of reports with server-side apply.

use std::collections::BTreeMap;

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use plan::kms::publication::field_manager;
use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, TIMEOUT, report_holder};

/// Returns the typed reports that each field manager owns.
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

/// T-SSA1: three reporters on one object.
pub async fn each_reporter_owns_only_its_reports(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let _plugin = fixture.start_plugin(1)?;
    let nodes = ["master-0", "master-1", "master-2"];
    let reporters: Vec<_> =
        nodes.iter().map(|node| fixture.reporter(node).start()).collect::<Result<_, _>>()?;
    for reporter in &reporters {
        fixture.until_status(reporter, 1, "Healthy").await?;
    }
    let object = fixture.object("kubeapiserver").await?;
    let expected: BTreeMap<_, _> = nodes
        .iter()
        .map(|node| {
            (field_manager(node, None), vec![format!("k:{{\"keyID\":\"1\",\"nodeName\":\"{node}\"}}")])
        })
        .collect();
    assert_eq!(owned(&object), expected);
    Ok(())
}

/// T-SSA2: a reporter restarts with fewer plugins.
pub async fn restart_removes_report_of_removed_plugin(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let (_two, _one) = (fixture.start_plugin(2)?, fixture.start_plugin(1)?);
    let other = fixture.reporter("master-1").keys(&[2, 1]).start()?;
    let reporter = fixture.reporter("master-0").keys(&[2, 1]).start()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    fixture.until_status(&other, 1, "Healthy").await?;
    reporter.process.stop(TIMEOUT)?;
    let _again = fixture.reporter("master-0").keys(&[2]).start()?;
    wait::until("the report to be removed", TIMEOUT, || async {
        let reports = fixture.reports("kubeapiserver", "typed", "master-0").await?;
        let keys: Vec<_> = reports.iter().map(|report| report.key.as_str()).collect();
        if keys == ["2"] { Ok(()) } else { Err(testbed::Error::Other(format!("{reports:?}"))) }
    })
    .await?;
    assert_eq!(
        fixture.reports("kubeapiserver", "typed", "master-1").await?.len(),
        2,
        "the other node keeps both reports"
    );
    Ok(())
}

/// T-SSA3: how the published schema treats the removal of the last report. The aggregator's cleanup relies on it.
pub async fn removing_last_report_needs_explicit_list(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let apply = |status: Value| {
        let body = json!({ "apiVersion": "operator.openshift.io/v1", "kind": "KubeAPIServer",
                           "metadata": { "name": fixture.name }, "status": status });
        let api = fixture.api("kubeapiserver");
        let name = fixture.name.clone();
        async move {
            let params = PatchParams::apply("leaving-manager").force();
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
    let (code, message) = apply(json!({})).await?;
    println!("an apply without the report returns {code}: {message}");
    let (list_code, list_message) = apply(json!({ "encryptionStatus": { "healthReports": [] } })).await?;
    println!("an apply with an empty list returns {list_code}: {list_message}");
    assert_eq!((code, list_code), (422, 200), "{message}; {list_message}");
    Ok(())
}

/// T-SSA4: two reporters with the same node name, without and with `--instance`.
pub async fn instance_separates_reporters_with_same_node(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let (_two, _one) = (fixture.start_plugin(2)?, fixture.start_plugin(1)?);
    let keys = |reports: Vec<crate::fixture::ObservedReport>| {
        let mut keys: Vec<_> = reports.into_iter().map(|report| report.key).collect();
        keys.sort();
        keys
    };
    let old = fixture.reporter("shared").keys(&[2, 1]).start()?;
    fixture.until_status(&old, 1, "Healthy").await?;
    let new = fixture.reporter("shared").keys(&[2]).start()?;
    wait::until("the loss of a report", TIMEOUT, || async {
        let remaining = keys(fixture.reports("kubeapiserver", "typed", "shared").await?);
        if remaining == ["2"] { Ok(()) } else { Err(testbed::Error::Other(format!("{remaining:?}"))) }
    })
    .await?;
    // The report is back once the second reporter is gone.
    new.process.stop(TIMEOUT)?;
    fixture.until_status(&old, 1, "Healthy").await?;
    old.process.stop(TIMEOUT)?;

    let start_instance = |instance: &str, key| {
        let builder = fixture.reporter("apart").keys(&[key]).flag(format!("--instance={instance}"));
        builder.on("kmshealth", "kmshealth").start()
    };
    let (first, second) = (start_instance("pod-a", 2)?, start_instance("pod-b", 1)?);
    fixture.until_status(&first, 2, "Healthy").await?;
    fixture.until_status(&second, 1, "Healthy").await?;
    let rounds = first.rounds().await? + second.rounds().await?;
    wait::until("more rounds of both", TIMEOUT, || async {
        let now = first.rounds().await? + second.rounds().await?;
        if now > rounds + 6.0 { Ok(()) } else { Err(testbed::Error::Other(format!("{now}"))) }
    })
    .await?;
    assert_eq!(keys(fixture.reports("kmshealth", "kmshealth", "apart").await?), ["1", "2"]);
    Ok(())
}

/// T-SSA5: another client updates the same status between rounds.
pub async fn concurrent_status_updates_are_kept(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let _plugin = fixture.start_plugin(1)?;
    let reporter = fixture.reporter("master-0").interval("50ms").start()?;
    let first = fixture.until_status(&reporter, 1, "Healthy").await?;
    let api = fixture.api("kubeapiserver");
    for round in 0..30 {
        let hash = format!("hash{round:04}");
        wait::until("the update", TIMEOUT, || async {
            let mut object: DynamicObject = api.get(&fixture.name).await?;
            object.data["status"]["encryptionStatus"]["preflight"] = json!({ "observedConfigHash": hash });
            api.replace_status(&fixture.name, &PostParams::default(), &object).await.map(drop)
        })
        .await?;
        let rounds = reporter.rounds().await?;
        wait::until("another round", TIMEOUT, || async {
            let now = reporter.rounds().await?;
            if now > rounds { Ok(()) } else { Err(testbed::Error::Other(format!("{now}"))) }
        })
        .await?;
    }
    let report =
        fixture.until_report(&reporter, 1, "progress", |report| report.checked > first.checked).await?;
    assert_eq!(report.status, "Healthy");
    let object = fixture.object("kubeapiserver").await?;
    assert_eq!(report_holder("kubeapiserver", &object)["preflight"]["observedConfigHash"], "hash0029");
    assert_eq!(reporter.count_logged(&["failed to publish reports"]), 0, "{}", reporter.log());
    Ok(())
}

/// T-SSA6: a node name of 253 characters.
pub async fn longest_node_name_is_accepted(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let _plugin = fixture.start_plugin(1)?;
    let label = "n".repeat(62);
    let node = format!("{label}.{label}.{label}.{}x", "n".repeat(63));
    assert_eq!(node.len(), 253);
    for (target, form) in
        [("kubeapiserver", "typed"), ("kubeapiserver", "condition"), ("kmshealth", "kmshealth")]
    {
        let reporter = fixture.reporter(&node).on(target, form).start()?;
        fixture.until_status(&reporter, 1, "Healthy").await?;
    }
    Ok(())
}

/// The status of the node's condition never changes, so its transition time must not either. A restarted reporter keeps known key ids.
pub async fn restart_keeps_transition_time_and_key_id(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    let time = || async {
        let object = fixture.object("kubeapiserver").await?;
        Ok::<_, testbed::Error>(object["status"]["conditions"][0]["lastTransitionTime"].clone())
    };
    let reporter = fixture.reporter("master-0").on("kubeapiserver", "condition").start()?;
    let first = fixture.until_status(&reporter, 1, "Healthy").await?;
    let since = time().await?;
    fixture.until_report(&reporter, 1, "another second", |report| report.checked > first.checked).await?;
    plugin.crash();
    fixture.until_status(&reporter, 1, "Error").await?;
    reporter.process.stop(TIMEOUT)?;
    plugin.restart()?;
    let again = fixture.reporter("master-0").on("kubeapiserver", "condition").start()?;
    fixture.until_status(&again, 1, "Healthy").await?;
    assert_eq!(time().await?, since);
    again.process.stop(TIMEOUT)?;

    let typed = fixture.reporter("master-0").start()?;
    fixture.until_status(&typed, 1, "Healthy").await?;
    typed.process.stop(TIMEOUT)?;
    plugin.stop();
    let typed = fixture.reporter("master-0").start()?;
    let report = fixture.until_status(&typed, 1, "Error").await?;
    assert_eq!(report.id.as_deref(), Some("kms-1-1"), "published by the previous process");
    Ok(())
}
