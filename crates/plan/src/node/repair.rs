//! Repair: restores objects of a node that were deleted or modified, outside of plans.

use api::drift::Drift;
use api::sei_node::{Scheme, SeiNodeStatus};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::Resource;
use serde::Serialize;

use super::action::{Action, Object};
use super::adoption;
use super::context::{NodeContext, is_controlled_by, is_terminating, kind_of, name_of};
use super::isolation::with_running_isolation;
use crate::render::{self, RenderError};

/// Returns the actions that restore objects, each with a sentence about what happened. They suit the isolation of the running pod,
/// which may not be the desired one yet. The StatefulSet is left to a plan that is held back, if its template would be that of the plan.
pub(super) fn repairs(
    context: NodeContext<'_>,
    status: &SeiNodeStatus,
    with_stateful_set: bool,
) -> Vec<(Action, String)> {
    let is_adopted = adoption::is_unchanged(context, status);
    let NodeContext { platform, observed, .. } = context;
    let running = with_running_isolation(context.node, platform, status);
    let node = &*running;
    let context = NodeContext { node, ..context };
    let mut repairs = Vec::new();
    // The previous controller of an adopted node did not create these.
    if !is_adopted {
        let policy = || Ok(render::network_policy(node, platform));
        repairs.extend(repair(context, observed.network_policy.as_deref(), policy, Object::NetworkPolicy));
        let config = || Ok(render::proxy_config(node));
        repairs.extend(repair(context, observed.proxy_config.as_deref(), config, Object::ConfigMap));
    }
    let service = || Ok(render::service(node));
    repairs.extend(repair(context, observed.service.as_deref(), service, Object::Service));
    let tls = status.current_sidecar_tls.as_ref();
    if tls.is_some_and(|tls| tls.scheme == Scheme::Https && tls.issuer_name.is_some()) {
        let certificate = || render::certificate(node);
        repairs.extend(repair(context, observed.certificate.as_deref(), certificate, Object::Certificate));
    }
    // Last: its pod needs the other objects.
    if with_stateful_set {
        let set = || render::stateful_set(node, platform);
        repairs.extend(repair(context, observed.stateful_set.as_deref(), set, Object::StatefulSet));
    }
    repairs
}

/// Returns the action that brings the PodDisruptionBudget of a validator in sync, with a sentence if it was missing or modified.
/// Other than [`repairs`] it does not wait for a plan: a machine must be drainable while an update of its validator hangs, and
/// the budget replaces no pod.
pub(super) fn disruption_budget(context: NodeContext<'_>) -> Option<(Action, Option<String>)> {
    let NodeContext { node, kind, observed, .. } = context;
    if !kind.can_sign() {
        return None;
    }
    let cause = match observed.disruption_budget.as_deref() {
        // Previous versions did not create it: that it is missing does not mean that it was deleted.
        None => None,
        Some(live) if is_terminating(live) || !is_controlled_by(node, live) => return None,
        Some(live) => {
            let cache = &observed.render_cache;
            let desired = || Ok(render::disruption_budget(node));
            let hash = cache.desired_hash(node, kind_of::<PodDisruptionBudget>(), desired).ok()?;
            match cache.compare(node, live, &hash, desired) {
                Drift::InSync => return None,
                Drift::Modified => Some("modified"),
                // The annotation was set or removed.
                Drift::Outdated => None,
            }
        }
    };
    let desired = render::disruption_budget(node);
    let name = name_of(&desired).to_owned();
    let object = Object::DisruptionBudget(Box::new(desired));
    if observed.write_failures.contains_key(object.kind()) {
        return None;
    }
    let sentence = cause.map(|cause| format!("{} {name} was {cause} and has been restored", object.kind()));
    Some((Action::Apply(object), sentence))
}

/// Restores an object that was deleted or modified. An object that was applied from another desired state is left
/// alone: the next plan applies it, and a mere upgrade of the operator must not touch every node.
fn repair<K, L>(
    context: NodeContext<'_>,
    live: Option<&L>,
    desired: impl Fn() -> Result<K, RenderError>,
    wrap: fn(Box<K>) -> Object,
) -> Option<(Action, String)>
where
    K: Resource<DynamicType = ()> + Serialize,
    L: Resource<DynamicType = ()> + Serialize,
{
    let NodeContext { node, observed, .. } = context;
    let cause = match live {
        None => "deleted",
        Some(live) if is_terminating(live) || !is_controlled_by(node, live) => return None,
        Some(live) => {
            let hash = observed.render_cache.desired_hash(node, kind_of::<K>(), &desired).ok()?;
            if observed.render_cache.compare(node, live, &hash, &desired) != Drift::Modified {
                return None;
            }
            "modified"
        }
    };
    let desired = desired().ok()?;
    let name = name_of(&desired).to_owned();
    let object = wrap(Box::new(desired));
    // A condition reports the failure, and the next reconcile retries: nothing changes within this one.
    if observed.write_failures.contains_key(object.kind()) {
        return None;
    }
    let sentence = format!("{} {name} was {cause} and has been restored", object.kind());
    Some((Action::Apply(object), sentence))
}
