//! A real cert-manager, limited to what self-signed and CA issuers need.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::parts::Part;
use crate::cluster::site::Site;
use crate::error::{Error, Result};
use crate::harness::wait;
use crate::process::tool;
use crate::process::{Process, Program};

/// Namespace of the Secrets of ClusterIssuers.
pub const NAMESPACE: &str = "cert-manager";

/// Timeout for the controllers to fill their caches.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running cert-manager; stopped on drop, its CRDs stay.
#[derive(Debug)]
pub struct CertManager {
    process: Process,
    _site: Arc<Site>,
}

impl CertManager {
    /// Installs the CRDs, starts the controllers and returns when a test issuer becomes ready.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let built = Part::CertManager.ensure()?;
        let mut apply = plane.kubectl()?;
        apply.args(["apply", "--server-side", "--filename"]).arg(built.join("crds"));
        tool::output_of(apply)?;
        let mut established = plane.kubectl()?;
        established
            .args(["wait", "--for=condition=Established", "--timeout=30s", "--filename"])
            .arg(built.join("crds"));
        tool::output_of(established)?;
        let mut namespace = plane.kubectl()?;
        namespace.args(["create", "namespace", NAMESPACE]);
        tool::output_of(namespace)?;

        let user = plane.user("cert-manager", Some("system:masters"))?;
        let process = Program::new("cert-manager", built.join("bin/cert-manager"))
            .flag("kubeconfig", user.write_kubeconfig(plane.site().dir())?)
            .flag("cluster-resource-namespace", NAMESPACE)
            .in_netns(plane.site().netns())
            .start(plane.site())?;
        let started = Self { process, _site: plane.site().clone() };
        started.wait_until_ready(plane).await?;
        Ok(started)
    }

    /// Fails if the process has exited.
    pub fn check_alive(&self) -> Result<()> {
        self.process.check_alive()
    }

    /// cert-manager has no readiness endpoint here; an issuer that it marks as ready is the proof.
    async fn wait_until_ready(&self, plane: &ControlPlane) -> Result<()> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cert-manager.io", "v1", "ClusterIssuer"));
        let issuers: Api<DynamicObject> = Api::all_with(plane.client().await?, &kind);
        let name = "testbed-readiness-probe";
        let issuer = json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": "ClusterIssuer",
            "metadata": { "name": name },
            "spec": { "selfSigned": {} },
        });
        issuers.patch(name, &PatchParams::apply("testbed"), &Patch::Apply(&issuer)).await?;
        wait::until("cert-manager to mark an issuer as ready", READY_WITHIN, || async {
            self.check_alive()?;
            let observed = issuers.get(name).await?;
            if is_ready(&observed) {
                Ok(())
            } else {
                Err(Error::Other(format!("issuer status is {}", observed.data["status"])))
            }
        })
        .await?;
        issuers.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// Returns true if a cert-manager object has the condition `Ready=True`.
#[must_use]
pub fn is_ready(object: &DynamicObject) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions
        .is_some_and(|all| all.iter().any(|one: &Value| one["type"] == "Ready" && one["status"] == "True"))
}
