//! The objects that belong to a node. What the API server fills in by itself is left out: whoever writes it owns it.

mod bootstrap;
mod certificate;
mod claim;
mod hash;
mod meta;
mod network_policy;
mod pod;
mod proxy_config;
mod resources;
mod service;
mod stateful_set;

use api::SeiNode;
use api::names::{label, role};
use kube_core::Resource;

pub use bootstrap::{bootstrap_job, bootstrap_service};
pub use certificate::certificate;
pub use claim::data_claim;
pub use network_policy::network_policy;
pub use proxy_config::{proxy_config, proxy_config_hash};
pub use service::service;
pub use stateful_set::stateful_set;

use crate::platform::Platform;

/// Labels that are ours on every object of a node; those of a spec do not overrule them.
pub const SYSTEM_LABELS: [&str; 3] = [label::NODE, label::CHAIN, label::ROLE];

/// Why an object cannot be made from a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Whether an object belongs to a bootstrap pod. Those have no role: a label of a spec, which is on the node's own objects
/// beside their role, does not make bootstrap objects of them, which would be torn down.
#[must_use]
pub fn is_bootstrap<K: Resource>(object: &K) -> bool {
    let labels = object.meta().labels.as_ref();
    labels.is_some_and(|labels| {
        labels.get(label::COMPONENT).map(String::as_str) == Some(role::BOOTSTRAP_COMPONENT)
            && !labels.contains_key(label::ROLE)
    })
}

/// A hash over everything that is wanted of a node's objects.
#[must_use]
pub fn wish(node: &SeiNode, platform: &Platform) -> String {
    hash::of(&(
        wanted(stateful_set(node, platform)),
        wanted(Ok(service(node))),
        wanted(data_claim(node, platform)),
        wanted(Ok(proxy_config(node))),
        wanted(certificate(node)),
        wanted(Ok(network_policy(node, platform))),
        wanted(Ok(bootstrap_service(node))),
        wanted(bootstrap_job(node, platform)),
    ))
}

/// What is wanted of one object; why it cannot be made is a wish too, and changes with the spec.
fn wanted<K>(object: Result<K, Refusal>) -> Result<K, String> {
    object.map_err(|refusal| refusal.0)
}
