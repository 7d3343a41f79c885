//! The spec that was last fully applied to a node: what an edit is compared with, and what a failed update returns to.

use std::sync::Arc;

use api::SeiNode;
use api::drift;
use api::names::annotation;
use api::sei_node::{FailedPlan, PlanKind, PlannedTask, SeiNodeSpec, SeiNodeStatus, TaskPlan, TaskStatus};
use api::sidecar_wire::{TaskState, TaskType};

use super::context::NodeContext;
use super::observed::{Observed, Submission, TaskObservation};
use super::task::Step;

/// Returns whether the spec of a node was edited since it was last fully applied, in something other than `paused`.
pub(super) fn is_edited(node: &SeiNode, status: &SeiNodeStatus) -> bool {
    match status.applied_spec.as_deref() {
        Some(applied) => !is_same(applied, &node.spec),
        // Previous versions stored only the generation.
        None => {
            status.reconciled_generation.is_some() && status.reconciled_generation != node.metadata.generation
        }
    }
}

/// Records that the spec of a node is fully applied.
pub(super) fn record(node: &SeiNode, status: &mut SeiNodeStatus) {
    status.reconciled_generation = node.metadata.generation;
    if !status.applied_spec.as_deref().is_some_and(|applied| is_same(applied, &node.spec)) {
        status.applied_spec = Some(Box::new(SeiNodeSpec { paused: false, ..node.spec.clone() }));
    }
}

/// Returns whether two specs are the same, except for `paused`.
fn is_same(applied: &SeiNodeSpec, spec: &SeiNodeSpec) -> bool {
    if applied.paused == spec.paused {
        return applied == spec;
    }
    *applied == SeiNodeSpec { paused: applied.paused, ..spec.clone() }
}

/// Returns whether the failure of a task leaves a node without seid, although its previous configuration would run: the pod was
/// replaced, and seid was not released yet. seid has not touched the data since, so the previous image can use it.
pub(super) fn is_rollback_required(
    context: NodeContext<'_>,
    status: &SeiNodeStatus,
    plan: &TaskPlan,
    failed: usize,
) -> bool {
    let replaced = plan.tasks.iter().position(|task| task.task_type == Step::ReplacePod.name());
    is_undoable(context, status, plan)
        && replaced.is_some_and(|replaced| replaced < failed)
        && !may_be_released(plan, context.observed)
}

/// Returns whether a plan is an update to another spec than the one that was last fully applied.
fn is_undoable(context: NodeContext<'_>, status: &SeiNodeStatus, plan: &TaskPlan) -> bool {
    plan.kind == Some(PlanKind::NodeUpdate)
        && status.applied_spec.as_deref().is_some_and(|applied| !is_same(applied, &context.node.spec))
}

/// Returns whether a task of the active plan lets seid run with another spec than the one that was last fully applied.
pub(super) fn is_release_of_update(
    context: NodeContext<'_>,
    status: &SeiNodeStatus,
    task: &PlannedTask,
) -> bool {
    task.task_type == TaskType::MarkReady.as_str()
        && status.plan.as_ref().is_some_and(|plan| is_undoable(context, status, plan))
}

/// Drops the applied spec if a plan that has ended, or is replaced, may have let seid run with another one. seid may have migrated the
/// data, which the image of the applied spec cannot use then.
pub(super) fn forget_if_released(plan: &TaskPlan, status: &mut SeiNodeStatus, observed: &Observed) {
    // Neither of these changes what seid runs with.
    let is_other_spec = !matches!(plan.kind, Some(PlanKind::Rollback | PlanKind::MarkReady));
    if is_other_spec && may_be_released(plan, observed) {
        status.applied_spec = None;
    }
}

/// Returns whether seid may have run with what a plan applies.
fn may_be_released(plan: &TaskPlan, observed: &Observed) -> bool {
    let mark_ready = plan.tasks.iter().find(|task| task.task_type == TaskType::MarkReady.as_str());
    mark_ready.is_some_and(|task| task.status == TaskStatus::Complete || may_have_run(task, observed))
}

/// Returns whether a task that has not completed may have taken effect: the sidecar got it, and did not report that it failed.
fn may_have_run(task: &PlannedTask, observed: &Observed) -> bool {
    let is_rejected = matches!(observed.sidecar.submission_of(&task.id), Some(Submission::Rejected(_)));
    match observed.sidecar.task_state(&task.id) {
        TaskObservation::Found(result) => result.status != TaskState::Failed,
        _ => task.submitted_at.is_some() && !is_rejected,
    }
}

/// Returns a node with the spec that it was put back to, if its last update failed for good.
pub(super) fn rolled_back(
    node: &SeiNode,
    status: &SeiNodeStatus,
    observed: &Observed,
) -> Option<(SeiNode, Observed)> {
    status.last_failed_plan.as_ref().filter(|failed| failed.rolled_back && is_spec_of(failed, node))?;
    with_applied_spec(node, status, observed)
}

/// Returns a node with the spec that it runs with, if that is known and the current one is not applied yet.
pub(super) fn previous(
    node: &SeiNode,
    status: &SeiNodeStatus,
    observed: &Observed,
) -> Option<(SeiNode, Observed)> {
    is_edited(node, status).then(|| with_applied_spec(node, status, observed)).flatten()
}

/// Returns a node with the spec that was last fully applied. Its objects are rendered from that spec, so the cache of the current one
/// is not used.
fn with_applied_spec(
    node: &SeiNode,
    status: &SeiNodeStatus,
    observed: &Observed,
) -> Option<(SeiNode, Observed)> {
    let spec = SeiNodeSpec { paused: node.spec.paused, ..status.applied_spec.as_deref()?.clone() };
    let observed = Observed { render_cache: Arc::default(), ..observed.clone() };
    Some((SeiNode { spec, ..node.clone() }, observed))
}

/// Returns whether a failed plan has applied the current spec of a node.
pub(super) fn is_spec_of(failed: &FailedPlan, node: &SeiNode) -> bool {
    match &failed.spec_hash {
        Some(hash) => spec_hash(&node.spec).as_ref() == Some(hash),
        // Previous versions stored only the generation.
        None => failed.generation == node.metadata.generation,
    }
}

/// Returns the hash of a spec, without `paused`.
pub(super) fn spec_hash(spec: &SeiNodeSpec) -> Option<String> {
    drift::hash(&SeiNodeSpec { paused: false, ..spec.clone() }).ok()
}

/// Accepts a request for another attempt of a failed plan, and returns whether there is one: a node that was put back to its
/// previous spec tries the current one again. A paused node keeps the request until it resumes.
pub(super) fn accept_retry_request(node: &SeiNode, status: &mut SeiNodeStatus) -> bool {
    let request = node.metadata.annotations.as_ref().and_then(|all| all.get(annotation::RETRY));
    if node.spec.paused || request == status.retry_requested.as_ref() {
        return false;
    }
    status.retry_requested = request.cloned();
    if let Some(failed) = status.last_failed_plan.as_mut().filter(|_| request.is_some()) {
        failed.rolled_back = false;
    }
    request.is_some()
}
