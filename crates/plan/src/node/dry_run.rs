//! Updates that start with a dry-run of their configuration on the running sidecar: when, and what follows from a rejection.

use api::names::container;
use api::sei_node::{ConfigChange, PlanChanges, SeiNodeStatus};

use super::conditions::retry_command;
use super::context::NodeContext;
use super::task::Step;
use super::{applied_spec, drift, stored_plan};

/// Returns whether the answer of the running sidecar to a dry-run counts. Another image may know other settings. Without a
/// StatefulSet, or after an update that did not finish, seid may not run: only an update brings it back.
pub(super) fn is_possible(context: NodeContext<'_>, status: &SeiNodeStatus) -> bool {
    let image = context.pod().and_then(|pod| pod.image_of(container::SIDECAR));
    let image = image.or(status.current_sidecar_image.as_deref());
    context.observed.stateful_set.is_some()
        && image == Some(drift::sidecar_image(context.node, context.platform))
        && stored_plan::unfinished_update(status).is_none()
}

/// Returns why an update is not tried again: the sidecar has rejected its configuration, and would give the same answer. An update
/// without configuration, or with another image of the sidecar, is not affected.
pub(super) fn problem(
    context: NodeContext<'_>,
    status: &SeiNodeStatus,
    changes: PlanChanges,
) -> Option<String> {
    let failed = status.last_failed_plan.as_ref()?;
    let is_rejected = failed.task.task_type == Step::DryRunConfig.name()
        && applied_spec::is_spec_of(failed, context.node)
        && changes.config != ConfigChange::Unchanged
        && is_possible(context, status);
    is_rejected.then(|| {
        format!(
            "the running sidecar rejects the new configuration: {}; nothing was changed and the node runs its previous \
             configuration: edit the spec, or try again with `{}`",
            failed.task.error,
            retry_command(context.name())
        )
    })
}

/// Removes an update that the sidecar rejected and that is not required any more: nothing was changed, so there is nothing to undo.
/// Returns whether there was one.
pub(super) fn withdraw(status: &mut SeiNodeStatus) -> bool {
    let rejected =
        status.last_failed_plan.take_if(|failed| failed.task.task_type == Step::DryRunConfig.name());
    // A later plan for another purpose may have replaced it.
    status.plan.take_if(|plan| rejected.as_ref().is_some_and(|rejected| rejected.id == plan.id));
    rejected.is_some()
}
