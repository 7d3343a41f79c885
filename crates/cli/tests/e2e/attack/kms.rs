//! Threats (g) and (h): a malicious KMS plugin, and a stolen token of a reporter.

use std::path::Path;
use std::time::Duration;

use api::KMSHealth;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::cluster::kubectl;
use testbed::demo::kms_health::{self, NAME};
use testbed::fakes::kms_plugin::{ConnectionBehavior, FakeKmsPlugin};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use super::{client_with, rejected};

const NAMESPACE: &str = "kube-system";
const REPORTER: &str = "kms-health-reporter";
const TIMEOUT: Duration = Duration::from_secs(120);

/// Installs the reporter's rights, the policy and the object with the reports.
async fn install(plane: &ControlPlane) -> Result<Api<KMSHealth>, Error> {
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kms");
    kms_health::install_crd(plane)?;
    for namespace in ["openshift-apiserver", "openshift-oauth-apiserver"] {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        kubectl::apply(plane, &object.to_string())?;
    }
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": REPORTER, "namespace": NAMESPACE } });
    kubectl::apply(plane, &account.to_string())?;
    for file in ["reporter-rbac.yaml", "reporter-policy.yaml"] {
        let path = format!("{deploy}/{file}");
        kubectl::run(plane, &["apply", "--server-side", "--force-conflicts", "--filename", &path], None)?;
    }
    let client = plane.client().await?;
    kms_health::apply_expected_nodes(&kms_health::api(&client), &[]).await?;
    Ok(Api::all(client))
}

/// Returns a pod with a reporter that uses the sockets of a plugin in this process.
fn reporter(node: &str, sockets: &Path) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "reporter", "namespace": NAMESPACE },
        "spec": {
            "nodeName": node,
            "serviceAccountName": REPORTER,
            "containers": [{
                "name": "reporter",
                "image": "outrigger.dev/outrigger:dev",
                "args": [
                    "kms-reporter", "--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock", "--interval=1s", "--read-timeout=2s",
                    "--publish=kmshealth", format!("--node-name={node}"),
                ],
                "resources": { "limits": { "memory": "64Mi" } },
                "securityContext": { "runAsUser": 0 },
                "volumeMounts": [{ "name": "sockets", "mountPath": "/var/run/kmsplugin" }],
            }],
            "volumes": [{ "name": "sockets", "hostPath": { "path": sockets } }],
        },
    })
}

/// Waits until the report of a node matches, and returns it as JSON.
async fn until_report(
    health: &Api<KMSHealth>,
    node: &str,
    what: &str,
    matches: impl Fn(&Value) -> bool,
) -> Result<Value, Error> {
    wait::until(format!("a report: {what}"), TIMEOUT, || async {
        let object = health.get(NAME).await.map_err(|error| error.to_string())?;
        let status = json!(object.status);
        let reports = status["healthReports"].as_array().cloned().unwrap_or_default();
        let report = reports.into_iter().find(|report| report["nodeName"] == node).unwrap_or_default();
        if matches(&report) { Ok(report) } else { Err(report.to_string()) }
    })
    .await
}

/// Whatever a plugin answers, the reporter survives it, reports the plugin as failing, and publishes nothing that the plugin planted.
pub async fn malicious_kms_plugin_is_reported_and_contained(cx: Context) -> TestResult {
    let plane = cx.platform().await?.plane();
    let health = install(plane).await?;
    let node = cx.platform().await?.cluster().nodes().first().ok_or("no node")?.name().to_owned();
    let sockets = tempfile::tempdir()?;
    let plugin = FakeKmsPlugin::start("kms-1", sockets.path())?;
    kubectl::apply(plane, &reporter(&node, sockets.path()).to_string())?;
    let is = |status: &'static str| move |report: &Value| report["status"] == status;
    until_report(&health, &node, "healthy plugin", is("Healthy")).await?;

    let planted = "login failed: password=hunter2-plugin, token: s.PlantedToken1234567890";
    plugin.script(|script| script.healthz = planted.as_bytes().to_vec());
    let report = until_report(&health, &node, "secrets in healthz", is("Unhealthy")).await?.to_string();
    assert!(!report.contains("hunter2-plugin") && !report.contains("PlantedToken"), "{report}");
    println!("refused: planted secrets are not published: {report}");

    plugin.script(|script| script.healthz = vec![b'x'; 8 << 20]);
    let failing = |report: &Value| report["status"] != "Healthy" && !report.is_null();
    let report = until_report(&health, &node, "8 MiB of healthz", |report| {
        failing(report) && !report.to_string().contains("planted")
    })
    .await?;
    assert!(report.to_string().len() < 8 << 10, "a report of {} bytes", report.to_string().len());
    println!("refused: an answer of 8 MiB ends as a report of {} bytes", report.to_string().len());

    plugin.recover()?;
    until_report(&health, &node, "recovered plugin", is("Healthy")).await?;
    plugin.script(|script| script.key_id = Some(vec![b'k'; 100_000]));
    until_report(&health, &node, "a key id of 100 kB", failing).await?;
    println!("refused: a key id of 100 kB");

    plugin.recover()?;
    until_report(&health, &node, "recovered plugin", is("Healthy")).await?;
    plugin.set_connection_behavior(ConnectionBehavior::Close);
    until_report(&health, &node, "closed connections", failing).await?;
    println!("refused: a plugin that closes every connection is reported");

    let pods: Api<Pod> = Api::namespaced(plane.client().await?, NAMESPACE);
    let statuses = pods.get("reporter").await?.status.and_then(|status| status.container_statuses);
    let restarts: Vec<i32> = statuses.iter().flatten().map(|status| status.restart_count).collect();
    assert_eq!(restarts, [0], "the reporter was restarted");
    pods.delete("reporter", &DeleteParams::default()).await?;
    Ok(())
}

/// The identity of a reporter changes the reports of its own node, and nothing else.
pub async fn stolen_reporter_token_changes_only_its_own_node(cx: Context) -> TestResult {
    let plane = cx.platform().await?.plane();
    let health = install(plane).await?;
    let node = cx.platform().await?.cluster().nodes().last().ok_or("no node")?.name().to_owned();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "stolen", "namespace": NAMESPACE },
        "spec": { "nodeName": node, "serviceAccountName": REPORTER, "containers": [{ "name": "a", "image": "outrigger.dev/outrigger:dev" }] },
    });
    kubectl::apply(plane, &pod.to_string())?;
    let create = [
        "create",
        "token",
        REPORTER,
        "--namespace",
        NAMESPACE,
        "--bound-object-kind=Pod",
        "--bound-object-name=stolen",
    ];
    let stolen = kubectl::run(plane, &create, None)?.trim().to_owned();
    let client = client_with(plane, &stolen).await?;
    let own: Api<KMSHealth> = Api::all(client.clone());
    let report = |node: &str| {
        json!({
            "apiVersion": "outrigger.dev/v1alpha1", "kind": "KMSHealth", "metadata": { "name": NAME },
            "status": { "healthReports": [{
                "nodeName": node, "keyID": "1", "status": "Healthy", "remoteKeyID": "k", "lastCheckedTime": "2026-01-01T00:00:00Z",
            }] },
        })
    };
    let patch = |node: &str| {
        let (own, manager, body) = (own.clone(), format!("kms-health-reporter-{node}"), report(node));
        async move { own.patch_status(NAME, &PatchParams::apply(&manager).force(), &Patch::Apply(&body)).await }
    };
    patch(&node).await.map_err(|error| format!("the control attempt for its own node: {error}"))?;
    // The API server enforces a new policy only after a moment.
    wait::until("the report of another node to be refused", TIMEOUT, || async {
        rejected("report of another node", patch("another").await, &[403]).map_err(|error| error.to_string())
    })
    .await?;
    let merge = |status: Value| Patch::Merge(json!({ "status": status }));
    let conditions = merge(json!({ "conditions": [{
        "type": "KMSPluginsDegraded", "status": "False", "reason": "AsExpected", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] }));
    rejected(
        "change the rollup",
        own.patch_status(NAME, &PatchParams::default(), &conditions).await,
        &[403],
    )?;
    let spec = Patch::Merge(json!({ "spec": { "expectedNodes": [node] } }));
    rejected("change the expected nodes", own.patch(NAME, &PatchParams::default(), &spec).await, &[403])?;
    rejected("delete the reports", own.delete(NAME, &DeleteParams::default()).await, &[403])?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    rejected("list Secrets", secrets.list(&ListParams::default()).await, &[403])?;
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    rejected("list pods", pods.list(&ListParams::default()).await, &[403])?;
    assert!(health.get(NAME).await?.status.is_some());
    Ok(())
}
