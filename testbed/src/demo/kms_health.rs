//! Health of KMS plugins as it is seen in a cluster: the kind, the object that reports stand on, and the aggregator as a process.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::kubectl;
use crate::error::{Error, IoContext, Result};
use crate::harness::binaries;
use crate::harness::wait;
use crate::process::{Process, Program};

/// How long it may take until something is known, on a busy machine; it takes a few seconds.
const SOON: Duration = Duration::from_secs(120);

/// Time between two reports: stale after four seconds, removed after eight.
pub const INTERVAL: &str = "1s";

/// The name of the object that reports stand on.
pub const NAME: &str = "cluster";

/// The definition of the kind.
const KIND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds/outrigger.dev_kmshealths.yaml");

/// Objects of the kind.
#[must_use]
pub fn objects(client: &Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("outrigger.dev", "v1alpha1", "KMSHealth");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "kmshealths"))
}

/// Defines the kind.
pub fn define(plane: &ControlPlane) -> Result<()> {
    kubectl::run(plane, &["apply", "--server-side", "--filename", KIND], None)?;
    let known = ["wait", "--for=condition=Established", "--timeout=60s", "--filename", KIND];
    kubectl::run(plane, &known, None).map(drop)
}

/// Says who is expected to report.
pub async fn expect(api: &Api<DynamicObject>, nodes: &[&str]) -> Result<()> {
    let object = json!({
        "apiVersion": "outrigger.dev/v1alpha1", "kind": "KMSHealth", "metadata": { "name": NAME },
        "spec": { "expectedNodes": nodes, "expectedKeys": [{ "keyID": "1", "role": "Write" }] },
    });
    api.patch(NAME, &PatchParams::apply("administrator").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

/// A role of our binary that may do everything.
pub fn role(plane: &ControlPlane, name: &str) -> Result<Program> {
    let folder = plane.site().dir().join(name);
    std::fs::create_dir_all(&folder).context(|| format!("creating {}", folder.display()))?;
    let kubeconfig = plane.user(name, Some("system:masters"))?.write_kubeconfig(&folder)?;
    Ok(Program::new(name, binaries::path("outrigger")?).arg(name).flag("kubeconfig", kubeconfig))
}

/// Starts the aggregator.
pub fn aggregator(plane: &ControlPlane) -> Result<Process> {
    role(plane, "kms-aggregator")?
        .flag("targets", "kmshealth")
        .flag("interval", INTERVAL)
        .flag("leader-elect", "false")
        .flag("metrics-bind-address", "0")
        .start(plane.site())
}

/// Waits until `KMSPluginsDegraded` has a status and a reason, and returns its message.
pub async fn until_degraded(api: &Api<DynamicObject>, status: &str, reason: &str) -> Result<String> {
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
