//! Nodes that another controller set up. Nothing of them is changed until their spec is edited.

use api::names::object;
use api::sei_node::SeiNodeStatus;

use super::context::NodeContext;
use super::{applied_spec, drift};

/// Adopts a running node that this operator has never brought in sync: its current state counts as applied.
pub(super) fn adopt(context: NodeContext<'_>, status: &mut SeiNodeStatus) {
    if status.reconciled_generation.is_none() {
        status.adopted = true;
        applied_spec::record(context.node, status);
    }
}

/// Returns whether a node is adopted and not edited since. One whose StatefulSet is missing does not run, and is updated.
pub(super) fn is_unchanged(context: NodeContext<'_>, status: &SeiNodeStatus) -> bool {
    status.adopted
        && context.observed.stateful_set.is_some()
        && !applied_spec::is_edited(context.node, status)
}

/// Returns what the next edit changes besides the edited fields.
pub(super) fn pending_changes(context: NodeContext<'_>, status: &SeiNodeStatus) -> Vec<String> {
    let mut pending = drift::find_as_edited(context, status).phrases;
    let observed = context.observed;
    let mut add_missing = |kind: &str, name: String, is_missing: bool| {
        if is_missing {
            pending.push(format!("new {kind} {name}"));
        }
    };
    add_missing("NetworkPolicy", object::network_policy(context.name()), observed.network_policy.is_none());
    add_missing(
        "PodDisruptionBudget",
        object::disruption_budget(context.name()),
        context.kind.can_sign() && observed.disruption_budget.is_none(),
    );
    add_missing("ConfigMap", object::proxy_config(context.name()), observed.proxy_config.is_none());
    pending
}
