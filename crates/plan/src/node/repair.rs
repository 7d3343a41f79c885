//! Repair: outside of plans, what belongs to a node and is gone or was changed by somebody is put back.

use api::SeiNode;
use api::applied::Standing;
use api::sei_node::{Scheme, SeiNodeStatus};
use kube_core::Resource;
use serde::Serialize;

use super::action::{Action, Object};
use super::observe;
use super::world::{Refusal, World};
use crate::platform::Platform;
use crate::render;

/// What is to be put back, each with what happened to it.
pub(super) fn repairs(
    node: &SeiNode,
    status: &SeiNodeStatus,
    platform: &Platform,
    world: &World,
) -> Vec<(Action, String)> {
    let mut found = Vec::new();
    let policy = render::network_policy(node, platform);
    found.extend(damage(node, world, world.network_policy.as_deref(), policy, Object::NetworkPolicy));
    let config = render::proxy_config(node);
    found.extend(damage(node, world, world.proxy_config.as_deref(), config, Object::ConfigMap));
    let service = render::service(node);
    found.extend(damage(node, world, world.service.as_deref(), service, Object::Service));
    let tls = status.current_sidecar_tls.as_ref();
    if tls.is_some_and(|tls| tls.scheme == Scheme::Https && tls.issuer_name.is_some())
        && let Ok(certificate) = render::certificate(node)
    {
        found.extend(damage(node, world, world.certificate.as_deref(), certificate, Object::Certificate));
    }
    // Last: its pod needs the others.
    if let Ok(set) = render::stateful_set(node, platform) {
        found.extend(damage(node, world, world.stateful_set.as_deref(), set, Object::StatefulSet));
    }
    found
}

/// What happened to an object, if anything did. One that was applied from another wish is left alone: the next plan brings
/// it up to date, and an operator that is merely newer must not touch every node.
fn damage<K>(
    node: &SeiNode,
    world: &World,
    live: Option<&K>,
    desired: K,
    wrap: fn(Box<K>) -> Object,
) -> Option<(Action, String)>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let name = desired.meta().name.clone().unwrap_or_default();
    let what = match live {
        None => "was deleted",
        Some(live) if observe::is_going(live) || !observe::is_ours(node, live) => return None,
        Some(_) if world.settled.contains(&*K::kind(&())) => return None,
        Some(live) if observe::standing(live, &desired) == Standing::Changed => "was changed",
        Some(_) => return None,
    };
    let object = wrap(Box::new(desired));
    // Refused for good: it is said in a condition, and not tried in a circle.
    if matches!(world.refused.get(object.kind()), Some(Refusal::Rejected(_) | Refusal::Conflict(_))) {
        return None;
    }
    let said = format!("{} {name} {what} and is put back", object.kind());
    Some((Action::Apply(object), said))
}
