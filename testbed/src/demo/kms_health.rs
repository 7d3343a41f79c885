//! KMSHealth in a cluster: its CRD, the object with the reports, and the aggregator process.

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

/// Timeout for a condition on a busy machine; usually a few seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Report interval: reports are stale after four seconds and removed after eight.
pub const INTERVAL: &str = "1s";

/// Name of the KMSHealth object.
pub const NAME: &str = "cluster";

/// CRD file.
const CRD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds/outrigger.dev_kmshealths.yaml");

/// Returns the API of KMSHealth objects.
#[must_use]
pub fn api(client: &Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("outrigger.dev", "v1alpha1", "KMSHealth");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "kmshealths"))
}

/// Installs the CRD and waits until it is established.
pub fn install_crd(plane: &ControlPlane) -> Result<()> {
    kubectl::run(plane, &["apply", "--server-side", "--filename", CRD], None)?;
    let established = ["wait", "--for=condition=Established", "--timeout=60s", "--filename", CRD];
    kubectl::run(plane, &established, None).map(drop)
}

/// Applies the KMSHealth object with these expected nodes.
pub async fn apply_expected_nodes(api: &Api<DynamicObject>, nodes: &[&str]) -> Result<()> {
    let object = json!({
        "apiVersion": "outrigger.dev/v1alpha1", "kind": "KMSHealth", "metadata": { "name": NAME },
        "spec": { "expectedNodes": nodes, "expectedKeys": [{ "keyID": "1", "role": "Write" }] },
    });
    api.patch(NAME, &PatchParams::apply("administrator").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

/// Returns a subcommand of our binary with administrator credentials.
pub fn subcommand(plane: &ControlPlane, name: &str) -> Result<Program> {
    let dir = plane.site().dir().join(name);
    std::fs::create_dir_all(&dir).context(|| format!("creating {}", dir.display()))?;
    let kubeconfig = plane.user(name, Some("system:masters"))?.write_kubeconfig(&dir)?;
    Ok(Program::new(name, binaries::path("outrigger")?).arg(name).flag("kubeconfig", kubeconfig))
}

/// Starts the aggregator process.
pub fn start_aggregator(plane: &ControlPlane) -> Result<Process> {
    subcommand(plane, "kms-aggregator")?
        .flag("targets", "kmshealth")
        .flag("interval", INTERVAL)
        .flag("leader-elect", "false")
        .flag("metrics-bind-address", "0")
        .flag("admin-bind-address", "0")
        .start(plane.site())
}

/// Waits until the condition `KMSPluginsDegraded` has this status and reason and returns its message.
pub async fn wait_for_degraded(api: &Api<DynamicObject>, status: &str, reason: &str) -> Result<String> {
    wait::until(format!("KMSPluginsDegraded={status} with reason {reason}"), TIMEOUT, || async {
        let object = api.get(NAME).await?;
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        match conditions.iter().find(|condition| condition["type"] == "KMSPluginsDegraded") {
            Some(condition) if condition["status"] == status && condition["reason"] == reason => {
                Ok(condition["message"].as_str().unwrap_or_default().to_owned())
            }
            other => Err(Error::Other(format!("condition is {other:?}"))),
        }
    })
    .await
}
