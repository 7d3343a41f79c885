//! A validator and a node that follows it, with real seid: applied, edited while it runs, broken and mended.

use std::cell::RefCell;
use std::time::Instant;

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use kube::ResourceExt as _;
use testbed::demo::platform::{FULL_NODE, NAMESPACE, Platform, SEID, SEID_AGAIN, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::{Error, Result};

use super::narrator::Narrator;

/// An image that is nowhere.
const MISSING: &str = "outrigger.dev/testbed-seid:no-such-tag";

/// The nodes of the demo.
pub(super) struct Nodes<'a> {
    narrator: &'a Narrator,
    nodes: SeiNodes<'a>,
}

impl<'a> Nodes<'a> {
    pub(super) async fn of(narrator: &'a Narrator, platform: &'a Platform) -> Result<Self> {
        Ok(Self { narrator, nodes: SeiNodes::on(platform).await? })
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
            self.nodes.platform().apply_file(file)?;
            self.until_running(node).await?;
            self.nodes.height(node, 2).await?;
            self.narrator.say(format!(
                "{node} is Running and has blocks, {:.1} s after it was applied.",
                begin.elapsed().as_secs_f64()
            ));
        }
        self.narrator.show(self.nodes.plane(), &["get", "seinodes", "--namespace", NAMESPACE])?;
        self.show_heights().await?;
        let most = self.nodes.height(VALIDATOR, 1).await? + 3;
        for node in [VALIDATOR, FULL_NODE] {
            self.nodes.height(node, most).await?;
        }
        self.show_heights().await
    }

    /// An edit of two things at once, while the chain goes on.
    pub(super) async fn edit(&self) -> Result<()> {
        self.narrator.chapter(
            "An image and TLS, edited together on the running node",
            "One edit is one plan and one pod, whatever was edited together; the chain goes on meanwhile.",
        );
        let plane = self.nodes.plane();
        self.narrator.say("An issuer of cert-manager for certificates of sidecars: examples/tls/issuer.yaml");
        self.nodes.platform().apply_file("tls/issuer.yaml")?;
        let (before, pod, begin) =
            (self.nodes.height(VALIDATOR, 1).await?, self.nodes.pod(FULL_NODE).await?, Instant::now());
        let patch = format!(
            r#"{{"spec":{{"image":"{SEID_AGAIN}","sidecar":{{"tls":{{"issuerName":"sidecars","issuerKind":"Issuer"}}}}}}}}"#
        );
        self.patch(&patch)?;
        self.until_running(FULL_NODE).await?;
        let cycles = self.nodes.pod_deletions(FULL_NODE)?;
        let now = self.nodes.pod(FULL_NODE).await?;
        if now.uid() == pod.uid() {
            return Err(Error::Refused("the pod is the one of before".into()));
        }
        let after = self.nodes.height(VALIDATOR, before + 1).await?;
        self.narrator.say(format!(
            "Done after {:.1} s with {} pod cycle (counted in the API server's log). The validator went from block {before} to {after}.",
            begin.elapsed().as_secs_f64(),
            cycles,
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
        let said = |status: &SeiNodeStatus| {
            let said = status.waiting_for.as_ref().and_then(|waiting| waiting.message.clone());
            said.filter(|said| said.contains(MISSING) && said.contains("Image"))
        };
        let node =
            self.nodes.until(FULL_NODE, "its image is named", |_, status| said(status).is_some()).await?;
        let named = node.status.as_ref().and_then(said).unwrap_or_default();
        self.narrator.say(format!("Named after {:.1} s: {named}", begin.elapsed().as_secs_f64()));
        let output = "jsonpath={.status.waitingFor.message}{\"\\n\"}";
        let plane = self.nodes.plane();
        self.narrator
            .show(plane, &["get", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--output", output])?;
        let begin = Instant::now();
        self.patch(&format!(r#"{{"spec":{{"image":"{SEID}"}}}}"#))?;
        self.until_running(FULL_NODE).await?;
        let height = self.nodes.height(VALIDATOR, 1).await?;
        self.nodes.height(FULL_NODE, height).await?;
        self.narrator.say(format!(
            "Mended after {:.1} s; it follows at block {height}.",
            begin.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    fn patch(&self, patch: &str) -> Result<()> {
        let args =
            ["patch", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--type=merge", "--patch", patch];
        self.narrator.act(self.nodes.plane(), &args)
    }

    async fn show_heights(&self) -> Result<()> {
        for node in [VALIDATOR, FULL_NODE] {
            let rpc = self.nodes.rpc(node).await?;
            let height = rpc.height().await?;
            self.narrator.say(format!("{node}: block {height}, {}", rpc.block(height).await?));
        }
        Ok(())
    }

    /// Waits until a node runs as its newest spec says, and tells what it waits for meanwhile.
    async fn until_running(&self, name: &str) -> Result<()> {
        let told = RefCell::new(String::new());
        let runs = |node: &SeiNode, status: &SeiNodeStatus| {
            if is_ready(node, status) {
                return true;
            }
            let mut now = status.plan_step.clone().unwrap_or_default();
            if let Some(waiting) = &status.waiting_for {
                now = format!("{now}, waiting for {}", waiting.target);
            }
            if !now.is_empty() && now != *told.borrow() {
                self.narrator.say(format!("  {name}: {now}"));
                told.replace(now);
            }
            false
        };
        self.nodes.until(name, "it runs", runs).await.map(drop)
    }
}
