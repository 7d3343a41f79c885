//! The decision about a node: a pure function of the desired state, the stored status, the observed state and the time.

use std::time::Duration;

use api::SeiNode;
use api::condition::{self, ChainSynced, Reason, SidecarReady, Status};
use api::names::{finalizer, object};
use api::sei_node::{
    ConfigChange, PlanChanges, PlanKind, PlanPhase, PlannedTask, SeiNodePhase, SeiNodeStatus, TaskPlan,
};
use api::sidecar_wire::TaskState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::action::{Action, Object};
use super::advance::{advance, set_phase};
use super::check::{claim, reference, spec};
use super::conditions::{self, Findings};
use super::context::NodeContext;
use super::drift::{self, Drift};
use super::kind::NodeKind;
use super::observed::{ChainObservation, Health, Observed, TaskObservation, UpdateSlot};
use super::pace::Queued;
use super::step::{self, StepOutcome, job_result};
use super::task::{self, Step};
use super::{
    adoption, applied_spec, deadline, dry_run, interruption, issued_secret, repair, retention, status_change,
    stored_plan, volume,
};
use crate::platform::Platform;
use crate::render;

/// How often a node in steady state is reconciled, in case an event was missed.
const RESYNC: Duration = Duration::from_secs(30);

/// How soon a node is reconciled again after its sidecar stopped answering. The interval grows to [`RESYNC`].
const SIDECAR_POLL: Duration = Duration::from_secs(1);

/// How often the first node of the queue for updates asks for its turn, and the last one at least.
const QUEUE_POLL: Duration = Duration::from_secs(3);
const LONGEST_QUEUE_POLL: Duration = Duration::from_secs(60);

/// How soon a failed setup checks the input that it failed on again. Secrets cannot be watched.
const INPUT_POLL: Duration = Duration::from_secs(10);

/// The minimum time between two mark-ready plans: one that did not help is not repeated at once.
const MARK_READY_INTERVAL: Duration = Duration::from_secs(30);

/// The minimum time between two updates for the same spec.
const UPDATE_INTERVAL: Duration = Duration::from_secs(60);

/// What to do about a node, and which status to store.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The status to store.
    pub status: SeiNodeStatus,
    /// The actions to execute now. The reconcile is complete when there are none.
    pub actions: Vec<Action>,
    /// One sentence for each action that restores a deleted or modified object.
    pub repairs: Vec<String>,
    /// Remove the finalizer of the upstream controller.
    pub remove_finalizer: bool,
    /// When to requeue the node, if nothing happens before.
    pub requeue_after: Option<Duration>,
}

/// Decides about a node. `node` is the stored object; `status` is the newest status, which may be ahead of the stored
/// one in this reconcile. `new_plan_id` becomes the id of a plan, if one is composed.
#[must_use]
pub fn decide(
    node: &SeiNode,
    status: SeiNodeStatus,
    platform: &Platform,
    observed: &Observed,
    now: &Time,
    new_plan_id: &str,
) -> Decision {
    let mut decision = Decision { status, requeue_after: Some(RESYNC), ..Decision::default() };
    let status = &mut decision.status;
    status.observed_generation = node.metadata.generation;
    if node.metadata.deletion_timestamp.is_some() {
        set_phase(status, SeiNodePhase::Terminating, now);
        status.waiting_for = None;
        conditions::write(node, None, status, observed, &Findings::default(), now);
        let context = NodeContext::new(node, platform, observed);
        decision.actions.extend(context.and_then(|context| retention::action(context, status)));
        let finalizers = node.metadata.finalizers.iter().flatten();
        // Garbage collection deletes the claim of the upstream controller, unless it has lost its owner.
        let is_data_safe = decision.actions.is_empty() && observed.write_failures.is_empty();
        decision.remove_finalizer =
            is_data_safe && finalizers.into_iter().any(|name| name == finalizer::NODE);
        decision.requeue_after = None;
        return decision;
    }
    let is_retry_requested = applied_spec::accept_retry_request(node, status);
    if !node.spec.paused {
        deadline::resume(status, now);
    }
    let stored = node;
    let rolled_back = applied_spec::rolled_back(node, status, observed);
    let (node, observed) = rolled_back.as_ref().map_or((node, observed), |(node, observed)| (node, observed));
    let Some(context) = NodeContext::new(node, platform, observed) else {
        conditions::write(node, None, status, observed, &Findings::default(), now);
        return decision;
    };
    let mut peers: Vec<String> = observed.label_peers.values().flatten().cloned().collect();
    peers.sort();
    peers.dedup();
    status.resolved_peers = peers;
    let decider =
        Decider { context, now, new_plan_id, is_retry_requested, is_rolled_back: rolled_back.is_some() };
    let termination = claim::termination_in_use(context, status);
    let mut findings = Findings { claim_termination: termination, ..Findings::default() };
    if node.spec.paused {
        findings.pending = decider.pending_changes(status);
        findings.pending.extend(volume::pending(context));
    } else {
        decider.reconcile(&mut decision, &mut findings);
        decider.maintain(&mut decision, &mut findings);
    }
    let changes_at = conditions::write(node, Some(context), &mut decision.status, observed, &findings, now);
    let left = changes_at.and_then(|time| Duration::try_from(time.duration_since(now.0)).ok());
    decision.requeue_after = decision.requeue_after.map(|after| left.map_or(after, |left| left.min(after)));
    // Last, since messages of repairs belong to the first actions. Also while the node is paused: it can be deleted then, too.
    decision.actions.extend(retention::action(context, &decision.status));
    decision.actions.extend(issued_secret::action(context, stored));
    decision
}

#[derive(Clone, Copy)]
struct Decider<'a> {
    context: NodeContext<'a>,
    now: &'a Time,
    new_plan_id: &'a str,
    /// The user asks for another attempt of a failed plan.
    is_retry_requested: bool,
    /// The last update failed, and the spec of the context is the previous one.
    is_rolled_back: bool,
}

impl Decider<'_> {
    fn reconcile(self, decision: &mut Decision, findings: &mut Findings) {
        if self.has_just_ended(&decision.status) {
            // A new plan in the same reconcile would replace the ended one before its result is stored.
            let update = self.required_update(&decision.status);
            findings.spec_problems.extend(dry_run::problem(self.context, &decision.status, update.changes));
            findings.update = Some(update).filter(|update| !update.changes.is_empty());
            decision.requeue_after = Some(Duration::ZERO);
            return;
        }
        if stored_plan::active(&decision.status).is_some() {
            self.supersede(&mut decision.status, findings);
            self.interrupt(&mut decision.status);
        } else {
            match decision.status.phase {
                None | Some(SeiNodePhase::Pending | SeiNodePhase::Initializing) => {
                    self.set_up(&mut decision.status, findings);
                }
                Some(SeiNodePhase::Failed) => self.retry_setup(decision, findings),
                Some(SeiNodePhase::Running) => self.keep_in_sync(decision, findings),
                Some(SeiNodePhase::Terminating) => {}
            }
        }
        let Some(plan) = stored_plan::active(&decision.status) else { return };
        // A new plan is stored first, and executed in the next reconcile: a killed operator must find the plan of what
        // it did.
        if self.stored_plan().is_none_or(|stored| stored.id != plan.id) {
            decision.requeue_after = Some(Duration::ZERO);
            return;
        }
        let progress = advance(self.context, &mut decision.status, self.now);
        decision.actions = progress.actions;
        decision.requeue_after = progress.requeue_after.or(Some(RESYNC));
        if decision.actions.is_empty() {
            let repairs = self.repairs_during_update(&decision.status);
            (decision.actions, decision.repairs) = repairs.into_iter().unzip();
        }
        let is_complete = decision.status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Complete);
        if is_complete && self.drift(&decision.status).changes.is_empty() && volume::is_in_sync(self.context)
        {
            decision.status.adopted = false;
            self.record_applied(&mut decision.status);
        }
    }

    /// Records that the spec is fully applied.
    fn record_applied(self, status: &mut SeiNodeStatus) {
        if !self.is_rolled_back {
            applied_spec::record(self.context.node, status);
        }
    }

    /// Does what needs no plan and waits for none: it replaces no pod, and may be what a plan that hangs needs.
    fn maintain(self, decision: &mut Decision, findings: &mut Findings) {
        let volume = volume::assess(self.context);
        decision.actions.extend(volume.resize(self.context));
        if findings.spec_problems.is_empty() {
            findings.spec_problems.extend(volume.problem());
        }
        if decision.status.phase == Some(SeiNodePhase::Running)
            && !adoption::is_unchanged(self.context, &decision.status)
            && let Some((action, sentence)) = repair::disruption_budget(self.context)
        {
            // Sentences belong to the first actions.
            let position = if sentence.is_some() { 0 } else { decision.actions.len() };
            decision.actions.insert(position, action);
            decision.repairs.splice(0..0, sentence);
        }
    }

    fn stored_plan(&self) -> Option<&TaskPlan> {
        self.context.node.status.as_ref().and_then(|status| status.plan.as_ref())
    }

    /// Returns whether the plan has ended in this reconcile, and its result is not stored yet.
    fn has_just_ended(self, status: &SeiNodeStatus) -> bool {
        let stored = self.stored_plan().filter(|stored| stored.phase == PlanPhase::Active);
        let current = status.plan.as_ref().filter(|plan| plan.phase != PlanPhase::Active);
        stored.zip(current).is_some_and(|(stored, current)| stored.id == current.id)
    }

    /// Replaces an active plan after an edit of the spec, unless the new plan has the same tasks, or the sidecar is
    /// busy.
    fn supersede(self, status: &mut SeiNodeStatus, findings: &mut Findings) {
        let Some(plan) = status.plan.as_ref() else { return };
        if matches!(plan.kind, Some(PlanKind::NodeUpdate | PlanKind::Rollback)) {
            findings.update = Some(self.required_update(status));
        }
        let generation = self.context.node.metadata.generation;
        let is_edited = plan.generation != generation;
        if !is_edited && !self.is_template_outdated(plan) {
            return;
        }
        let next = match plan.kind {
            Some(PlanKind::NodeUpdate | PlanKind::Rollback) => {
                self.update_plan(&self.required_update(status), status)
            }
            Some(PlanKind::MarkReady) => {
                let update = self.required_update(status);
                if update.changes.is_empty() {
                    self.mark_ready_plan(status)
                } else {
                    let next = self.update_plan(&update, status);
                    findings.update = Some(update);
                    next
                }
            }
            _ if self.has_lost_signing_data(status) => {
                findings.is_data_volume_missing = true;
                return;
            }
            _ => self.setup_plan(status),
        };
        if self.has_spec_problems(stored_plan::changes(&next), stored_plan::is_setup(&next), findings) {
            return;
        }
        if stored_plan::has_same_tasks(plan, &next) {
            if let Some(plan) = status.plan.as_mut() {
                plan.generation = generation;
            }
        } else {
            match self.running_work(plan, status) {
                Some(work) if is_edited => {
                    findings.edit_queued = Some(format!("the last edit waits for {work}"));
                }
                Some(_) => {}
                None => {
                    let replaced = plan.clone();
                    applied_spec::forget_if_released(&replaced, status, self.context.observed);
                    self.start(status, next);
                }
            }
        }
    }

    /// Lets seid run if an update has to wait although nothing that the pod runs with has changed. The update continues afterwards.
    fn interrupt(self, status: &mut SeiNodeStatus) {
        if interruption::is_required(self.context, status, self.now, MARK_READY_INTERVAL) {
            let (next, interrupted) = (self.mark_ready_plan(status), status.plan.clone());
            if let Some(interrupted) = interrupted {
                applied_spec::forget_if_released(&interrupted, status, self.context.observed);
            }
            self.start(status, next);
        }
    }

    /// Returns whether the platform changed since an update was composed. The update would wait for a template that it does not apply.
    fn is_template_outdated(self, plan: &TaskPlan) -> bool {
        matches!(plan.kind, Some(PlanKind::NodeUpdate | PlanKind::Rollback))
            && stored_plan::template(plan).is_some_and(|template| {
                template != render::desired_hash(self.context.node, self.context.platform)
            })
    }

    /// Returns what runs for the current task, if anything. It cannot be undone, only awaited.
    fn running_work(self, plan: &TaskPlan, status: &SeiNodeStatus) -> Option<String> {
        if self.is_bootstrap_busy(plan) {
            return Some(format!("Job {} to finish", object::bootstrap_job(self.context.name())));
        }
        let (step @ Step::Sidecar(_), task) = stored_plan::current(plan)? else { return None };
        let is_running = match self.context.observed.sidecar.task_state(&task.id) {
            TaskObservation::Found(result) => {
                result.status == TaskState::Running && !step.runs_in_background()
            }
            // It was submitted to a sidecar whose answer is pending: it may run.
            TaskObservation::Unknown => {
                let is_asked = step::sidecar_transport(self.context, task, status).is_some();
                task.submitted_at.is_some() && is_asked
            }
            TaskObservation::NotFound | TaskObservation::Unreachable(_) => false,
        };
        is_running.then(|| format!("task {} of the sidecar to finish", step.name()))
    }

    /// Returns whether a bootstrap pod was given its first task and has not finished. Its seid may be running on the
    /// data that another plan would restore.
    fn is_bootstrap_busy(self, plan: &TaskPlan) -> bool {
        let is_running = self.context.observed.job.as_deref().is_some_and(|job| job_result(job).is_none());
        is_running && stored_plan::bootstrap_tasks(plan).iter().any(|task| task.submitted_at.is_some())
    }

    fn set_up(self, status: &mut SeiNodeStatus, findings: &mut Findings) {
        if self.has_lost_signing_data(status) {
            findings.is_data_volume_missing = true;
            return;
        }
        let plan = self.setup_plan(status);
        if self.has_spec_problems(stored_plan::changes(&plan), true, findings) {
            return;
        }
        self.start(status, plan);
        set_phase(status, SeiNodePhase::Initializing, self.now);
    }

    /// Returns whether the claim of a node that signs is gone after seid may have run on it. With an empty volume it could sign a block
    /// twice.
    fn has_lost_signing_data(self, status: &SeiNodeStatus) -> bool {
        self.is_claim_missing() && self.may_have_signed(status)
    }

    fn is_claim_missing(self) -> bool {
        self.context.observed.claim.is_none() && claim::imported(self.context.node).is_none()
    }

    fn may_have_signed(self, status: &SeiNodeStatus) -> bool {
        self.context.kind.can_sign() && status.plan.as_ref().is_some_and(stored_plan::has_used_data)
    }

    /// Validates what a plan is about to apply, before it starts: a bad edit must leave a healthy node alone.
    fn has_spec_problems(self, changes: PlanChanges, is_setup: bool, findings: &mut Findings) -> bool {
        findings.spec_problems = spec::problems(self.context, changes);
        // A rollback returns to references that were in use: without it, seid would not run.
        if !self.is_rolled_back {
            findings.refused_references = reference::problems(self.context, is_setup);
        }
        !findings.spec_problems.is_empty() || !findings.refused_references.is_empty()
    }

    /// Returns whether the sidecar has rejected the configuration that an update would apply. The update is not tried again until an
    /// edit or a request: the answer would be the same.
    fn is_rejected_by_dry_run(self, status: &SeiNodeStatus, update: &Drift, findings: &mut Findings) -> bool {
        if self.is_retry_requested {
            return false;
        }
        findings.spec_problems.extend(dry_run::problem(self.context, status, update.changes));
        !findings.spec_problems.is_empty()
    }

    /// Retries a failed setup after its backoff, once the spec has changed, the input that the setup timed out on is valid, or
    /// the user asks for it.
    fn retry_setup(self, decision: &mut Decision, findings: &mut Findings) {
        let status = &mut decision.status;
        let plan = status.plan.as_ref();
        let is_edited = plan.is_none_or(|plan| plan.generation != self.context.node.metadata.generation);
        let next = status.last_failed_plan.as_ref().and_then(|failed| failed.next_retry_at.as_ref());
        let left = next.and_then(|next| Duration::try_from(next.0.duration_since(self.now.0)).ok());
        let is_due = next.is_some() && left.is_none_or(|left| left.is_zero());
        if is_edited
            || is_due
            || self.is_retry_requested
            || plan.is_some_and(|plan| self.is_failed_input_valid(plan, status))
        {
            self.set_up(status, findings);
        } else if status.plan.as_ref().and_then(failed_input).is_some() {
            decision.requeue_after = Some(left.map_or(INPUT_POLL, |left| left.min(INPUT_POLL)));
        } else if let Some(left) = left {
            decision.requeue_after = Some(left);
        }
    }

    /// Returns whether a plan failed on an input that is valid now.
    fn is_failed_input_valid(self, plan: &TaskPlan, status: &SeiNodeStatus) -> bool {
        failed_input(plan).is_some_and(|(step, task)| {
            matches!(
                step::evaluate(self.context, step, task, status, self.now),
                StepOutcome::Done(_) | StepOutcome::Act(_)
            )
        })
    }

    /// Keeps a running node in sync: updates it, lets seid start, or repairs its objects.
    fn keep_in_sync(self, decision: &mut Decision, findings: &mut Findings) {
        let NodeContext { kind, observed, .. } = self.context;
        let status = &mut decision.status;
        adoption::adopt(self.context, status);
        if status.started_from.is_none() {
            status_change::record_start(kind, status);
        }
        if self.is_claim_missing() {
            if kind.can_sign() {
                findings.is_data_volume_missing = true;
                return;
            }
            self.set_up(status, findings);
            return;
        }
        let update = self.required_update(status);
        let is_in_sync = update.changes.is_empty();
        let (mut next, mut has_failed) = (RESYNC, false);
        // An update replaces the pod: it starts only if that is safe.
        if !is_in_sync
            && findings.claim_termination.is_none()
            && !self.has_spec_problems(update.changes, false, findings)
            && !self.is_rejected_by_dry_run(status, &update, findings)
        {
            if let Some(queued) = self.queued(status, &update) {
                next = queue_poll(kind, queued.position);
                findings.update_queued = Some((update, queued));
            } else {
                let backoff = self.update_backoff(status);
                if backoff.is_none() {
                    self.start(status, self.update_plan(&update, status));
                }
                findings.update = Some(update);
                let Some(left) = backoff else { return };
                if !interruption::may_seid_run(self.context, status) {
                    // Neither seid nor an object of the previous configuration belongs to the pod of the failed update.
                    decision.requeue_after = Some(left);
                    return;
                }
                (next, has_failed) = (next.min(left), true);
            }
        }
        // The pod of a failed update must not run seid before its rollback or the next attempt, which may be held back.
        let is_rollback_due = self.is_rolled_back && !is_in_sync;
        let may_seid_run = !is_rollback_due && interruption::may_seid_run(self.context, status);
        if observed.sidecar.health == Health::NotReady && may_seid_run {
            match self.mark_ready_backoff(status) {
                Some(left) => decision.requeue_after = Some(left.min(next)),
                None => self.start(status, self.mark_ready_plan(status)),
            }
            return;
        }
        if observed.sidecar.health == Health::Ready {
            stored_plan::remove_failed_mark_ready(status);
        }
        if is_in_sync {
            findings.is_update_withdrawn = dry_run::withdraw(status);
        }
        if is_in_sync && volume::is_in_sync(self.context) {
            status.adopted = adoption::is_unchanged(self.context, status);
            self.record_applied(status);
        }
        let is_held_back =
            has_failed || !findings.spec_problems.is_empty() || !findings.refused_references.is_empty();
        let repairs = self.repairs(status, is_in_sync, is_held_back);
        (decision.actions, decision.repairs) = repairs.into_iter().unzip();
        if observed.sidecar.health != Health::Ready {
            // The pod is starting, or fails: mark-ready follows as soon as the sidecar answers.
            next = next.min(self.poll_interval::<SidecarReady>(&decision.status));
        } else if !condition::is_true::<ChainSynced>(&decision.status.conditions)
            && observed.sidecar.chain != ChainObservation::NotSupported
        {
            next = next.min(self.poll_interval::<ChainSynced>(&decision.status));
        }
        decision.requeue_after = Some(next);
    }

    /// Returns the actions that restore objects while an update waits for its inputs. The Certificate is left to the update, which has
    /// applied it already.
    fn repairs_during_update(self, status: &SeiNodeStatus) -> Vec<(Action, String)> {
        let is_waiting = stored_plan::active(status).is_some_and(stored_plan::awaits_inputs);
        if !is_waiting || !interruption::may_seid_run(self.context, status) {
            return Vec::new();
        }
        let mut repairs = self.repairs(status, false, true);
        repairs.retain(|(action, _)| !matches!(action, Action::Apply(Object::Certificate(_))));
        repairs
    }

    /// Returns the actions that restore objects. An edit that is held back, or fails before it changes the pod, is not applied by them:
    /// they restore what the node runs with.
    fn repairs(self, status: &SeiNodeStatus, is_in_sync: bool, is_held_back: bool) -> Vec<(Action, String)> {
        let NodeContext { node, platform, observed, .. } = self.context;
        let previous = if is_in_sync { None } else { applied_spec::previous(node, status, observed) };
        let previous =
            previous.as_ref().and_then(|(node, observed)| NodeContext::new(node, platform, observed));
        let Some(previous) = previous else { return repair::repairs(self.context, status, is_in_sync) };
        // The user may take days to correct the edit, and without a StatefulSet seid does not run. A change of the platform is left to
        // an update, except that a new pod has it.
        let with_stateful_set = is_held_back
            && (observed.stateful_set.is_none() || drift::find(previous, status).changes.is_empty());
        repair::repairs(previous, status, with_stateful_set)
    }

    /// Returns what an update waits for that no edit of the node asks for. One that has started is continued, and one of a node
    /// without a pod disrupts nothing.
    fn queued(self, status: &SeiNodeStatus, update: &Drift) -> Option<Queued> {
        if !needs_update_slot(self.context, status, update) {
            return None;
        }
        match &self.context.observed.update_slot {
            UpdateSlot::Granted => None,
            UpdateSlot::Queued(queued) => Some(queued.clone()),
            UpdateSlot::NotRequested => Some(Queued { position: 1, reason: "not evaluated yet".into() }),
        }
    }

    /// Returns the poll interval of a sidecar that is not ready, or a seid that does not follow its chain. It grows with the time
    /// since that was not so.
    fn poll_interval<R: Reason>(self, status: &SeiNodeStatus) -> Duration {
        let lost =
            condition::find::<R>(&status.conditions).filter(|found| found.status != Status::True.as_str());
        let waited = lost.map(|lost| deadline::elapsed(&lost.last_transition_time, self.now));
        (waited.unwrap_or_default() / 4).clamp(SIDECAR_POLL, RESYNC)
    }

    fn required_update(self, status: &SeiNodeStatus) -> Drift {
        required_update(self.context, status)
    }

    fn drift(self, status: &SeiNodeStatus) -> Drift {
        drift::find(self.context, status)
    }

    /// Returns how long to wait before the next update. There is no wait after an edit.
    fn update_backoff(self, status: &SeiNodeStatus) -> Option<Duration> {
        if self.is_retry_requested {
            return None;
        }
        let generation = self.context.node.metadata.generation;
        if let Some(plan) = status.plan.as_ref().filter(|plan| plan.generation == generation) {
            // Without a minimum interval, an update that succeeds and leaves drift would be repeated without end.
            let is_complete = plan.phase == PlanPhase::Complete && !self.is_rolled_back;
            match plan.kind {
                Some(PlanKind::NodeUpdate) if !is_complete => {}
                Some(PlanKind::NodeUpdate | PlanKind::Rollback) => {
                    return self.time_left(plan.created_at.as_ref()?, UPDATE_INTERVAL);
                }
                _ => {}
            }
        }
        // A rollback starts at once: seid does not run.
        let failed = status.last_failed_plan.as_ref().filter(|_| !self.is_rolled_back)?;
        // Whatever the last plan is: seid may have been let run since.
        let is_same =
            failed.kind == Some(PlanKind::NodeUpdate) && applied_spec::is_spec_of(failed, self.context.node);
        self.time_left(&failed.failed_at, task::plan_backoff(failed.attempts)).filter(|_| is_same)
    }

    fn mark_ready_backoff(self, status: &SeiNodeStatus) -> Option<Duration> {
        let plan = status.plan.as_ref().filter(|plan| plan.kind == Some(PlanKind::MarkReady))?;
        self.time_left(plan.created_at.as_ref()?, MARK_READY_INTERVAL)
    }

    /// Returns what is left of an interval that started at a time.
    fn time_left(self, since: &Time, interval: Duration) -> Option<Duration> {
        interval.checked_sub(deadline::elapsed(since, self.now)).filter(|left| !left.is_zero())
    }

    /// Returns what would be changed if the node were not paused.
    fn pending_changes(self, status: &SeiNodeStatus) -> Vec<String> {
        match status.phase {
            Some(SeiNodePhase::Running) => self.required_update(status).phrases,
            _ => vec!["node setup".into()],
        }
    }

    fn setup_plan(self, status: &SeiNodeStatus) -> TaskPlan {
        self.context.setup_plan(self.new_plan_id, self.may_have_signed(status), self.now)
    }

    fn update_plan(self, update: &Drift, status: &SeiNodeStatus) -> TaskPlan {
        let mut changes = update.changes;
        let kind = if self.is_rolled_back { PlanKind::Rollback } else { PlanKind::NodeUpdate };
        if self.is_rolled_back && changes.config != ConfigChange::Unchanged {
            // Only this removes what the failed update has added.
            changes.config = ConfigChange::Full;
        }
        let with_dry_run = !self.is_rolled_back && dry_run::is_possible(self.context, status);
        let seid_may_run = !self.is_rolled_back && interruption::may_seid_run(self.context, status);
        self.context.update_plan(self.new_plan_id, kind, changes, with_dry_run, seid_may_run, self.now)
    }

    fn mark_ready_plan(self, status: &SeiNodeStatus) -> TaskPlan {
        let interrupted = stored_plan::unfinished_update(status).map(stored_plan::changes);
        self.context.mark_ready_plan(self.new_plan_id, interrupted.unwrap_or_default(), self.now)
    }

    fn start(self, status: &mut SeiNodeStatus, plan: TaskPlan) {
        if stored_plan::is_setup(&plan) {
            set_phase(status, SeiNodePhase::Initializing, self.now);
        }
        status.plan_step = Some(format!("1/{}", plan.tasks.len()));
        status.waiting_for = None;
        status.plan = Some(plan);
    }
}

/// Returns the step that a plan failed on, if it validates what people or other systems provide.
fn failed_input(plan: &TaskPlan) -> Option<(Step, &PlannedTask)> {
    stored_plan::failed(plan).filter(|(step, _)| {
        matches!(
            step,
            Step::EnsureDataClaim
                | Step::ValidateSigningKey
                | Step::ValidateNodeKey
                | Step::ValidateOperatorKeyring
                | Step::WaitForTlsSecret
        )
    })
}

/// Returns what an update must change: the drift, and the changes of an update that has not succeeded.
fn required_update(context: NodeContext<'_>, status: &SeiNodeStatus) -> Drift {
    let mut update = drift::find(context, status);
    if let Some(plan) = stored_plan::unfinished_update(status) {
        update.changes = update.changes.union(stored_plan::changes(plan));
        if update.phrases.is_empty() {
            update.phrases.push("changes of an unfinished update".into());
        }
    }
    update
}

/// Returns whether a node needs a slot for the update that it requires.
pub(super) fn requires_update_slot(context: NodeContext<'_>, status: &SeiNodeStatus) -> bool {
    status.phase == Some(SeiNodePhase::Running)
        && stored_plan::active(status).is_none()
        && !context.node.spec.paused
        && needs_update_slot(context, status, &required_update(context, status))
}

/// Returns whether a plan may start that uses what a node references: in steady state it does not matter who may use it.
pub(super) fn may_start_plan(context: NodeContext<'_>, status: &SeiNodeStatus) -> bool {
    status.phase != Some(SeiNodePhase::Running)
        || stored_plan::active(status).is_some()
        || !required_update(context, status).changes.is_empty()
}

fn needs_update_slot(context: NodeContext<'_>, status: &SeiNodeStatus, update: &Drift) -> bool {
    !update.changes.is_empty()
        && !update.is_from_edit
        && stored_plan::unfinished_update(status).is_none()
        && context.pod().is_some()
}

/// Returns how often a queued node asks again: those behind ask less often, so that the first is served first.
fn queue_poll(kind: NodeKind<'_>, position: usize) -> Duration {
    let shortest = if kind.can_sign() { RESYNC } else { QUEUE_POLL };
    QUEUE_POLL.saturating_mul(u32::try_from(position).unwrap_or(u32::MAX)).clamp(shortest, LONGEST_QUEUE_POLL)
}
