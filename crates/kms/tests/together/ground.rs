//! What tests stand on: the kinds, the aggregator as a process, and what stands on the objects.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use testbed::process::{Process, Program};
use testbed::{ControlPlane, Error, binaries, wait};

/// How long things that take a moment may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// Time between two reports: stale after four seconds, removed after eight.
pub const INTERVAL: &str = "1s";

/// The name of the object that reports stand on.
pub const NAME: &str = "cluster";

/// Objects of our own kind.
pub fn health(client: &Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("outrigger.dev", "v1alpha1", "KMSHealth");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "kmshealths"))
}

/// Defines our kind.
pub fn define(plane: &ControlPlane) -> Result<(), Error> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/outrigger.dev_kmshealths.yaml");
    kubectl(plane, &["apply", "--server-side", "--filename", file])?;
    kubectl(plane, &["wait", "--for=condition=Established", "--timeout=60s", "--filename", file]).map(drop)
}

/// What kubectl says.
pub fn kubectl(plane: &ControlPlane, words: &[&str]) -> Result<String, Error> {
    let output = plane.kubectl()?.args(words).output();
    let output = output.map_err(|source| Error::Io { what: "starting kubectl".into(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Refused(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Says who is expected to report.
pub async fn expect(api: &Api<DynamicObject>, nodes: &[&str]) -> Result<(), Error> {
    let object = json!({
        "apiVersion": "outrigger.dev/v1alpha1", "kind": "KMSHealth", "metadata": { "name": NAME },
        "spec": { "expectedNodes": nodes, "expectedKeys": [{ "keyID": "1", "role": "Write" }] },
    });
    api.patch(NAME, &PatchParams::apply("administrator").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

/// Starts the aggregator.
pub fn aggregator(plane: &ControlPlane) -> Result<Process, Error> {
    let folder = plane.site().dir().join("aggregator");
    std::fs::create_dir_all(&folder)
        .map_err(|source| Error::Io { what: "making a folder".into(), source })?;
    let user = plane.user("kms-aggregator", Some("system:masters"))?;
    Program::new("aggregator", binaries::path("outrigger")?)
        .arg("kms-aggregator")
        .flag("kubeconfig", user.write_kubeconfig(&folder)?)
        .flag("targets", "kmshealth")
        .flag("interval", INTERVAL)
        .flag("leader-elect", "false")
        .flag("metrics-bind-address", "0")
        .start(plane.site())
}

/// Waits until `KMSPluginsDegraded` has a status and a reason, and returns its message.
pub async fn until_degraded(api: &Api<DynamicObject>, status: &str, reason: &str) -> Result<String, Error> {
    wait::until(format!("KMSPluginsDegraded={status} for {reason}"), SOON, || async {
        let object = api.get(NAME).await?;
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        match conditions.iter().find(|one| one["type"] == "KMSPluginsDegraded") {
            Some(one) if one["status"] == status && one["reason"] == reason => {
                Ok(one["message"].as_str().unwrap_or_default().to_owned())
            }
            other => Err(Error::Refused(format!("it is {other:?}"))),
        }
    })
    .await
}

/// The nodes of which reports stand.
pub fn reported(object: &DynamicObject) -> Vec<String> {
    let reports = object.data["status"]["healthReports"].as_array().cloned().unwrap_or_default();
    let name = |one: &Value| one["nodeName"].as_str().unwrap_or_default().to_owned();
    let mut nodes: Vec<String> = reports.iter().map(name).collect();
    nodes.sort();
    nodes
}
