//! Repair: outside of plans, what belongs to a node and is gone or was changed by somebody is put back.

use api::SeiNode;
use api::applied::Standing;
use api::sei_node::{Scheme, SeiNodeStatus};
use kube_core::Resource;
use serde::Serialize;

use super::action::{Action, Object};
use super::observe::{self, kind_of};
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
    let see = Surroundings { node, world };
    let policy = || Ok(render::network_policy(node, platform));
    found.extend(see.damage(world.network_policy.as_deref(), policy, Object::NetworkPolicy));
    let config = || Ok(render::proxy_config(node));
    found.extend(see.damage(world.proxy_config.as_deref(), config, Object::ConfigMap));
    let service = || Ok(render::service(node));
    found.extend(see.damage(world.service.as_deref(), service, Object::Service));
    let tls = status.current_sidecar_tls.as_ref();
    if tls.is_some_and(|tls| tls.scheme == Scheme::Https && tls.issuer_name.is_some()) {
        let certificate = || render::certificate(node);
        found.extend(see.damage(world.certificate.as_deref(), certificate, Object::Certificate));
    }
    // Last: its pod needs the others.
    let set = || render::stateful_set(node, platform);
    found.extend(see.damage(world.stateful_set.as_deref(), set, Object::StatefulSet));
    found
}

#[derive(Clone, Copy)]
struct Surroundings<'a> {
    node: &'a SeiNode,
    world: &'a World,
}

impl Surroundings<'_> {
    /// What happened to an object, if anything did. One that was applied from another wish is left alone: the next plan
    /// brings it up to date, and an operator that is merely newer must not touch every node.
    fn damage<K, L>(
        self,
        live: Option<&L>,
        desired: impl Fn() -> Result<K, render::Refusal>,
        wrap: fn(Box<K>) -> Object,
    ) -> Option<(Action, String)>
    where
        K: Resource<DynamicType = ()> + Serialize,
        L: Resource<DynamicType = ()> + Serialize,
    {
        let Self { node, world } = self;
        let what = match live {
            None => "was deleted",
            Some(live) if observe::is_going(live) || !observe::is_ours(node, live) => return None,
            Some(live) => {
                let hash = world.memo.wish(node, kind_of::<K>(), &desired).ok()?;
                if world.memo.standing(node, live, &hash, &desired) != Standing::Changed {
                    return None;
                }
                "was changed"
            }
        };
        let desired = desired().ok()?;
        let name = desired.meta().name.clone().unwrap_or_default();
        let object = wrap(Box::new(desired));
        // Refused for good: it is said in a condition, and not tried in a circle.
        if matches!(world.refused.get(object.kind()), Some(Refusal::Rejected(_) | Refusal::Conflict(_))) {
            return None;
        }
        let said = format!("{} {name} {what} and is put back", object.kind());
        Some((Action::Apply(object), said))
    }
}
