//! Updates that do not progress, although nothing that the pod runs with has changed yet: an input is missing, a write is refused, or
//! the last attempt has failed. Meanwhile the node is kept running with what it has. The update continues afterwards.

use std::time::Duration;

use api::drift;
use api::sei_node::{PlanKind, SeiNodeStatus};
use api::sidecar_wire::TaskType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::NodeContext;
use super::observed::Health;
use super::task::Step;
use super::{deadline, stored_plan};

/// Returns whether seid may run in the pod as it is: no unfinished update has replaced what the pod is created from, unless it has
/// written the configuration as well.
pub(super) fn may_seid_run(context: NodeContext<'_>, status: &SeiNodeStatus) -> bool {
    match stored_plan::unfinished_update(status) {
        None => true,
        Some(plan) => {
            stored_plan::is_interruption(plan)
                || stored_plan::has_prepared_seid(plan)
                || stored_plan::keeps_template(plan) && !is_template_applied(context)
        }
    }
}

/// Returns whether the active plan is an update that has to wait while the sidecar holds seid back. An update may wait for hours, and
/// seid must not. An update that has just started is not interrupted: mark-ready may have been tried right before.
pub(super) fn is_required(
    context: NodeContext<'_>,
    status: &SeiNodeStatus,
    now: &Time,
    interval: Duration,
) -> bool {
    let update = stored_plan::active(status).filter(|plan| plan.kind == Some(PlanKind::NodeUpdate));
    let is_own = |(step, _): (Step, _)| step == Step::Sidecar(TaskType::MarkReady);
    let created = update
        .filter(|plan| !stored_plan::current(plan).is_some_and(is_own))
        .and_then(|plan| plan.created_at.as_ref());
    created.is_some_and(|created| deadline::elapsed(created, now) >= interval)
        && context.observed.sidecar.health == Health::NotReady
        && may_seid_run(context, status)
}

/// Returns whether the StatefulSet has the desired template. An operator that was killed may have applied it without recording that,
/// and a pod that was created from it must not run seid before its configuration is written.
fn is_template_applied(context: NodeContext<'_>) -> bool {
    let set = context.observed.stateful_set.as_deref();
    let hash = context.desired_template_hash();
    set.zip(hash.ok()).is_some_and(|(set, hash)| drift::is_applied_from(set, &hash))
}
