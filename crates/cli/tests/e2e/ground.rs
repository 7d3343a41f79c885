//! What tests of everything stand on: the platform, and the nodes of `examples` on it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use api::SeiNode;
use api::names::object;
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::{Client, Resource};
use serde_json::{Value, json};
use testbed::control_plane::AuditedRequest;
use testbed::platform::{FULL_NODE, NAMESPACE, PUBLISHER, Platform, VALIDATOR};
use testbed::rpc::Rpc;
use testbed::{Context, ControlPlane, Error, kubectl, wait};
use tokio::sync::{Mutex, MutexGuard};

use crate::sidecar::Caller;

/// How long things of pods may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(300);

/// Tests that edit the full node take turns.
static FULL_NODE_TURN: Mutex<()> = Mutex::const_new(());

/// What a test stands on.
pub struct Ground<'a> {
    pub platform: &'a Platform,
    pub client: Client,
    /// The namespace of the nodes.
    pub ns: &'static str,
}

impl<'a> Ground<'a> {
    pub async fn of(cx: &'a Context) -> Result<Self, Error> {
        let platform = cx.platform().await?;
        Ok(Self { platform, client: platform.plane().client().await?, ns: NAMESPACE })
    }

    /// With the validator running: whoever is first has it begin.
    pub async fn with_validator(cx: &'a Context) -> Result<Self, Error> {
        let ground = Self::of(cx).await?;
        ground.platform.apply_file("validator/validator.yaml")?;
        ground.until(VALIDATOR, "it runs", is_ready).await?;
        Ok(ground)
    }

    /// The same with the full node that follows it, and nobody else who edits it.
    pub async fn with_full_node(cx: &'a Context) -> Result<(Self, MutexGuard<'static, ()>), Error> {
        let ground = Self::with_validator(cx).await?;
        let turn = FULL_NODE_TURN.lock().await;
        // As the test before has left it, if there was one: to apply it anew could replace its pod.
        let is_new = ground.api::<SeiNode>().get_opt(FULL_NODE).await?.is_none();
        if is_new {
            ground.platform.apply_file("full-node/full-node.yaml")?;
        }
        let begin = Instant::now();
        ground.until(FULL_NODE, "it runs", is_ready).await?;
        if is_new {
            println!("a full node: Running {} after kubectl apply", since(begin));
        }
        Ok((ground, turn))
    }

    /// With the node that makes snapshots, and the account that may have them uploaded.
    pub async fn with_publisher(cx: &'a Context) -> Result<Self, Error> {
        let ground = Self::with_validator(cx).await?;
        ground.platform.apply_file("access/uploader.yaml")?;
        ground.platform.apply_file("snapshots/publisher.yaml")?;
        ground.until(PUBLISHER, "it runs", is_ready).await?;
        Ok(ground)
    }

    /// The account that may give the publisher tasks.
    pub fn uploader(&self) -> Result<Caller, Error> {
        Caller::account(self, "uploader")
    }

    pub fn plane(&self) -> &'a ControlPlane {
        self.platform.plane()
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.ns)
    }

    /// Waits until a node is as wanted.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&SeiNode, &SeiNodeStatus) -> bool,
    ) -> Result<SeiNode, Error> {
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
    pub fn edit(&self, name: &str, spec: &Value) -> Result<(), Error> {
        let patch = json!({ "spec": spec }).to_string();
        let args = ["patch", "seinode", name, "--namespace", self.ns, "--type=merge", "--patch", &patch];
        kubectl::run(self.plane(), &args, None).map(drop)
    }

    /// The pod of a node.
    pub async fn pod(&self, node: &str) -> Result<Pod, Error> {
        Ok(self.api::<Pod>().get(&object::pod(node)).await?)
    }

    /// The address of a node's pod.
    pub async fn address(&self, node: &str) -> Result<IpAddr, Error> {
        let address = self.pod(node).await?.status.and_then(|status| status.pod_ip?.parse().ok());
        address.ok_or_else(|| Error::Refused(format!("the pod of {node} has no address")))
    }

    /// The seid of a node.
    pub async fn rpc(&self, node: &str) -> Result<Rpc, Error> {
        self.address(node).await.map(Rpc::at)
    }

    /// How many pods of a node the operator has deleted. Who asks has seen what followed: the log has it by then.
    pub fn pod_deletions(&self, node: &str) -> Result<usize, Error> {
        let (user, pod) = (operator_user(), object::pod(node));
        let deleted = |one: &AuditedRequest| {
            one.user == user
                && (one.verb.as_str(), one.resource.as_str()) == ("delete", "pods")
                && (one.name.as_str(), one.namespace.as_str()) == (pod.as_str(), self.ns)
                && one.code < 300
        };
        Ok(self.plane().audit().requests(deleted)?.len())
    }

    /// Waits until the newest block of a node is at least so high, and returns how high it is.
    pub async fn height(&self, node: &str, least: u64) -> Result<u64, Error> {
        wait::until(format!("block {least} of {node}"), SOON, || async {
            match self.rpc(node).await?.height().await? {
                height if height >= least => Ok(height),
                height => Err(Error::Refused(format!("it is at {height}"))),
            }
        })
        .await
    }

    /// Waits until a node makes or follows blocks: five more than when it was asked first.
    pub async fn grows(&self, node: &str) -> Result<u64, Error> {
        let height = self.height(node, 1).await?;
        self.height(node, height + 5).await
    }
}

/// Who the operator is to the API server.
pub fn operator_user() -> String {
    format!("system:serviceaccount:{}:{}", operator::install::NAMESPACE, operator::install::ACCOUNT)
}

/// Whether a node runs as its newest spec says.
pub fn is_ready(node: &SeiNode, status: &SeiNodeStatus) -> bool {
    status.phase == Some(SeiNodePhase::Running)
        && status.reconciled_generation == node.metadata.generation
        && condition(status, "Ready").0 == "True"
}

/// Status and reason of a condition.
pub fn condition<'a>(status: &'a SeiNodeStatus, name: &str) -> (&'a str, &'a str) {
    let found = status.conditions.iter().find(|condition| condition.type_ == name);
    found.map_or(("", ""), |condition| (&condition.status, &condition.reason))
}

/// Seconds since a moment, for people.
pub fn since(begin: Instant) -> String {
    format!("{:.1} s", begin.elapsed().as_secs_f64())
}
