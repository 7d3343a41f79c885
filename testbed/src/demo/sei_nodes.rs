//! The nodes on a platform as people see them: edited with kubectl, told of in their status, asked through their seid.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::SeiNode;
use api::names::{object, port};
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::{Client, Resource};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::cluster::control_plane::{AuditedRequest, ControlPlane};
use crate::cluster::kubectl;
use crate::demo::platform::{self, Platform};
use crate::demo::rpc::Rpc;
use crate::error::{Error, Result};
use crate::harness::wait;
use crate::harness::wire::{Trust, Wire};

/// How long things of pods may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(300);

/// The nodes of a namespace.
#[derive(Clone)]
pub struct SeiNodes<'a> {
    platform: &'a Platform,
    client: Client,
    namespace: &'static str,
}

impl<'a> SeiNodes<'a> {
    /// Those of the namespace in `examples`.
    pub async fn on(platform: &'a Platform) -> Result<Self> {
        Ok(Self { platform, client: platform.plane().client().await?, namespace: platform::NAMESPACE })
    }

    /// Those of another namespace.
    #[must_use]
    pub fn of_namespace(self, namespace: &'static str) -> Self {
        Self { namespace, ..self }
    }

    /// What they stand on.
    #[must_use]
    pub fn platform(&self) -> &'a Platform {
        self.platform
    }

    /// Its control plane.
    #[must_use]
    pub fn plane(&self) -> &'a ControlPlane {
        self.platform.plane()
    }

    /// A kind of objects in their namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Waits until a node is as wanted.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&SeiNode, &SeiNodeStatus) -> bool,
    ) -> Result<SeiNode> {
        let nodes = self.api::<SeiNode>();
        wait::until(format!("{name}: {what}"), SOON, || async {
            let node = nodes.get(name).await.map_err(|error| error.to_string())?;
            let status = node.status.clone().unwrap_or_default();
            if wanted(&node, &status) {
                return Ok(node);
            }
            Err(serde_json::to_string(&status).unwrap_or_default())
        })
        .await
    }

    /// Edits a node, as kubectl edit does.
    pub fn edit(&self, name: &str, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        let args =
            ["patch", "seinode", name, "--namespace", self.namespace, "--type=merge", "--patch", &patch];
        kubectl::run(self.plane(), &args, None).map(drop)
    }

    /// The pod of a node.
    pub async fn pod(&self, node: &str) -> Result<Pod> {
        Ok(self.api::<Pod>().get(&object::pod(node)).await?)
    }

    /// The address of a node's pod.
    pub async fn address(&self, node: &str) -> Result<IpAddr> {
        let address = self.pod(node).await?.status.and_then(|status| status.pod_ip?.parse().ok());
        address.ok_or_else(|| Error::Refused(format!("the pod of {node} has no address")))
    }

    /// Whether the proxy of a node serves this certificate, given as PEM.
    pub async fn serves(&self, node: &str, certificate: &[u8]) -> Result<bool> {
        let proxy = SocketAddr::new(self.address(node).await?, port::PROXY as u16);
        let trust = Trust::anybody();
        Wire::encrypted(proxy, trust.config()?).await?;
        let wanted = CertificateDer::from_pem_slice(certificate)
            .map_err(|error| Error::Refused(format!("that is no certificate: {error}")))?;
        Ok(trust.presented().certificate().as_deref() == Some(wanted.as_ref()))
    }

    /// The seid of a node.
    pub async fn rpc(&self, node: &str) -> Result<Rpc> {
        self.address(node).await.map(Rpc::at)
    }

    /// How many pods of a node the operator has deleted. Who asks has seen what followed: the log has it by then.
    pub fn pod_deletions(&self, node: &str) -> Result<usize> {
        let pod = object::pod(node);
        let deleted = |one: &AuditedRequest| {
            // The kubelet deletes pods too, those that have ended.
            one.user == platform::OPERATOR_USER
                && (one.verb.as_str(), one.resource.as_str()) == ("delete", "pods")
                && (one.name.as_str(), one.namespace.as_str()) == (pod.as_str(), self.namespace)
                && one.code < 300
        };
        Ok(self.plane().audit().requests(deleted)?.len())
    }

    /// Waits until the newest block of a node is at least so high, and returns how high it is.
    pub async fn height(&self, node: &str, least: u64) -> Result<u64> {
        wait::until(format!("block {least} of {node}"), SOON, || async {
            match self.rpc(node).await?.height().await? {
                height if height >= least => Ok(height),
                height => Err(Error::Refused(format!("it is at {height}"))),
            }
        })
        .await
    }

    /// Waits until a node makes or follows blocks: five more than when it was asked first.
    pub async fn grows(&self, node: &str) -> Result<u64> {
        let height = self.height(node, 1).await?;
        self.height(node, height + 5).await
    }
}

/// Whether a node runs as its newest spec says.
#[must_use]
pub fn is_ready(node: &SeiNode, status: &SeiNodeStatus) -> bool {
    status.phase == Some(SeiNodePhase::Running)
        && status.reconciled_generation == node.metadata.generation
        && condition(status, "Ready").0 == "True"
}

/// Status and reason of a condition.
#[must_use]
pub fn condition<'a>(status: &'a SeiNodeStatus, name: &str) -> (&'a str, &'a str) {
    let found = status.conditions.iter().find(|condition| condition.type_ == name);
    found.map_or(("", ""), |condition| (&condition.status, &condition.reason))
}
