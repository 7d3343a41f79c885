//! The nodes of a round: made, waited for, edited. Only their phase is read, so that any operator's status will do.

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

/// How many nodes are being made at once.
const AT_ONCE: usize = 16;

/// The longest that all nodes may take to run.
const RUN_WITHIN: Duration = Duration::from_secs(1_800);

/// The longest that an edit may take to replace a pod.
const REPLACE_WITHIN: Duration = Duration::from_secs(120);

/// A node as far as it matters here.
pub type Node = Object<Value, Status>;

/// What is read of a node's status.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Status {
    phase: Option<String>,
}

/// Nodes of all namespaces.
pub fn everywhere(client: &Client) -> Api<Node> {
    Api::all_with(client.clone(), &kind())
}

fn of(client: &Client, namespace: &str) -> Api<Node> {
    Api::namespaced_with(client.clone(), namespace, &kind())
}

fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("sei.io", "v1alpha1", "SeiNode"))
}

fn name(number: usize) -> String {
    format!("node-{number:04}")
}

/// Makes nodes, and returns when all of them run.
pub async fn run(client: &Client, namespace: &str, count: usize) -> Result<(), Error> {
    let nodes = of(client, namespace);
    let phases = {
        let nodes = nodes.clone();
        tokio::spawn(async move { timeout(RUN_WITHIN, until_all_run(nodes, count)).await })
    };
    let made = stream::iter(0..count).map(|number| {
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
    made.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    match phases.await {
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) => Err(Error::Refused(format!("not every node ran within {RUN_WITHIN:?}"))),
        Err(error) => Err(Error::Refused(format!("the watch of nodes ended: {error}"))),
    }
}

async fn until_all_run(nodes: Api<Node>, count: usize) -> Result<(), Error> {
    let mut phases: BTreeMap<String, String> = BTreeMap::new();
    let mut events = watcher(nodes, watcher::Config::default()).boxed();
    while let Some(event) = events.next().await {
        // A watch that breaks begins anew by itself.
        let Ok(Event::Apply(node) | Event::InitApply(node)) = event else { continue };
        let phase = node.status.clone().unwrap_or_default().phase.unwrap_or_default();
        if phase == "Failed" {
            return Err(Error::Refused(format!("{} has failed: see its operator's log", node.name_any())));
        }
        phases.insert(node.name_any(), phase);
        if phases.values().filter(|phase| *phase == "Running").count() == count {
            return Ok(());
        }
    }
    Ok(())
}

/// Edits the image of one node after the other. The next edit waits until the pod of the one before was replaced:
/// what is measured is an edit, not a queue of them.
pub async fn edit(client: &Client, namespace: &str, count: usize) -> Result<(), Error> {
    let nodes = of(client, namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut events = watcher(pods, watcher::Config::default()).boxed();
    // From here on the watch sees what happens.
    while !matches!(events.next().await, Some(Ok(Event::InitDone))) {}
    for number in 0..count {
        let node = name(number);
        let patch = Patch::Merge(json!({ "spec": { "image": OTHER_IMAGE } }));
        nodes.patch(&node, &PatchParams::default(), &patch).await?;
        let pod = format!("{node}-0");
        let replaced = async {
            loop {
                match events.next().await {
                    Some(Ok(Event::Apply(seen))) if seen.name_any() == pod && is_new(&seen) => return,
                    _ => {}
                }
            }
        };
        timeout(REPLACE_WITHIN, replaced).await.map_err(|_| {
            Error::Refused(format!("pod {pod} was not replaced within {REPLACE_WITHIN:?} of an edit"))
        })?;
    }
    Ok(())
}

/// Whether a pod was made from the edited node, and runs. It need not be ready: some operators take half a minute for that.
fn is_new(pod: &Pod) -> bool {
    let made_from =
        |spec: &PodSpec| spec.containers.iter().any(|one| one.image.as_deref() == Some(OTHER_IMAGE));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.spec.as_ref().is_some_and(made_from) && phase == Some("Running")
}

/// The node that a pod belongs to.
pub fn of_pod(pod: &str) -> &str {
    pod.strip_suffix("-0").unwrap_or(pod)
}
