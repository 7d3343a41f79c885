//! Reads stored plans, including those that were stored by a previous version.

use api::sei_node::{
    ConfigChange, PeerSource, PlanChanges, PlanKind, PlanPhase, PlannedTask, SeiNodeStatus, TaskPlan,
    TaskStatus,
};
use api::sidecar_wire::TaskType;
use serde_json::Value;

use super::task::Step;

/// Returns the changes that a plan makes.
pub(super) fn changes(plan: &TaskPlan) -> PlanChanges {
    plan.changes.unwrap_or_else(|| legacy_changes(plan))
}

/// Returns the sources whose peers a plan gives to seid.
pub(super) fn peers(plan: &TaskPlan) -> Option<Vec<PeerSource>> {
    plan.peers.clone().or_else(|| legacy_peers(plan))
}

/// Infers the changes of a plan without `changes` from its tasks: previous versions added a task for each change.
fn legacy_changes(plan: &TaskPlan) -> PlanChanges {
    let has = |step: Step| plan.tasks.iter().any(|task| task.task_type == step.name());
    let is_full = plan.tasks.iter().any(|task| {
        let incremental = task.params.as_ref().map(|params| params["incremental"] == true);
        task.task_type == TaskType::ConfigApply.as_str() && incremental != Some(true)
    });
    PlanChanges {
        pod: has(Step::ObserveImage),
        tls: has(Step::ObserveTls),
        keys: has(Step::ValidateSigningKey)
            || has(Step::ValidateNodeKey)
            || has(Step::ValidateOperatorKeyring),
        config: match (has(Step::Sidecar(TaskType::ConfigApply)), is_full) {
            (false, _) => ConfigChange::Unchanged,
            (true, false) => ConfigChange::Incremental,
            (true, true) => ConfigChange::Full,
        },
        snapshot_upload: has(Step::Sidecar(TaskType::SnapshotUpload)),
    }
}

/// Reads the peers of a plan without `peers` from the parameters of apply-statefulset, where previous versions stored
/// them.
fn legacy_peers(plan: &TaskPlan) -> Option<Vec<PeerSource>> {
    let apply = plan.tasks.iter().find(|task| task.task_type == Step::ApplyStatefulSet.name())?;
    serde_json::from_value(apply.params.as_ref()?.get("peers")?.clone()).ok()
}

/// Returns whether two plans have the same tasks. `replace-pod` and `dry-run-config` are ignored: they follow from the observed
/// state, not from the spec, and a setup must not restart because its StatefulSet exists by now.
pub(super) fn has_same_tasks(one: &TaskPlan, other: &TaskPlan) -> bool {
    let ignored = [Step::ReplacePod.name(), Step::DryRunConfig.name()];
    let params = |task: &PlannedTask| {
        // As well: whether the claim must exist.
        task.params.clone().filter(|_| task.task_type != Step::EnsureDataClaim.name())
    };
    let tasks = |plan: &TaskPlan| -> Vec<(String, Option<Value>)> {
        let tasks = plan.tasks.iter().filter(|task| !ignored.contains(&task.task_type.as_str()));
        tasks.map(|task| (task.task_type.clone(), params(task))).collect()
    };
    one.kind == other.kind && tasks(one) == tasks(other)
}

/// Returns the active plan of a status.
pub(super) fn active(status: &SeiNodeStatus) -> Option<&TaskPlan> {
    status.plan.as_ref().filter(|plan| plan.phase == PlanPhase::Active)
}

/// Returns the last update or rollback of a status, or the interruption of an update, unless it has succeeded or not changed
/// anything yet.
pub(super) fn unfinished_update(status: &SeiNodeStatus) -> Option<&TaskPlan> {
    status.plan.as_ref().filter(|plan| {
        is_interruption(plan)
            || matches!(plan.kind, Some(PlanKind::NodeUpdate | PlanKind::Rollback))
                && plan.phase != PlanPhase::Complete
                && !is_in_dry_run(plan)
    })
}

/// Returns whether a plan lets seid run before an update continues. It stores the changes of that update, whose objects may be
/// applied in part.
pub(super) fn is_interruption(plan: &TaskPlan) -> bool {
    plan.kind == Some(PlanKind::MarkReady) && plan.changes.is_some_and(|changes| !changes.is_empty())
}

/// The parameter of `replace-pod` that says whether seid may run in the pod that an update starts with.
pub(super) const SEID_MAY_RUN: &str = "seidMayRun";

/// Returns whether an update started with a pod that seid may run in, and has not completed the step that changes its template. The
/// plans of previous versions do not say what they started with.
pub(super) fn keeps_template(plan: &TaskPlan) -> bool {
    let is_step = |task: &PlannedTask, step: Step| task.task_type == step.name();
    let may_run = plan
        .tasks
        .iter()
        .find(|task| is_step(task, Step::ReplacePod))
        .is_some_and(|task| task.params.as_ref().is_some_and(|params| params[SEID_MAY_RUN] == true));
    let apply = plan.tasks.iter().position(|task| is_step(task, Step::ApplyStatefulSet));
    let next = plan.tasks.iter().position(|task| task.status != TaskStatus::Complete);
    plan.kind == Some(PlanKind::NodeUpdate) && may_run && next.is_some() && next <= apply
}

/// Returns whether an update or rollback has done everything that seid needs before it runs.
pub(super) fn has_prepared_seid(plan: &TaskPlan) -> bool {
    let release = plan.tasks.iter().position(|task| task.task_type == TaskType::MarkReady.as_str());
    let next = plan.tasks.iter().position(|task| task.status != TaskStatus::Complete);
    release.is_some() && next.is_none_or(|next| Some(next) >= release)
}

/// Returns whether an update waits for something that it needs before it changes any object but the Certificate.
pub(super) fn awaits_inputs(plan: &TaskPlan) -> bool {
    let first = plan.tasks.iter().position(|task| task.task_type == Step::ApplyNetworkPolicy.name());
    let next = plan.tasks.iter().position(|task| task.status != TaskStatus::Complete);
    plan.kind == Some(PlanKind::NodeUpdate) && next.is_some() && next < first
}

/// Removes a mark-ready plan that failed. Its task may have finished after the deadline: the sidecar is ready now.
pub(super) fn remove_failed_mark_ready(status: &mut SeiNodeStatus) {
    let is_mark_ready = |kind: Option<PlanKind>| kind == Some(PlanKind::MarkReady);
    status.plan.take_if(|plan| {
        is_mark_ready(plan.kind) && plan.phase == PlanPhase::Failed && !is_interruption(plan)
    });
    status.last_failed_plan.take_if(|failed| is_mark_ready(failed.kind));
}

/// Returns whether a plan has not got beyond the dry-run of the configuration, which is its first task.
pub(super) fn is_in_dry_run(plan: &TaskPlan) -> bool {
    plan.tasks.first().is_some_and(|first| {
        first.task_type == Step::DryRunConfig.name() && first.status != TaskStatus::Complete
    })
}

/// Returns why a plan has skipped the dry-run of its configuration, if it did.
pub(super) fn skipped_dry_run(plan: &TaskPlan) -> Option<&str> {
    let first = plan.tasks.first().filter(|first| first.task_type == Step::DryRunConfig.name())?;
    first.error.as_deref().filter(|_| first.status == TaskStatus::Complete)
}

/// Returns the hash of the objects that a plan applies, if it was stored.
pub(super) fn template(plan: &TaskPlan) -> Option<&str> {
    let apply = plan.tasks.iter().find(|task| task.task_type == Step::ApplyStatefulSet.name())?;
    apply.params.as_ref()?.get("template")?.as_str()
}

/// Returns the task that has the sidecar write the configuration.
pub(super) fn config_apply(plan: &TaskPlan) -> Option<&PlannedTask> {
    plan.tasks.iter().find(|task| task.task_type == TaskType::ConfigApply.as_str())
}

/// Returns the current task of a plan, with its step.
pub(super) fn current(plan: &TaskPlan) -> Option<(Step, &PlannedTask)> {
    let task = plan.tasks.iter().find(|task| task.status != TaskStatus::Complete)?;
    Some((Step::from_name(&task.task_type)?, task))
}

/// Returns the task at which a plan failed, with its step.
pub(super) fn failed(plan: &TaskPlan) -> Option<(Step, &PlannedTask)> {
    let task = plan.tasks.get(usize::try_from(plan.failed_task_index?).ok()?)?;
    Some((Step::from_name(&task.task_type)?, task))
}

/// Returns whether a plan sets up a node. Plans of the upstream controller have no kind.
pub(super) fn is_setup(plan: &TaskPlan) -> bool {
    matches!(plan.kind, Some(PlanKind::Init | PlanKind::Bootstrap | PlanKind::Genesis) | None)
        && plan.failed_phase.is_some()
}

/// The parameter of `ensure-data-pvc` that says that the claim must exist: a node that signs may have signed with its data.
pub(super) const MUST_EXIST: &str = "mustExist";

/// Returns whether the task that ensures the claim must not create it.
pub(super) fn must_claim_exist(task: &PlannedTask) -> bool {
    task.params.as_ref().is_some_and(|params| params[MUST_EXIST] == true)
}

/// Returns whether seid may have run on the data volume during this set-up, or a previous attempt. The seid of a bootstrap pod has no
/// signing key.
pub(super) fn has_used_data(plan: &TaskPlan) -> bool {
    let find = |name: &str| plan.tasks.iter().rfind(|task| task.task_type == name);
    let release = find(TaskType::MarkReady.as_str());
    let is_released = |task: &PlannedTask| task.submitted_at.is_some() || task.status == TaskStatus::Complete;
    is_setup(plan)
        && (release.is_some_and(is_released)
            || find(Step::EnsureDataClaim.name()).is_some_and(must_claim_exist))
}

/// Returns the tasks of a plan that come before the teardown of the bootstrap pod.
pub(super) fn bootstrap_tasks(plan: &TaskPlan) -> &[PlannedTask] {
    let teardown = plan.tasks.iter().position(|task| task.task_type == Step::TeardownBootstrap.name());
    &plan.tasks[..teardown.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(extra: Value) -> TaskPlan {
        let task = |name: &str, params: Value| json!({ "type": name, "id": name, "status": "Pending", "params": params });
        let mut plan = json!({
            "id": "p",
            "kind": "NodeUpdate",
            "phase": "Active",
            "tasks": [
                task("validate-node-key", json!({})),
                task("apply-statefulset", json!({ "peers": [{ "static": { "addresses": ["id@legacy:1"] } }] })),
                task("observe-image", json!({})),
                task("config-apply", json!({ "incremental": true })),
            ],
        });
        if let (Some(plan), Value::Object(extra)) = (plan.as_object_mut(), extra) {
            plan.extend(extra);
        }
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn stored_changes_and_peers_are_used() {
        let stored = plan(json!({
            "changes": { "tls": true, "config": "Full" },
            "peers": [{ "static": { "addresses": ["id@stored:1"] } }],
        }));
        let wanted = PlanChanges { tls: true, config: ConfigChange::Full, ..PlanChanges::default() };
        assert_eq!(changes(&stored), wanted);
        assert_eq!(json!(peers(&stored)), json!([{ "static": { "addresses": ["id@stored:1"] } }]));
        assert_eq!(
            changes(&plan(json!({ "changes": {} }))),
            PlanChanges::default(),
            "stored, although tasks differ"
        );
        assert_eq!(peers(&plan(json!({ "peers": [] }))), Some(Vec::new()), "stored, although params differ");
    }

    #[test]
    fn legacy_changes_and_peers_follow_from_tasks() {
        let legacy = plan(json!({}));
        let wanted = PlanChanges {
            pod: true,
            keys: true,
            config: ConfigChange::Incremental,
            ..PlanChanges::default()
        };
        assert_eq!(changes(&legacy), wanted);
        assert_eq!(json!(peers(&legacy)), json!([{ "static": { "addresses": ["id@legacy:1"] } }]));
        let mut full = legacy;
        full.tasks[3].params = Some(json!({ "incremental": false }));
        assert_eq!(changes(&full).config, ConfigChange::Full);
        full.tasks[3].params = None;
        assert_eq!(changes(&full).config, ConfigChange::Full);
        full.tasks.clear();
        assert_eq!((changes(&full), peers(&full)), (PlanChanges::default(), None));
    }
}
