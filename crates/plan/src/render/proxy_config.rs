//! The configuration of a node's authorizing proxy.

use api::SeiNode;
use api::names::{data_key, group, object};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::{hash, meta};
use crate::platform::Platform;

/// Renders the ConfigMap of a node's proxy.
#[must_use]
pub fn proxy_config(node: &SeiNode) -> ConfigMap {
    ConfigMap {
        metadata: meta::object_meta(node, object::proxy_config(meta::name(node)), meta::labels(node)),
        data: Some([(data_key::PROXY_CONFIG.into(), content(node))].into()),
        ..ConfigMap::default()
    }
}

/// Returns a hash of the proxy's configuration. The proxy reads it once at startup, so that a change needs a new pod.
/// Without an audience the hash is the same as before audiences existed, so that those pods are not replaced.
#[must_use]
pub fn proxy_config_hash(node: &SeiNode, platform: &Platform) -> String {
    match &platform.proxy_token_audience {
        None => hash::hash_text(&content(node)),
        Some(audience) => hash::hash_text(&format!("{}audience: {audience}\n", content(node))),
    }
}

/// Returns the authorization rule: callers of the sidecar need rights on the node's tasks. The key must be `apiGroup`:
/// the proxy ignores any other, checks the empty group, and denies every request. Names are quoted: a node may be
/// called `1e3` or `null`.
fn content(node: &SeiNode) -> String {
    let (namespace, name) = (Value::from(meta::namespace(node)), Value::from(meta::name(node)));
    let (group, resource) = (group::SEI, group::TASK_RESOURCE);
    format!(
        "authorization:\n  resourceAttributes:\n    apiGroup: {group}\n    resource: {resource}\n    \
         namespace: {namespace}\n    name: {name}\n"
    )
}
