//! The configuration of a node's proxy.

use api::SeiNode;
use api::names::{data_key, group, object};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::{hash, meta};
use crate::platform::Platform;

/// The configuration of a node's proxy.
#[must_use]
pub fn proxy_config(node: &SeiNode) -> ConfigMap {
    ConfigMap {
        metadata: meta::of(node, object::proxy_config(meta::name(node)), meta::labels(node)),
        data: Some([(data_key::PROXY_CONFIG.into(), content(node))].into()),
        ..ConfigMap::default()
    }
}

/// A hash of all that the proxy is told. The proxy reads it once: only a new pod follows a change. An audience that is not there
/// leaves no trace: pods from before there were audiences are not made anew.
#[must_use]
pub fn proxy_config_hash(node: &SeiNode, platform: &Platform) -> String {
    match &platform.proxy_token_audience {
        None => hash::of_text(&content(node)),
        Some(audience) => hash::of_text(&format!("{}audience: {audience}\n", content(node))),
    }
}

/// Who may call the sidecar: whoever has the rights on the node's tasks. The key is `apiGroup`; the proxy takes no notice of
/// any other, asks about the empty group, and turns everybody away. Names are quoted: a node may be called `1e3` or `null`.
fn content(node: &SeiNode) -> String {
    let (namespace, name) = (Value::from(meta::namespace(node)), Value::from(meta::name(node)));
    let (group, resource) = (group::SEI, group::TASK_RESOURCE);
    format!(
        "authorization:\n  resourceAttributes:\n    apiGroup: {group}\n    resource: {resource}\n    \
         namespace: {namespace}\n    name: {name}\n"
    )
}
