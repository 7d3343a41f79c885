//! Creates and edits the nodes of a round. Reads only their phase, which every operator reports.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::api::{ApiResource, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, Object};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testbed::Error;
use tokio::time::timeout;

const IMAGE: &str = "images.example/sei:v1";
const OTHER_IMAGE: &str = "images.example/sei:v2";

/// How many nodes are created concurrently.
const CONCURRENT_CREATES: usize = 16;

/// The timeout for all nodes to run.
const RUN_TIMEOUT: Duration = Duration::from_secs(1_800);

/// The timeout for an edit to replace a pod.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(120);

/// A node with only the fields that the benchmark reads.
pub type Node = Object<Value, Status>;

/// The status of a node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Status {
    phase: Option<String>,
}

/// Returns the API for nodes of all namespaces.
pub fn all_namespaces(client: &Client) -> Api<Node> {
    Api::all_with(client.clone(), &kind())
}

fn in_namespace(client: &Client, namespace: &str) -> Api<Node> {
    Api::namespaced_with(client.clone(), namespace, &kind())
}

fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("sei.io", "v1alpha1", "SeiNode"))
}

fn name(number: usize) -> String {
    format!("node-{number:04}")
}

/// Creates nodes, and returns when all of them run.
pub async fn create_and_wait(client: &Client, namespace: &str, count: usize) -> Result<(), Error> {
    let nodes = in_namespace(client, namespace);
    let phases = {
        let nodes = nodes.clone();
        tokio::spawn(async move { timeout(RUN_TIMEOUT, wait_all_running(nodes, count)).await })
    };
    let created = stream::iter(0..count).map(|number| {
        let nodes = nodes.clone();
        async move {
            let mut node = Node::new(
                &name(number),
                &kind(),
                json!({ "chainId": "arctic-1", "image": IMAGE, "fullNode": {} }),
            );
            node.status = None;
            nodes.create(&PostParams::default(), &node).await
        }
    });
    created.buffer_unordered(CONCURRENT_CREATES).try_collect::<Vec<_>>().await?;
    match phases.await {
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) => Err(Error::Other(format!("not every node ran within {RUN_TIMEOUT:?}"))),
        Err(error) => Err(Error::Other(format!("the watch of nodes failed: {error}"))),
    }
}

async fn wait_all_running(nodes: Api<Node>, count: usize) -> Result<(), Error> {
    let mut phases: BTreeMap<String, String> = BTreeMap::new();
    let mut events = watcher(nodes, watcher::Config::default()).boxed();
    while let Some(event) = events.next().await {
        // A broken watch restarts by itself.
        let Ok(Event::Apply(node) | Event::InitApply(node)) = event else { continue };
        let phase = node.status.clone().unwrap_or_default().phase.unwrap_or_default();
        if phase == "Failed" {
            return Err(Error::Other(format!("{} failed: see the log of the operator", node.name_any())));
        }
        phases.insert(node.name_any(), phase);
        if phases.values().filter(|phase| *phase == "Running").count() == count {
            return Ok(());
        }
    }
    Ok(())
}

/// Edits the image of one node after another. The next edit waits until the previous pod is replaced, so that queueing is not
/// measured.
pub async fn edit(client: &Client, namespace: &str, count: usize) -> Result<(), Error> {
    let nodes = in_namespace(client, namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut events = watcher(pods, watcher::Config::default()).boxed();
    // Waits for the initial list.
    while !matches!(events.next().await, Some(Ok(Event::InitDone))) {}
    for number in 0..count {
        let node = name(number);
        let patch = Patch::Merge(json!({ "spec": { "image": OTHER_IMAGE } }));
        nodes.patch(&node, &PatchParams::default(), &patch).await?;
        let pod = format!("{node}-0");
        let replaced = async {
            loop {
                match events.next().await {
                    Some(Ok(Event::Apply(current))) if current.name_any() == pod && is_replaced(&current) => {
                        return;
                    }
                    _ => {}
                }
            }
        };
        timeout(REPLACE_TIMEOUT, replaced).await.map_err(|_| {
            Error::Other(format!("pod {pod} was not replaced within {REPLACE_TIMEOUT:?} of an edit"))
        })?;
    }
    Ok(())
}

/// True when a pod runs the edited image. It need not be ready: some operators take half a minute for that.
fn is_replaced(pod: &Pod) -> bool {
    let has_image = |spec: &PodSpec| {
        spec.containers.iter().any(|container| container.image.as_deref() == Some(OTHER_IMAGE))
    };
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.spec.as_ref().is_some_and(has_image) && phase == Some("Running")
}

/// Returns the node that a pod belongs to.
pub fn node_of_pod(pod: &str) -> &str {
    pod.strip_suffix("-0").unwrap_or(pod)
}
