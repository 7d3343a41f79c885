//! A validator and a full node with real seid: created, edited, failed and recovered.

use std::cell::RefCell;
use std::time::Instant;

use api::SeiNode;
use api::sei_node::SeiNodeStatus;
use kube::ResourceExt as _;
use testbed::demo::platform::{FULL_NODE, NAMESPACE, Platform, SEID, SEID_ALIAS, VALIDATOR};
use testbed::demo::sei_nodes::{SeiNodes, is_ready};
use testbed::{Error, Result};

use super::narrator::Narrator;

/// An image that does not exist.
const MISSING_IMAGE: &str = "outrigger.dev/testbed-seid:no-such-tag";

/// SeiNodes of the demo.
pub(super) struct NodeDemo<'a> {
    narrator: &'a Narrator,
    nodes: SeiNodes<'a>,
}

impl<'a> NodeDemo<'a> {
    pub(super) async fn new(narrator: &'a Narrator, platform: &'a Platform) -> Result<Self> {
        Ok(Self { narrator, nodes: SeiNodes::new(platform).await? })
    }

    /// Creates both nodes and waits until they have blocks.
    pub(super) async fn create(&self) -> Result<()> {
        self.narrator.section(
            "SeiNodes: a validator and a full node",
            "Keys are in Secrets, the genesis is in S3. The operator stores a plan in the status before it acts, so the status \
             always shows what a node waits for.",
        );
        for (file, node, activity) in [
            ("validator/validator.yaml", VALIDATOR, "produces blocks"),
            ("full-node/full-node.yaml", FULL_NODE, "follows the chain"),
        ] {
            let begin = Instant::now();
            self.narrator.event(format!("kubectl apply --server-side -f examples/{file}"));
            self.nodes.platform().apply_file(file)?;
            self.wait_until_running(node).await?;
            self.nodes.wait_for_height(node, 2).await?;
            self.narrator.event(format!(
                "{node} is Running and {activity}, {:.1} s after kubectl apply",
                begin.elapsed().as_secs_f64()
            ));
        }
        self.narrator.show(self.nodes.plane(), &["get", "seinodes", "--namespace", NAMESPACE])?;
        self.show_heights().await?;
        let target = self.nodes.wait_for_height(VALIDATOR, 1).await? + 3;
        for node in [VALIDATOR, FULL_NODE] {
            self.nodes.wait_for_height(node, target).await?;
        }
        self.show_heights().await
    }

    /// Edits image and TLS of the running full node together.
    pub(super) async fn edit(&self) -> Result<()> {
        self.narrator.section(
            "Edit of image and TLS on the running full node",
            "The operator rolls out all changes of an edit with one plan and one pod cycle, while the chain produces blocks.",
        );
        let plane = self.nodes.plane();
        self.narrator.event("kubectl apply --server-side -f examples/tls/issuer.yaml");
        self.nodes.platform().apply_file("tls/issuer.yaml")?;
        let (before, pod, begin) = (
            self.nodes.wait_for_height(VALIDATOR, 1).await?,
            self.nodes.pod(FULL_NODE).await?,
            Instant::now(),
        );
        let patch = format!(
            r#"{{"spec":{{"image":"{SEID_ALIAS}","sidecar":{{"tls":{{"issuerName":"sidecars","issuerKind":"Issuer"}}}}}}}}"#
        );
        self.patch(&patch)?;
        self.wait_until_running(FULL_NODE).await?;
        let cycles = self.nodes.pod_deletions(FULL_NODE)?;
        let now = self.nodes.pod(FULL_NODE).await?;
        if now.uid() == pod.uid() {
            return Err(Error::Other("the pod was not replaced".into()));
        }
        let after = self.nodes.wait_for_height(VALIDATOR, before + 1).await?;
        self.narrator.event(format!(
            "full-node is Running with the new spec after {:.1} s, with {} pod cycle (from the audit log); validator advanced from block {before} to {after}",
            begin.elapsed().as_secs_f64(),
            cycles,
        ));
        let output = "custom-columns=IMAGE:.status.currentImage,SIDECAR:.status.currentSidecarTLS.scheme,ISSUER:.status.currentSidecarTLS.issuerName";
        self.narrator
            .show(plane, &["get", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--output", output])
    }

    /// Sets an image that does not exist, and fixes it.
    pub(super) async fn fail_and_recover(&self) -> Result<()> {
        self.narrator.section(
            "Image that cannot be pulled",
            "The status reports the failure of the pod within a minute; the operator reconciles the next edit immediately.",
        );
        let begin = Instant::now();
        self.patch(&format!(r#"{{"spec":{{"image":"{MISSING_IMAGE}"}}}}"#))?;
        let pull_failure = |status: &SeiNodeStatus| {
            let message = status.waiting_for.as_ref().and_then(|waiting| waiting.message.clone());
            message.filter(|message| message.contains(MISSING_IMAGE) && message.contains("Image"))
        };
        let node = self
            .nodes
            .wait_until(FULL_NODE, "status to report the image", |_, status| pull_failure(status).is_some())
            .await?;
        let message = node.status.as_ref().and_then(pull_failure).unwrap_or_default();
        self.narrator.event(format!(
            "status reports the failure after {:.1} s: {message}",
            begin.elapsed().as_secs_f64()
        ));
        let output = "jsonpath={.status.waitingFor.message}{\"\\n\"}";
        let plane = self.nodes.plane();
        self.narrator
            .show(plane, &["get", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--output", output])?;
        let begin = Instant::now();
        self.patch(&format!(r#"{{"spec":{{"image":"{SEID}"}}}}"#))?;
        self.wait_until_running(FULL_NODE).await?;
        let height = self.nodes.wait_for_height(VALIDATOR, 1).await?;
        self.nodes.wait_for_height(FULL_NODE, height).await?;
        self.narrator.event(format!(
            "full-node is Running again {:.1} s after the fix, at block {height}",
            begin.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    fn patch(&self, patch: &str) -> Result<()> {
        let args =
            ["patch", "seinode", FULL_NODE, "--namespace", NAMESPACE, "--type=merge", "--patch", patch];
        self.narrator.run(self.nodes.plane(), &args)
    }

    async fn show_heights(&self) -> Result<()> {
        for node in [VALIDATOR, FULL_NODE] {
            let rpc = self.nodes.rpc(node).await?;
            let height = rpc.height().await?;
            self.narrator.event(format!("{node}: block {height}, {}", rpc.block_hash(height).await?));
        }
        Ok(())
    }

    /// Waits until a node runs with its latest spec and prints what it waits for.
    async fn wait_until_running(&self, name: &str) -> Result<()> {
        let printed = RefCell::new(String::new());
        let is_running = |node: &SeiNode, status: &SeiNodeStatus| {
            if is_ready(node, status) {
                return true;
            }
            let mut progress = status.plan_step.clone().unwrap_or_default();
            if let Some(waiting) = &status.waiting_for {
                progress = format!("{progress}, waiting for {}", waiting.target);
            }
            if !progress.is_empty() && progress != *printed.borrow() {
                self.narrator.event(format!("  {name}: {progress}"));
                printed.replace(progress);
            }
            false
        };
        self.nodes.wait_until(name, "node to run", is_running).await.map(drop)
    }
}
