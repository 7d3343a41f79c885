//! The configuration of a node's authorizing proxy.

use api::SeiNode;
use api::names::{data_key, group, object};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::{hash, meta};
use crate::node::sidecar_isolation;
use crate::platform::{Platform, SidecarIsolation};

/// The header with the kind of a task, as the configuration of the proxy spells it.
const TASK_KIND_HEADER: &str = "X-Sei-Task-Kind";

/// Renders the ConfigMap of a node's proxy, with a configuration for each isolation. It is applied before the pod is replaced, and the
/// proxy of the old pod may restart in between: it must find the configuration that suits its sidecar.
#[must_use]
pub fn proxy_config(node: &SeiNode) -> ConfigMap {
    let entry = |isolation| (key(isolation).to_owned(), content(node, isolation));
    ConfigMap {
        metadata: meta::object_meta(node, object::proxy_config(meta::name(node)), meta::labels(node)),
        data: Some([entry(SidecarIsolation::Isolated), entry(SidecarIsolation::Shared)].into()),
        ..ConfigMap::default()
    }
}

/// Returns a hash of the proxy's configuration. The proxy reads it once at startup, so that a change needs a new pod.
#[must_use]
pub fn proxy_config_hash(node: &SeiNode, platform: &Platform) -> String {
    hash::hash_text(&content(node, sidecar_isolation(node, platform)))
}

/// Returns the key of the configuration that the proxy of a pod reads.
pub(super) fn key(isolation: SidecarIsolation) -> &'static str {
    match isolation {
        SidecarIsolation::Isolated => data_key::PROXY_CONFIG_BY_KIND,
        SidecarIsolation::Shared => data_key::PROXY_CONFIG,
    }
}

/// Returns the authorization rule: callers of the sidecar need rights on the node's tasks. The key must be `apiGroup`:
/// the proxy ignores any other, checks the empty group, and denies every request. Names are quoted: a node may be
/// called `1e3` or `null`. The kind of a task counts only if the sidecar checks the header, which that of upstream does not.
fn content(node: &SeiNode, isolation: SidecarIsolation) -> String {
    let (namespace, name) = (Value::from(meta::namespace(node)), Value::from(meta::name(node)));
    let (group, resource) = (group::SEI, group::TASK_RESOURCE);
    let by_kind = match isolation {
        SidecarIsolation::Isolated => format!("  subresourceFromHeader: {TASK_KIND_HEADER}\n"),
        SidecarIsolation::Shared => String::new(),
    };
    format!(
        "authorization:\n  resourceAttributes:\n    apiGroup: {group}\n    resource: {resource}\n    \
         namespace: {namespace}\n    name: {name}\n{by_kind}"
    )
}
