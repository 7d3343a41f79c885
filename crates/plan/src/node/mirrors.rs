//! Mirrors: what a node was seen to run with. Each is stamped from a pod that runs, after it was found to be made from the
//! wanted template.

use api::SeiNode;
use api::names::{annotation, container};
use api::sei_node::{PeerSource, SeiNodeStatus, StartedFrom};

use super::drift::{self, Config, Parts};
use super::kind::Kind;
use super::seen_pod::SeenPod;
use super::settings::external_address;

/// Stamps what the pod tells. The caller has seen that it is of the newest revision of the wanted template.
pub(super) fn stamp_pod(status: &mut SeiNodeStatus, node: &SeiNode, kind: Kind<'_>, pod: &SeenPod) {
    status.current_image = pod.image_of(container::SEID).map(str::to_owned);
    status.current_sidecar_image = pod.image_of(container::SIDECAR).map(str::to_owned);
    status.current_proxy_image = pod.image_of(container::PROXY).map(str::to_owned);
    let annotations = pod.metadata.annotations.as_ref();
    status.current_proxy_config_hash =
        annotations.and_then(|all| all.get(annotation::PROXY_CONFIG_HASH)).cloned();
    // The API server writes these in its own way, and adds to them; the template that the pod was made from has them so.
    status.current_sidecar_port = Some(drift::sidecar_port(node));
    status.current_sidecar_resources = Some(drift::sidecar_resources(node));
    status.current_pod_labels = Some(drift::own_labels(&node.spec.pod_labels));
    status.current_keys = Some(kind.keys());
}

/// Stamps the settings that a plan had the sidecar write.
pub(super) fn stamp_config(
    status: &mut SeiNodeStatus,
    node: &SeiNode,
    kind: Kind<'_>,
    peers: Vec<PeerSource>,
    parts: Parts,
) {
    if parts.config == Config::Kept {
        return;
    }
    status.current_overrides = Some(node.spec.overrides.clone());
    status.current_peers = Some(peers);
    status.current_external_address = Some(external_address(node).unwrap_or_default().to_owned());
    let uploads = status.current_snapshot_generation.is_some_and(|before| before.publish);
    let mut generation = kind.snapshot_generation();
    generation.publish |= uploads;
    status.current_snapshot_generation = Some(generation);
}

/// Stamps what a node began with. For one that another operator set up, what its spec says when it is first seen.
pub(super) fn stamp_start(status: &mut SeiNodeStatus, kind: Kind<'_>) {
    status.started_from = Some(StartedFrom { snapshot: kind.snapshot().cloned() });
}
