//! SeiNodes on a platform as users see them: edited with kubectl, observed by status and by the RPC of seid.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::SeiNode;
use api::names::{container, object, port};
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
use crate::harness::raw_http::{ClientTls, RawConnection};
use crate::harness::wait;

/// Timeout for pod startup on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// SeiNodes of a namespace.
#[derive(Clone)]
pub struct SeiNodes<'a> {
    platform: &'a Platform,
    client: Client,
    namespace: &'static str,
}

impl<'a> SeiNodes<'a> {
    /// Returns the nodes of the namespace in `examples`.
    pub async fn new(platform: &'a Platform) -> Result<Self> {
        Ok(Self { platform, client: platform.plane().client().await?, namespace: platform::NAMESPACE })
    }

    /// Returns the nodes of another namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &'static str) -> Self {
        Self { namespace, ..self }
    }

    /// Returns the platform.
    #[must_use]
    pub fn platform(&self) -> &'a Platform {
        self.platform
    }

    /// Returns the control plane.
    #[must_use]
    pub fn plane(&self) -> &'a ControlPlane {
        self.platform.plane()
    }

    /// Returns their namespace.
    #[must_use]
    pub fn namespace(&self) -> &'static str {
        self.namespace
    }

    /// Returns the API of a kind in their namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Waits until a node satisfies a condition and returns it.
    pub async fn wait_until(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&SeiNode, &SeiNodeStatus) -> bool,
    ) -> Result<SeiNode> {
        let nodes = self.api::<SeiNode>();
        wait::until(format!("{name}: {what}"), TIMEOUT, || async {
            let node = nodes.get(name).await.map_err(|error| error.to_string())?;
            let status = node.status.clone().unwrap_or_default();
            if condition(&node, &status) {
                return Ok(node);
            }
            Err(serde_json::to_string(&status).unwrap_or_default())
        })
        .await
    }

    /// Patches the spec of a node with kubectl.
    pub fn edit(&self, name: &str, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        let args =
            ["patch", "seinode", name, "--namespace", self.namespace, "--type=merge", "--patch", &patch];
        kubectl::run(self.plane(), &args, None).map(drop)
    }

    /// Returns the pod of a node.
    pub async fn pod(&self, node: &str) -> Result<Pod> {
        Ok(self.api::<Pod>().get(&object::pod(node)).await?)
    }

    /// Returns the ID of the container that runs seid (`containerd://...`).
    pub async fn seid_container(&self, node: &str) -> Result<String> {
        let statuses = self.pod(node).await?.status.and_then(|status| status.container_statuses);
        let mut statuses = statuses.into_iter().flatten();
        let seid = statuses.find(|status| status.name == container::SEID);
        seid.and_then(|status| status.container_id)
            .ok_or_else(|| Error::Other(format!("seid of {node} has no container")))
    }

    /// Returns the IP address of the pod of a node.
    pub async fn address(&self, node: &str) -> Result<IpAddr> {
        let address = self.pod(node).await?.status.and_then(|status| status.pod_ip?.parse().ok());
        address.ok_or_else(|| Error::Other(format!("pod of {node} has no IP address")))
    }

    /// Returns true if the proxy of a node serves this certificate, given as PEM.
    pub async fn serves_certificate(&self, node: &str, certificate: &[u8]) -> Result<bool> {
        let proxy = SocketAddr::new(self.address(node).await?, port::PROXY as u16);
        let tls = ClientTls::trusting_any();
        RawConnection::connect_tls(proxy, tls.config()?).await?;
        let expected = CertificateDer::from_pem_slice(certificate)
            .map_err(|error| Error::Other(format!("invalid certificate: {error}")))?;
        Ok(tls.presented_certificate().certificate().as_deref() == Some(expected.as_ref()))
    }

    /// Returns the RPC client of a node.
    pub async fn rpc(&self, node: &str) -> Result<Rpc> {
        self.address(node).await.map(Rpc::at)
    }

    /// Returns how often the operator deleted the pod of a node. Complete only after an effect of the deletion was observed,
    /// because requests are logged with a delay.
    pub fn pod_deletions(&self, node: &str) -> Result<usize> {
        // The kubelet deletes pods as well, after they terminate.
        self.operator_requests(("delete", "pods", ""), &object::pod(node))
    }

    /// Returns how often the operator wrote the status of a node.
    pub fn status_writes(&self, node: &str) -> Result<usize> {
        self.operator_requests(("patch", "seinodes", "status"), node)
    }

    /// Returns the number of successful requests of the operator for an object, by verb, resource and subresource.
    fn operator_requests(&self, request: (&str, &str, &str), name: &str) -> Result<usize> {
        let matches = |one: &AuditedRequest| {
            one.user == platform::OPERATOR_USER
                && (one.verb.as_str(), one.resource.as_str(), one.subresource.as_str()) == request
                && (one.name.as_str(), one.namespace.as_str()) == (name, self.namespace)
                && one.code < 300
        };
        Ok(self.plane().audit().requests(matches)?.len())
    }

    /// Waits until a node has a block of height `least` and returns its latest height.
    pub async fn wait_for_height(&self, node: &str, least: u64) -> Result<u64> {
        wait::until(format!("block {least} of {node}"), TIMEOUT, || async {
            match self.rpc(node).await?.height().await? {
                height if height >= least => Ok(height),
                height => Err(Error::Other(format!("latest block is {height}"))),
            }
        })
        .await
    }

    /// Waits until a node has five new blocks and returns its height.
    pub async fn wait_for_new_blocks(&self, node: &str) -> Result<u64> {
        let height = self.wait_for_height(node, 1).await?;
        self.wait_for_height(node, height + 5).await
    }
}

/// Returns true if a node is Running, Ready and its latest generation is reconciled.
#[must_use]
pub fn is_ready(node: &SeiNode, status: &SeiNodeStatus) -> bool {
    status.phase == Some(SeiNodePhase::Running)
        && status.reconciled_generation == node.metadata.generation
        && condition(status, "Ready").0 == "True"
}

/// Returns status and reason of a condition.
#[must_use]
pub fn condition<'a>(status: &'a SeiNodeStatus, name: &str) -> (&'a str, &'a str) {
    let found = status.conditions.iter().find(|condition| condition.type_ == name);
    found.map_or(("", ""), |condition| (&condition.status, &condition.reason))
}
