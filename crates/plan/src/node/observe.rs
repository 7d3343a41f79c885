//! What a pod, a StatefulSet and a sidecar tell about a node.

use std::sync::Arc;

use api::SeiNode;
use api::applied::Standing;
use api::names::{container, label, object, role};
use api::sei_node::{ObservedTls, Scheme, SeiNodeStatus};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube_core::{Resource, ResourceExt};

use super::action::Transport;
use super::drift;
use super::world::World;
use crate::platform::Platform;
use crate::render;

/// Says which revision of a StatefulSet's template a pod was made from.
const REVISION: &str = "controller-revision-hash";

/// The name of a kind.
pub(super) fn kind_of<K: Resource<DynamicType = ()>>() -> &'static str {
    // A static string, although its type does not say so.
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    }
}

/// Whether an object is controlled by this very node.
pub(super) fn is_ours<K: Resource>(node: &SeiNode, object: &K) -> bool {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    let uid = node.metadata.uid.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// Whether an object is on its way out.
pub(super) fn is_going<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// The node's own pod: of its name, and made by its StatefulSet.
pub(super) fn pod<'a>(node: &SeiNode, world: &'a World) -> Option<&'a Arc<Pod>> {
    let name = object::pod(node.metadata.name.as_deref().unwrap_or_default());
    let set = world.stateful_set.as_deref()?.metadata.uid.as_deref()?;
    world.pods.iter().find(|pod| {
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        pod.metadata.name.as_deref() == Some(&name) && owners.iter().any(|owner| owner.uid == set)
    })
}

/// The pod of the node's bootstrap Job that has not ended.
pub(super) fn bootstrap_pod(world: &World) -> Option<&Arc<Pod>> {
    let job = world.job.as_deref()?.metadata.uid.as_deref()?;
    world.pods.iter().find(|pod| {
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        let component = pod.labels().get(label::COMPONENT).map(String::as_str);
        component == Some(role::BOOTSTRAP_COMPONENT) && owners.iter().any(|owner| owner.uid == job)
    })
}

/// The revision that a pod was made from.
pub(super) fn revision_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION).map(String::as_str)
}

/// What a pod has of a template that is not the wanted one, although the StatefulSet has the wanted one.
pub(super) fn made_from_another_template(
    node: &SeiNode,
    platform: &Platform,
    world: &World,
) -> Option<String> {
    let set = world.stateful_set.as_deref()?;
    let pod = pod(node, world).filter(|pod| !is_going(&***pod))?;
    let newest = set.newest_revision()?;
    revision_of(pod).filter(|revision| *revision != newest)?;
    let desired = || render::stateful_set(node, platform);
    let hash = world.memo.wish(node, kind_of::<StatefulSet>(), desired).ok()?;
    let settled = world.memo.standing(node, set, &hash, desired) == Standing::AsWished;
    settled.then(|| "a pod that was made from a changed template".into())
}

/// Statuses of every container of a pod, with its name.
fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let first = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let then = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    first.iter().chain(then)
}

/// Whether a container of a pod runs.
pub(super) fn runs(pod: &Pod, container: &str) -> bool {
    containers(pod).any(|status| {
        status.name == container && status.state.as_ref().is_some_and(|state| state.running.is_some())
    })
}

/// Why a pod does not come up, in its own words, if it says so.
pub(super) fn trouble(pod: &Pod) -> Option<String> {
    let waiting = containers(pod).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        // What every container goes through on its way.
        if matches!(reason, "ContainerCreating" | "PodInitializing") {
            return None;
        }
        let message = waiting.message.as_deref().unwrap_or_default();
        let image = image_of(pod, &status.name).unwrap_or_default();
        Some(format!("container {} (image {image}): {reason}: {message}", status.name))
    });
    let ended = || {
        containers(pod).find_map(|status| {
            let ended = status.state.as_ref()?.terminated.as_ref()?;
            let reason = ended.reason.as_deref().unwrap_or("Error");
            (ended.exit_code != 0).then(|| {
                let message = ended.message.as_deref().unwrap_or_default();
                format!("container {}: {reason}, exit code {}: {message}", status.name, ended.exit_code)
            })
        })
    };
    let unscheduled = || {
        let conditions = pod.status.as_ref()?.conditions.as_deref()?;
        let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
        (scheduled.status == "False").then(|| {
            let reason = scheduled.reason.as_deref().unwrap_or("Unschedulable");
            format!("{reason}: {}", scheduled.message.as_deref().unwrap_or_default())
        })
    };
    waiting.or_else(ended).or_else(unscheduled).map(|text| text.trim_end_matches([':', ' ']).to_owned())
}

/// The image of a container of a pod.
pub(super) fn image_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let first = spec.init_containers.as_deref().unwrap_or_default();
    let found = first.iter().chain(&spec.containers).find(|one| one.name == container)?;
    found.image.as_deref()
}

/// How the sidecar of the node's own pod is reached, as it was last seen to be served.
pub(super) fn transport(node: &SeiNode, status: &SeiNodeStatus, world: &World) -> Option<Transport> {
    let seen = status.current_sidecar_tls.clone();
    transport_by(node, world, &seen.unwrap_or_else(drift::plain))
}

/// How the sidecar of the node's own pod is reached, if it is served so.
pub(super) fn transport_by(node: &SeiNode, world: &World, tls: &ObservedTls) -> Option<Transport> {
    let pod = pod(node, world).filter(|pod| !is_going(&***pod))?;
    Some(to(node, pod, tls))
}

/// How the sidecar of the bootstrap pod is reached. It never serves by TLS: it lives shortly, and before any certificate.
pub(super) fn bootstrap_transport(node: &SeiNode, world: &World) -> Option<Transport> {
    let pod = bootstrap_pod(world).filter(|pod| !is_going(&***pod))?;
    Some(to(node, pod, &drift::plain()))
}

fn to(node: &SeiNode, pod: &Pod, tls: &ObservedTls) -> Transport {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let namespace = node.metadata.namespace.as_deref().unwrap_or_default();
    Transport {
        scheme: tls.scheme,
        host: object::pod_host(name, namespace),
        address: pod.status.as_ref().and_then(|status| status.pod_ip.clone()),
        secret: tls.secret_name.clone().filter(|_| tls.scheme == Scheme::Https),
    }
}

/// Whether seid runs in a pod.
pub(super) fn seid_runs(pod: &Pod) -> bool {
    runs(pod, container::SEID)
}
