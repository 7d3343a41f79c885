//! Renders the objects of a node. Fields that the API server defaults are left out: a field manager owns the fields it
//! applies.

mod bootstrap;
mod certificate;
mod claim;
mod disruption_budget;
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
pub use claim::{data_claim, resized_claim};
pub use disruption_budget::{disruption_budget, is_eviction_allowed};
pub(crate) use meta::{labels, owner_reference};
pub use network_policy::network_policy;
pub(crate) use pod::parse_affinity;
pub use proxy_config::{proxy_config, proxy_config_hash};
pub use service::service;
pub use stateful_set::stateful_set;

use crate::platform::Platform;

/// The labels that the operator sets on every object of a node. `spec.podLabels` cannot override them.
pub const SYSTEM_LABELS: [&str; 3] = [label::NODE, label::CHAIN, label::ROLE];

/// Why an object cannot be rendered from a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RenderError(pub String);

/// Returns whether an object belongs to a bootstrap pod. Bootstrap objects have no role label: without that check, the
/// component label in `spec.podLabels` would mark the node's own objects for teardown.
#[must_use]
pub fn is_bootstrap<K: Resource>(object: &K) -> bool {
    let labels = object.meta().labels.as_ref();
    labels.is_some_and(|labels| {
        labels.get(label::COMPONENT).map(String::as_str) == Some(role::BOOTSTRAP_COMPONENT)
            && !labels.contains_key(label::ROLE)
    })
}

/// Returns a hash of the desired objects of a node that only plans change. The claim is not one of them: it is resized at any
/// time, and a larger volume must not restart a setup.
#[must_use]
pub fn desired_hash(node: &SeiNode, platform: &Platform) -> String {
    hash::hash_value(&(
        hashable(stateful_set(node, platform)),
        hashable(Ok(service(node))),
        hashable(Ok(proxy_config(node))),
        hashable(certificate(node)),
        hashable(Ok(network_policy(node, platform))),
        hashable(Ok(bootstrap_service(node))),
        hashable(bootstrap_job(node, platform)),
    ))
}

/// Makes a rendered object hashable. The error of an object that cannot be rendered counts, too: it changes with the
/// spec.
fn hashable<K>(object: Result<K, RenderError>) -> Result<K, String> {
    object.map_err(|error| error.0)
}
