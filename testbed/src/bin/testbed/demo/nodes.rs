//! A validator and a node that follows it, with real seid: applied, edited while it runs, broken and mended.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use api::SeiNode;
use api::names::object;
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use testbed::platform::{FULL_NODE, NAMESPACE, Platform, SEID, SEID_AGAIN, VALIDATOR};
use testbed::rpc::Rpc;
use testbed::{Error, Result, wait};

use super::narrator::Narrator;

/// How long a node may take for anything; it takes less than a minute.
const SOON: Duration = Duration::from_secs(300);

/// An image that is nowhere.
const MISSING: &str = "outrigger.dev/testbed-seid:no-such-tag";

/// The nodes of the demo.
pub(super) struct Nodes<'a> {
    narrator: &'a Narrator,
    platform: &'a Platform,
    client: Client,
}

impl<'a> Nodes<'a> {
    pub(super) async fn of(narrator: &'a Narrator, platform: &'a Platform) -> Result<Self> {
        Ok(Self { narrator, platform, client: platform.plane().client().await? })
    }

    /// Both from `kubectl apply` to blocks.
    pub(super) async fn begin(&self) -> Result<()> {
        self.narrator.chapter(
            "A chain of one validator, and a node that follows it",
            "Its keys are in Secrets, its genesis in the bucket. The operator writes down a plan before it does anything: what a \
             node waits for is always in its status.",
        );
        for (file, node) in [("validator/validator.yaml", VALIDATOR), ("full-node/full-node.yaml", FULL_NODE)]
        {
            let begin = Instant::now();
            self.narrator.say(format!("kubectl apply --server-side -f examples/{file}"));
            self.platform.apply_file(file)?;
            self.until_running(node).await?;
            self.height(node, 2).await?;
            self.narrator.say(format!(
                "{node} is Running and has blocks, {:.1} s after it was applied.",
                begin.elapsed().as_secs_f64()
            ));
        }
        self.narrator.show(self.platform.plane(), &["get", "seinodes", "--namespace", NAMESPACE])?;
        self.show_heights().await?;
        let most = self.height(VALIDATOR, 1).await? + 3;
        for node in [VALIDATOR, FULL_NODE] {
            self.height(node, most).await?;
        }
        self.show_heights().await
    }

    /// An edit of two things at once, while the chain goes on.
    pub(super) async fn edit(&self) -> Result<()> {
        self.narrator.chapter(
            "An image and TLS, edited together on the running node",
            "One edit is one plan and one pod, whatever was edited together; the chain goes on meanwhile.",
        );
        let plane = self.platform.plane();
        self.narrator.say("An issuer of cert-manager for certificates of sidecars: examples/tls/issuer.yaml");
        self.platform.apply_file("tls/issuer.yaml")?;
        let (before, pod, begin) =
            (self.height(VALIDATOR, 1).await?, self.pod(FULL_NODE).await?, Instant::now());
        let patch = format!(
            r#"{{"spec":{{"image":"{SEID_AGAIN}","sidecar":{{"tls":{{"issuerName":"sidecars","issuerKind":"Issuer"}}}}}}}}"#
        );
        self.patch(&patch)?;
        self.until_running(FULL_NODE).await?;
        let cycles = self.platform.plane().audit().requests(|one| {
            // The kubelet deletes pods too, those that have ended.
            one.user.starts_with("system:serviceaccount:")
                && (one.verb.as_str(), one.resource.as_str()) == ("delete", "pods")
                && one.name == object::pod(FULL_NODE)
                && one.code < 300
        })?;
        let now = self.pod(FULL_NODE).await?;
        if now.uid() == pod.uid() {
            return Err(Error::Refused("the pod is the one of before".into()));
        }
        let after = self.height(VALIDATOR, before + 1).await?;
        self.narrator.say(format!(
            "Done after {:.1} s with {} pod cycle (counted in the API server's log). The validator went from block {before} to {after}.",
            begin.elapsed().as_secs_f64(),
            cycles.len(),
        ));
        let output = "custom-columns=IMAGE:.status.currentImage,SIDECAR:.status.currentSidecarTLS.scheme,ISSUER:.status.currentSidecarTLS.issuerName";
        self.narrator
            .show(plane, &["get", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--output", output])
    }

    /// An image that is nowhere, and the edit that mends it.
    pub(super) async fn break_and_mend(&self) -> Result<()> {
        self.narrator.chapter(
            "An image that cannot be pulled",
            "The status says so from what the pod says, within a minute; the next edit is taken up at once.",
        );
        let begin = Instant::now();
        self.patch(&format!(r#"{{"spec":{{"image":"{MISSING}"}}}}"#))?;
        let named = wait::until("the image to be named in status", SOON, || async {
            let status = self.status(FULL_NODE).await?;
            let said = status.waiting_for.and_then(|waiting| waiting.message).unwrap_or_default();
            if said.contains(MISSING) && said.contains("Image") {
                Ok(said)
            } else {
                Err(Error::Refused(said))
            }
        })
        .await?;
        self.narrator.say(format!("Named after {:.1} s: {named}", begin.elapsed().as_secs_f64()));
        let output = "jsonpath={.status.waitingFor.message}{\"\\n\"}";
        let plane = self.platform.plane();
        self.narrator
            .show(plane, &["get", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--output", output])?;
        let begin = Instant::now();
        self.patch(&format!(r#"{{"spec":{{"image":"{SEID}"}}}}"#))?;
        self.until_running(FULL_NODE).await?;
        let height = self.height(VALIDATOR, 1).await?;
        self.height(FULL_NODE, height).await?;
        self.narrator.say(format!(
            "Mended after {:.1} s; it follows at block {height}.",
            begin.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    fn patch(&self, patch: &str) -> Result<()> {
        let args =
            ["patch", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--type=merge", "--patch", patch];
        self.narrator.act(self.platform.plane(), &args)
    }

    async fn show_heights(&self) -> Result<()> {
        for node in [VALIDATOR, FULL_NODE] {
            let rpc = self.rpc(node).await?;
            let height = rpc.height().await?;
            self.narrator.say(format!("{node}: block {height}, {}", rpc.block(height).await?));
        }
        Ok(())
    }

    async fn status(&self, node: &str) -> Result<SeiNodeStatus> {
        let nodes: Api<SeiNode> = Api::namespaced(self.client.clone(), NAMESPACE);
        Ok(nodes.get(node).await?.status.unwrap_or_default())
    }

    /// Waits until a node runs as its newest spec says, and tells what it waits for meanwhile.
    async fn until_running(&self, name: &str) -> Result<()> {
        let nodes: Api<SeiNode> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut told = String::new();
        let deadline = Instant::now() + SOON;
        loop {
            let node = nodes.get(name).await?;
            let status = node.status.unwrap_or_default();
            let is_ready = status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
            if status.phase == Some(SeiNodePhase::Running)
                && status.reconciled_generation == node.metadata.generation
                && is_ready
            {
                return Ok(());
            }
            let step = status.plan_step.clone().unwrap_or_default();
            let waiting = status.waiting_for.as_ref();
            let now = waiting
                .map_or_else(|| step.clone(), |waiting| format!("{step}, waiting for {}", waiting.target));
            if now != told && !now.is_empty() {
                self.narrator.say(format!("  {name}: {now}"));
                told = now;
            }
            if Instant::now() > deadline {
                let last = serde_json::to_string(&status).unwrap_or_default();
                return Err(Error::Deadline { what: format!("{name} to run"), limit: SOON, last });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn pod(&self, node: &str) -> Result<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        Ok(pods.get(&object::pod(node)).await?)
    }

    async fn rpc(&self, node: &str) -> Result<Rpc> {
        let address: Option<IpAddr> =
            self.pod(node).await?.status.and_then(|status| status.pod_ip?.parse().ok());
        address.map(Rpc::at).ok_or_else(|| Error::Refused(format!("the pod of {node} has no address")))
    }

    /// Waits until a node's newest block is so high.
    async fn height(&self, node: &str, least: u64) -> Result<u64> {
        wait::until(format!("block {least} of {node}"), SOON, || async {
            match self.rpc(node).await?.height().await? {
                height if height >= least => Ok(height),
                height => Err(Error::Refused(format!("it is at {height}"))),
            }
        })
        .await
    }
}
