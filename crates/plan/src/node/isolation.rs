//! How the containers of a node's pod are isolated from each other: as desired, and as the running pod is.

use std::borrow::Cow;

use api::SeiNode;
use api::sei_node::{SeiNodeStatus, SidecarIsolation};

use crate::platform::Platform;

/// Returns the isolation that a spec sets.
pub(super) fn own_isolation(node: &SeiNode) -> Option<SidecarIsolation> {
    node.spec.sidecar.as_ref()?.isolation
}

/// Returns the desired isolation of a node's containers.
#[must_use]
pub fn sidecar_isolation(node: &SeiNode, platform: &Platform) -> SidecarIsolation {
    own_isolation(node).unwrap_or(platform.sidecar_isolation)
}

/// Returns the isolation of the running pod. Previous versions did not record it, and all of their pods were shared.
pub(super) fn running_isolation(status: &SeiNodeStatus) -> SidecarIsolation {
    status.current_sidecar_isolation.unwrap_or(SidecarIsolation::Shared)
}

/// Returns a node with the isolation of its running pod. Objects that are restored outside of a plan must suit that pod.
pub(super) fn with_running_isolation<'a>(
    node: &'a SeiNode,
    platform: &Platform,
    status: &SeiNodeStatus,
) -> Cow<'a, SeiNode> {
    let running = running_isolation(status);
    if sidecar_isolation(node, platform) == running {
        return Cow::Borrowed(node);
    }
    let mut node = node.clone();
    node.spec.sidecar.get_or_insert_default().isolation = Some(running);
    Cow::Owned(node)
}
