//! What a pod, a StatefulSet and a sidecar tell about a node.

use std::sync::Arc;

use api::SeiNode;
use api::applied::Standing;
use api::names::{label, object, role};
use api::sei_node::{ObservedTls, Scheme, SeiNodeStatus};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube_core::{Resource, ResourceExt};

use super::action::Transport;
use super::drift;
use super::seen_pod::SeenPod;
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
pub(super) fn pod<'a>(node: &SeiNode, world: &'a World) -> Option<&'a Arc<SeenPod>> {
    let name = object::pod(node.metadata.name.as_deref().unwrap_or_default());
    let set = world.stateful_set.as_deref()?.metadata.uid.as_deref()?;
    world.pods.iter().find(|pod| {
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        pod.metadata.name.as_deref() == Some(&name) && owners.iter().any(|owner| owner.uid == set)
    })
}

/// The pod of the node's bootstrap Job that has not ended.
pub(super) fn bootstrap_pod(world: &World) -> Option<&Arc<SeenPod>> {
    let job = world.job.as_deref()?.metadata.uid.as_deref()?;
    world.pods.iter().find(|pod| {
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        let component = pod.labels().get(label::COMPONENT).map(String::as_str);
        component == Some(role::BOOTSTRAP_COMPONENT) && owners.iter().any(|owner| owner.uid == job)
    })
}

/// The revision that a pod was made from.
pub(super) fn revision_of(pod: &SeenPod) -> Option<&str> {
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

fn to(node: &SeiNode, pod: &SeenPod, tls: &ObservedTls) -> Transport {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let namespace = node.metadata.namespace.as_deref().unwrap_or_default();
    Transport {
        scheme: tls.scheme,
        host: object::pod_host(name, namespace),
        address: pod.status.as_ref().and_then(|status| status.pod_ip.clone()),
        secret: tls.secret_name.clone().filter(|_| tls.scheme == Scheme::Https),
    }
}
