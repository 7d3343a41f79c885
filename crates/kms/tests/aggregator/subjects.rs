//! T-G17: the nodes of a KMSHealth follow the pods of its API servers.

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Form, INTERVAL, KMS_HEALTH, KUBE, TIMEOUT, failing, healthy};

const DEGRADED: &str = "KMSPluginsDegraded";

/// Returns a spec whose subjects are the pods in the namespace of the test.
fn spec(fixture: &Fixture) -> Value {
    json!({ "subjects": { "namespace": fixture.ns } })
}

pub async fn expected_nodes_follow_api_server_pods(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "cluster", spec(&fixture)).await?;
    fixture.set_pods(&[("a", &[1]), ("b", &[1]), ("c", &[1])]).await?;
    let report = || vec![healthy("1")];
    let nodes = [("a", report()), ("b", report()), ("c", report())];
    let reporters = fixture.reporters(KMS_HEALTH, "cluster", Form::Typed, &nodes);
    fixture.report_in_own_object("cluster", "c", &report()).await?;
    let _aggregator = fixture.aggregator("kmshealth")?;
    let message = fixture.until(KMS_HEALTH, "cluster", DEGRADED, "AsExpected").await?;
    assert_eq!(message, "3/3 plugins healthy, 0 stale, 0 missing");
    // A node is replaced by one with another name, which is slow to report.
    fixture.set_pods(&[("a", &[1]), ("b", &[1]), ("d", &[1])]).await?;
    reporters.set("c", &[]);
    let message = fixture.until(KMS_HEALTH, "cluster", DEGRADED, "NotYetObserved").await?;
    assert!(message.contains("\nd keyID=1 role=write NotYetObserved since "), "{message}");
    reporters.set("d", &report());
    fixture.until(KMS_HEALTH, "cluster", DEGRADED, "AsExpected").await?;
    fixture.until_reports(KMS_HEALTH, "cluster", &["a/1", "b/1", "d/1"]).await?;
    fixture.until_own_objects(&[]).await?;
    let message = fixture.until(KMS_HEALTH, "cluster", DEGRADED, "AsExpected").await?;
    assert_eq!(message, "3/3 plugins healthy, 0 stale, 0 missing");
    Ok(())
}

/// A node stores its reports in an object of its own while the others share one.
pub async fn own_objects_are_rolled_up_with_the_shared_one(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "cluster", spec(&fixture)).await?;
    fixture.set_pods(&[("a", &[1]), ("b", &[1])]).await?;
    let _reporters = fixture.reporters(KMS_HEALTH, "cluster", Form::Typed, &[("a", vec![healthy("1")])]);
    let _aggregator = fixture.aggregator("kmshealth")?;
    fixture.until(KMS_HEALTH, "cluster", DEGRADED, "NotYetObserved").await?;
    fixture.report_in_own_object("cluster", "b", &[healthy("1")]).await?;
    fixture.until(KMS_HEALTH, "cluster", DEGRADED, "AsExpected").await?;
    fixture.report_in_own_object("cluster", "b", &[failing("1")]).await?;
    let message = fixture.until(KMS_HEALTH, "cluster", DEGRADED, "PluginError").await?;
    assert!(message.contains("\nb keyID=1 role=write Error since "), "{message}");
    fixture.until(KMS_HEALTH, "cluster", DEGRADED, "ReporterStale").await?;
    // Expected: the object of a stopped reporter is kept.
    fixture.until_own_objects(&["cluster.b"]).await?;
    Ok(())
}

pub async fn switching_kms_off_clears_rollup_and_entries(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "cluster", spec(&fixture)).await?;
    fixture.set_pods(&[("a", &[1]), ("b", &[1])]).await?;
    let nodes = [("a", vec![healthy("1")]), ("b", vec![healthy("1")])];
    let reporters = fixture.reporters(KMS_HEALTH, "cluster", Form::Typed, &nodes);
    let _aggregator = fixture.aggregator("kmshealth")?;
    fixture.until(KMS_HEALTH, "cluster", DEGRADED, "AsExpected").await?;
    fixture.set_pods(&[("a", &[]), ("b", &[])]).await?;
    drop(reporters);
    for type_ in [DEGRADED, "KMSPluginsAvailable", "KMSPluginsProgressing", "KMSRemoteKeyConverged"] {
        fixture.until(KMS_HEALTH, "cluster", type_, "").await?;
    }
    fixture.until_reports(KMS_HEALTH, "cluster", &[]).await?;
    Ok(())
}

/// A pod is replaced, and its containers take longer to start than reports stay fresh.
pub async fn pod_of_a_rollout_is_not_missing(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    for (kind, spec) in [(KMS_HEALTH, spec(&fixture)), (KUBE, json!({ "managementState": "Managed" }))] {
        fixture.create(kind, "cluster", spec).await?;
        fixture.set_pods(&[("a", &[1]), ("b", &[1])]).await?;
        let nodes = [("a", vec![healthy("1")]), ("b", vec![healthy("1")])];
        let reporters = fixture.reporters(kind, "cluster", Form::Typed, &nodes);
        let aggregator = fixture.aggregator(kind.target)?;
        fixture.until(kind, "cluster", DEGRADED, "AsExpected").await?;
        fixture.set_reporter("b", json!({ "waiting": { "reason": "PodInitializing" } })).await?;
        reporters.set("b", &[]);
        fixture.until(kind, "cluster", DEGRADED, "NotYetObserved").await?;
        wait::throughout("a status that is not Unknown", INTERVAL * 10, || async {
            let condition = fixture.condition(kind, "cluster", DEGRADED).await;
            let condition = condition.map_err(|error| error.to_string())?;
            if condition.0 == "False" { Ok(()) } else { Err(format!("{condition:?}")) }
        })
        .await?;
        fixture.set_reporter("b", json!({ "running": {} })).await?;
        reporters.set("b", &[healthy("1")]);
        fixture.until(kind, "cluster", DEGRADED, "AsExpected").await?;
        aggregator.stop(TIMEOUT)?;
    }
    Ok(())
}

/// In the first stage of a rotation, the newest key is a read key.
pub async fn read_key_with_higher_number_is_not_the_write_key(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "cluster", spec(&fixture)).await?;
    let sockets = "--kms-sockets=unix:///run/kms-2.sock,unix:///run/kms-1.sock".to_owned();
    fixture.set_pods_with(&[("a", vec![sockets, "--write-keys=1".to_owned()])]).await?;
    let reports = vec![failing("2"), healthy("1")];
    let reporters = fixture.reporters(KMS_HEALTH, "cluster", Form::Typed, &[("a", reports)]);
    let _aggregator = fixture.aggregator("kmshealth")?;
    let message = fixture.until(KMS_HEALTH, "cluster", DEGRADED, "ReadPluginUnhealthy").await?;
    assert!(message.contains("\na keyID=2 role=read Error since "), "{message}");
    assert_eq!(fixture.condition(KMS_HEALTH, "cluster", "KMSPluginsAvailable").await?.1, "AsExpected");
    reporters.set("a", &[healthy("2"), failing("1")]);
    fixture.until(KMS_HEALTH, "cluster", "KMSPluginsAvailable", "WritePluginDown").await?;
    Ok(())
}
