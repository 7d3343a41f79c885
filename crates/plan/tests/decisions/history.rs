//! What happened to a node, as far as its stored state does not show it. The fake cluster records it, and the properties of the model
//! are judged by it instead of by what the operator reports.

use std::collections::BTreeSet;

use api::condition::{self, NodeUpdateInProgress, Ready, Reason};
use api::names::container;
use api::sei_node::{PlanKind, PlanPhase, SeiNodeSpec, SeiNodeStatus, TaskPlan, TaskStatus};
use api::sidecar_wire::TaskState;
use plan::Platform;
use plan::node::{Action, Deletion};
use serde_json::json;

use super::cluster::Cluster;

/// Something that must never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
    /// The operator acted on a paused node.
    ActedWhilePaused,
    /// The operator deleted a pod whose claim is being deleted: the data is lost with it.
    PodDeletedWithItsClaim,
    /// A plan failed while its node was paused.
    FailedWhilePaused,
    /// A plan failed at a deadline, although its node was paused for a part of the time.
    PausedTimeCounted,
    /// A plan failed at a deadline, although the answer of the sidecar is pending.
    PendingAnswerNotAwaited,
    /// A condition disappeared.
    ConditionLost,
    /// seid ran with the configuration of an update that is undone.
    FailedUpdateRan,
    /// A validator was updated for the platform before another node of its chain, or before others could notice the change.
    ValidatorNotLast,
}

/// The image of seid, and whether the sidecar serves TLS.
pub type Configuration = (String, bool);

/// What happened to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The number of changes: edits of anything but `paused`, changes of the platform, and lost data volumes.
    pub changes: u32,
    /// The changes whose update was undone.
    pub rolled_back: BTreeSet<u32>,
    /// The spec whose update was undone last, without `paused`.
    failed_spec: Option<String>,
    /// A task failed, or the time of one passed: an update may be undone.
    pub is_disturbed: bool,
    /// The last configuration that seid ran with.
    pub last_run: Option<Configuration>,
    /// The last configuration that seid ran with before the update that is undone.
    pub previous: Option<Configuration>,
    /// No edit asks for the last update.
    pub is_platform_update: bool,
    /// The sidecar image of the platform at the last reconcile.
    pub known_sidecar_image: Option<String>,
    /// The node was queued for an update.
    pub was_queued: bool,
    /// The node was updated after it was queued.
    pub was_granted: bool,
    /// A plan has waited while the node was paused.
    pub has_paused_wait: bool,
    /// The operator was killed after it submitted mark-ready.
    pub has_unknown_release: bool,
    /// The data volume was lost.
    pub has_lost_volume: bool,
    /// What must never happen, and did.
    pub violations: BTreeSet<Violation>,
    /// The operator knows that the node is paused.
    is_paused: bool,
    /// The task that the plan waits for, and for how many minutes. Those while the node is paused do not count.
    wait: Option<(String, i64)>,
}

/// The shortest deadline of a task, in minutes.
const SHORTEST_DEADLINE: i64 = 10;

impl Cluster {
    /// Lets time pass.
    pub fn pass_minutes(&mut self, minutes: i64) {
        self.minutes += minutes;
        let History { is_paused, wait, has_paused_wait, .. } = &mut self.history;
        match wait {
            Some(_) if *is_paused => *has_paused_wait = true,
            Some((_, waited)) => *waited += minutes,
            None => {}
        }
    }

    /// Returns the configuration of the pod.
    pub fn pod_configuration(&self) -> Option<Configuration> {
        Some((self.pod_image(container::SEID)?, self.sidecar.pod_has_tls))
    }

    /// Returns the image of a container of the pod.
    pub fn pod_image(&self, container: &str) -> Option<String> {
        let pod = self.observed.pods.first()?.spec.as_ref()?;
        let mut containers = pod.containers.iter().chain(&pod.init_containers);
        containers.find(|one| one.name == container)?.image.clone()
    }

    /// Returns whether the last update of the node failed and is undone, or was.
    pub fn is_rolled_back(&self) -> bool {
        let failed = self.node.status.as_ref().and_then(|status| status.last_failed_plan.as_ref());
        failed.is_some_and(|failed| failed.rolled_back)
            && self.history.failed_spec.as_ref() == Some(&without_paused(&self.node.spec))
    }

    /// Returns whether the node is being updated for a change of the platform only.
    pub fn is_platform_update_unfinished(&self) -> bool {
        let plan = self.node.status.as_ref().and_then(|status| status.plan.as_ref());
        self.history.is_platform_update && plan.is_some_and(is_unfinished_update)
    }

    /// Returns whether changes of the platform must be applied to the other nodes of its chain first: a validator that works.
    pub fn must_be_updated_last(&self) -> bool {
        self.node.spec.validator.is_some() && self.has_condition::<Ready>()
    }

    /// Returns whether the operator knows of a change of the platform that must be applied to this node before that validator.
    pub fn is_updated_before(&self, validator: &Self, platform: &Platform) -> bool {
        let Platform { sidecar_image, .. } = platform;
        let is_outdated = self.pod_image(container::SIDECAR).is_some_and(|image| image != *sidecar_image);
        let is_known = self.history.known_sidecar_image.as_ref() == Some(sidecar_image);
        let Self { node, .. } = self;
        node.spec.validator.is_none()
            && node.spec.chain_id == validator.node.spec.chain_id
            && !node.spec.paused
            && is_known
            && is_outdated
    }

    /// Returns whether the node waits for its turn.
    pub fn is_queued(&self) -> bool {
        let status = self.node.status.as_ref();
        status.is_some_and(|status| {
            condition::has_reason(&status.conditions, NodeUpdateInProgress::UpdateQueued)
        })
    }

    fn has_condition<R: Reason>(&self) -> bool {
        self.node.status.as_ref().is_some_and(|status| condition::is_true::<R>(&status.conditions))
    }

    /// Returns whether the operator replaced the pod at most once for each change, and once more for its rollback.
    pub fn has_few_replacements(&self) -> bool {
        let limit = |change: &u32| 1 + u32::from(self.history.rolled_back.contains(change));
        self.pod_deletions.iter().all(|(change, deletions)| *deletions <= limit(change))
    }

    /// Returns whether the node has an active plan.
    pub fn has_active_plan(&self) -> bool {
        let plan = self.node.status.as_ref().and_then(|status| status.plan.as_ref());
        plan.is_some_and(|plan| plan.phase == PlanPhase::Active)
    }

    /// Adds an action of the operator, before it is executed.
    pub fn add_action_to_history(&mut self, action: &Action) {
        let is_ownership = matches!(action, Action::SetClaimOwnership(_) | Action::SetSecretOwnership(_));
        if self.node.spec.paused && self.node.metadata.deletion_timestamp.is_none() && !is_ownership {
            self.history.violations.insert(Violation::ActedWhilePaused);
        }
        if matches!(action, Action::Delete(Deletion::Pod(_))) && self.is_claim_terminating() {
            self.history.violations.insert(Violation::PodDeletedWithItsClaim);
        }
    }

    /// Adds that the sidecar lets seid run.
    pub fn add_release_to_history(&mut self) {
        self.history.last_run = self.pod_configuration();
        if self.is_rolled_back() && self.history.last_run != self.history.previous {
            self.history.violations.insert(Violation::FailedUpdateRan);
        }
    }

    /// Adds a new status of the node, before it is stored.
    pub fn add_to_history(&mut self, status: &SeiNodeStatus) {
        let before = self.node.status.clone().unwrap_or_default();
        let has = |type_: &String| status.conditions.iter().any(|condition| condition.type_ == *type_);
        if !before.conditions.iter().all(|condition| has(&condition.type_)) {
            self.history.violations.insert(Violation::ConditionLost);
        }
        if let Some(plan) = &status.plan {
            self.add_plan(before.plan.as_ref(), plan);
        }
        self.add_rollback(&before, status);
        self.add_wait(status);
        self.history.is_paused = self.node.spec.paused;
        self.history.was_queued |=
            condition::has_reason(&status.conditions, NodeUpdateInProgress::UpdateQueued);
    }

    fn add_plan(&mut self, before: Option<&TaskPlan>, plan: &TaskPlan) {
        let is_new = before.is_none_or(|before| before.id != plan.id);
        // A plan that replaces an unfinished update continues it.
        if is_new && is_unfinished_update(plan) && !before.is_some_and(is_unfinished_update) {
            self.history.is_platform_update =
                self.pod_configuration().as_ref() == Some(&desired(&self.node.spec));
            self.history.was_granted |= self.history.was_queued && self.history.is_platform_update;
        }
        let has_failed = plan.phase == PlanPhase::Failed
            && before.is_some_and(|before| before.id == plan.id && before.phase == PlanPhase::Active);
        if !has_failed {
            return;
        }
        if self.node.spec.paused {
            self.history.violations.insert(Violation::FailedWhilePaused);
        }
        let Some(task) = plan.failed_task_detail.as_ref() else { return };
        let Some(awaited) = task.error.strip_prefix("deadline exceeded while waiting for ") else { return };
        let waited =
            self.history.wait.as_ref().filter(|(id, _)| *id == task.id).map_or(0, |(_, waited)| *waited);
        if waited < SHORTEST_DEADLINE {
            self.history.violations.insert(Violation::PausedTimeCounted);
        }
        if self.is_answer_pending && awaited.starts_with("Sidecar") {
            self.history.violations.insert(Violation::PendingAnswerNotAwaited);
        }
    }

    fn add_rollback(&mut self, before: &SeiNodeStatus, status: &SeiNodeStatus) {
        let Some(failed) = status.last_failed_plan.as_ref().filter(|failed| failed.rolled_back) else {
            return;
        };
        self.history.rolled_back.insert(self.history.changes);
        if before.last_failed_plan.as_ref().is_some_and(|before| before.rolled_back && before.id == failed.id)
        {
            return;
        }
        self.history.previous = self.history.last_run.clone();
        self.history.failed_spec = Some(without_paused(&self.node.spec));
        // The operator may not know that it has submitted mark-ready: an earlier task may be the failed one.
        let tasks = status.plan.iter().flat_map(|plan| &plan.tasks);
        let mut results = tasks.filter_map(|task| self.sidecar.tasks.get(&task.id));
        if results.any(|(type_, state, _)| type_ == "mark-ready" && *state == TaskState::Completed) {
            self.history.violations.insert(Violation::FailedUpdateRan);
        }
    }

    fn add_wait(&mut self, status: &SeiNodeStatus) {
        let plan = status.plan.as_ref().filter(|_| status.waiting_for.is_some());
        let task = plan.and_then(|plan| plan.tasks.iter().find(|task| task.status != TaskStatus::Complete));
        let known = self.history.wait.take();
        self.history.wait = task.map(|task| match known {
            Some((id, waited)) if id == task.id => (id, waited),
            _ => (task.id.clone(), 0),
        });
    }
}

fn without_paused(spec: &SeiNodeSpec) -> String {
    json!(SeiNodeSpec { paused: false, ..spec.clone() }).to_string()
}

fn is_unfinished_update(plan: &TaskPlan) -> bool {
    // A plan that lets seid run before an update continues has the changes of that update.
    let is_interruption =
        plan.kind == Some(PlanKind::MarkReady) && plan.changes.is_some_and(|changes| !changes.is_empty());
    is_interruption || plan.kind == Some(PlanKind::NodeUpdate) && plan.phase != PlanPhase::Complete
}

/// Returns the configuration that a spec asks for.
pub fn desired(spec: &SeiNodeSpec) -> Configuration {
    (spec.image.clone(), spec.sidecar.as_ref().is_some_and(|sidecar| sidecar.tls.is_some()))
}
