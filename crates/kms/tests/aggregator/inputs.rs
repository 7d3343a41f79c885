//! T-G16: what the aggregator reads besides the object, and cannot always read.

use serde_json::json;
use testbed::faults::fault_proxy::{ErrorResponse, Fault, FaultProxy, RequestMatcher, Resource, Times};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{
    AUTHENTICATION, Fixture, Form, INTERVAL, KMS_HEALTH, KUBE, OPENSHIFT, failing, healthy,
};

const DEGRADED: &str = "KMSPluginsDegraded";

/// Pods cannot be listed: reports are evaluated anyway, and nothing is removed.
pub async fn forbidden_pods_leave_reports_evaluated(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.set_pods(&[("a", &[1]), ("b", &[1])]).await?;
    let kinds = [(KUBE, json!({ "managementState": "Managed" })), (KMS_HEALTH, subjects(&fixture))];
    let mut all = Vec::new();
    for (kind, spec) in kinds.clone() {
        fixture.create(kind, "cluster", spec).await?;
        let nodes = [("a", vec![healthy("1")]), ("b", vec![healthy("1")])];
        all.push(fixture.reporters(kind, "cluster", Form::Typed, &nodes));
    }
    let proxy = FaultProxy::start(&fixture.plane).await?;
    let pods = RequestMatcher::any().resource(Resource::new("", "pods"));
    let forbidden =
        ErrorResponse::new(http::StatusCode::FORBIDDEN).reason("Forbidden").message("pods are forbidden");
    let fault = proxy.inject(Fault::Respond(forbidden), pods, Times::Always);
    let user = fixture.plane.user("kms-aggregator", Some("system:masters"))?.at(proxy.url());
    let _aggregator = fixture.aggregator_as("aggregator", &user, "kubeapiserver,kmshealth", |program| {
        fixture.without_election(program)
    })?;
    for (kind, _) in &kinds {
        let message = fixture.until(*kind, "cluster", DEGRADED, "InputUnavailable").await?;
        let line = format!("\ninput pods in {} unavailable: forbidden", fixture.ns);
        assert!(message.starts_with("2/2 plugins healthy") && message.contains(&line), "{message}");
        let converged = fixture.condition(*kind, "cluster", "KMSRemoteKeyConverged").await?;
        assert_eq!((converged.0.as_str(), converged.1.as_str()), ("Unknown", "InputUnavailable"));
    }
    all.iter().for_each(|reporters| reporters.set("b", &[failing("1")]));
    for (kind, _) in &kinds {
        fixture.until(*kind, "cluster", DEGRADED, "PluginError").await?;
    }
    all.iter().for_each(|reporters| reporters.set("b", &[healthy("1")]));
    fault.remove();
    for (kind, _) in &kinds {
        fixture.until(*kind, "cluster", DEGRADED, "AsExpected").await?;
    }
    Ok(())
}

/// The pods of a KMSHealth are in a namespace that is not watched.
pub async fn unwatched_namespace_of_subjects_is_reported(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KMS_HEALTH, "elsewhere", json!({ "subjects": { "namespace": "elsewhere" } })).await?;
    let _reporters = fixture.reporters(KMS_HEALTH, "elsewhere", Form::Typed, &[("a", vec![healthy("1")])]);
    let _aggregator = fixture.aggregator("kmshealth")?;
    let message = fixture.until(KMS_HEALTH, "elsewhere", DEGRADED, "InputUnavailable").await?;
    assert!(
        message.contains(
            "\ninput pods in elsewhere unavailable: not watched: add the namespace to --subject-namespaces"
        ),
        "{message}"
    );
    Ok(())
}

/// The KMS encrypts Secrets: they cannot be read exactly when it fails. The aggregator needs none.
pub async fn aggregator_never_reads_secrets(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.set_pods(&[("a", &[2, 1])]).await?;
    let mut all = Vec::new();
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION] {
        fixture.create(kind, "cluster", json!({ "managementState": "Managed" })).await?;
        let reports = vec![healthy("2"), healthy("1")];
        all.push(fixture.reporters(kind, "cluster", Form::Typed, &[("a", reports)]));
    }
    fixture.set_static_pod_nodes(&["a"]).await?;
    let proxy = FaultProxy::start(&fixture.plane).await?;
    let secrets = RequestMatcher::any().resource(Resource::new("", "secrets"));
    let unreadable =
        ErrorResponse::new(http::StatusCode::INTERNAL_SERVER_ERROR).message("rpc error: no such key");
    let fault = proxy.inject(Fault::Respond(unreadable), secrets, Times::Always);
    let user = fixture.plane.user("kms-aggregator", Some("system:masters"))?.at(proxy.url());
    let targets = "kubeapiserver,openshiftapiserver,authentication";
    let _aggregator =
        fixture.aggregator_as("aggregator", &user, targets, |program| fixture.without_election(program))?;
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION] {
        fixture.until(kind, "cluster", DEGRADED, "AsExpected").await?;
    }
    all.iter().for_each(|reporters| reporters.set("a", &[failing("2"), healthy("1")]));
    for kind in [KUBE, OPENSHIFT, AUTHENTICATION] {
        fixture.until(kind, "cluster", DEGRADED, "PluginError").await?;
        fixture.until(kind, "cluster", "KMSPluginsAvailable", "WritePluginDown").await?;
    }
    assert_eq!(fault.fired(), 0, "the aggregator read a Secret");
    Ok(())
}

/// Reports of reporters outside of pods are valid without any pod.
pub async fn reports_without_pods_keep_conditions(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create(KUBE, "cluster", json!({ "managementState": "Managed" })).await?;
    fixture.set_static_pod_nodes(&["a"]).await?;
    let reporters = fixture.reporters(KUBE, "cluster", Form::Typed, &[("a", vec![failing("1")])]);
    let _aggregator = fixture.aggregator("kubeapiserver")?;
    fixture.until(KUBE, "cluster", DEGRADED, "PluginError").await?;
    wait::throughout("PluginError", INTERVAL * 5, || async {
        let condition =
            fixture.condition(KUBE, "cluster", DEGRADED).await.map_err(|error| error.to_string())?;
        if condition.1 == "PluginError" { Ok(()) } else { Err(format!("{condition:?}")) }
    })
    .await?;
    // Nothing tells that the only reporter is gone for good.
    drop(reporters);
    fixture.until(KUBE, "cluster", DEGRADED, "ReporterStale").await?;
    wait::throughout("ReporterStale", INTERVAL * 10, || async {
        let condition =
            fixture.condition(KUBE, "cluster", DEGRADED).await.map_err(|error| error.to_string())?;
        if condition.1 == "ReporterStale" { Ok(()) } else { Err(format!("{condition:?}")) }
    })
    .await?;
    fixture.until_reports(KUBE, "cluster", &["a/1"]).await?;
    Ok(())
}

/// Returns a spec whose subjects are the pods in the namespace of the test.
fn subjects(fixture: &Fixture) -> serde_json::Value {
    json!({ "subjects": { "namespace": fixture.ns } })
}
