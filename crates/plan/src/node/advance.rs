//! Executes an active plan: evaluates its tasks in order until one has to wait or act.

use std::time::Duration;

use api::sei_node::{
    FailedPlan, FailedTask, PlanKind, PlanPhase, PlannedTask, SeiNodePhase, SeiNodeStatus, TaskStatus,
    WaitingFor,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::action::Action;
use super::context::NodeContext;
use super::observed::TaskObservation;
use super::step::{self, StepOutcome, Wait};
use super::stored_plan::{self, is_setup};
use super::task::{self, Step};
use super::{applied_spec, conditions, deadline, status_change};

/// The result of advancing a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The actions to execute now.
    pub(super) actions: Vec<Action>,
    /// When to requeue the node, if nothing happens before.
    pub(super) requeue_after: Option<Duration>,
}

impl Progress {
    fn act(action: Action) -> Self {
        Self { actions: vec![action], requeue_after: None }
    }

    fn requeue(after: Duration) -> Self {
        Self { actions: Vec::new(), requeue_after: Some(after) }
    }
}

/// Advances the active plan of a status as far as possible.
pub(super) fn advance(context: NodeContext<'_>, status: &mut SeiNodeStatus, now: &Time) -> Progress {
    loop {
        let Some(plan) = status.plan.as_ref().filter(|plan| plan.phase == PlanPhase::Active) else {
            return Progress::default();
        };
        let Some(index) = plan.tasks.iter().position(|task| task.status != TaskStatus::Complete) else {
            complete(context, status, now);
            return Progress::requeue(Duration::ZERO);
        };
        let task = plan.tasks[index].clone();
        status.plan_step = Some(format!("{}/{}", index + 1, plan.tasks.len()));
        let Some(step) = Step::from_name(&task.task_type) else {
            let error = format!("unknown task {}: upgrade the operator, or edit the spec", task.task_type);
            fail(context, status, index, Failure::Spec(error), now);
            return Progress::default();
        };
        let deadline = deadline::current(status, step, context.observed.active_since.as_ref(), now);
        if let Some(due) = retry_due(status, &task.task_type, task.retry_count.unwrap_or_default())
            && due > now.0
        {
            let requeue_after = Duration::try_from(due.duration_since(now.0)).ok();
            return Progress { requeue_after, ..Progress::default() };
        }
        let outcome = step::evaluate(context, step, &task, status, now);
        conditions::report_input(context, step, &outcome, status, now);
        match outcome {
            StepOutcome::Done(change) => {
                if let Some(change) = change {
                    change.apply(status);
                }
                complete_task(context, status, index);
            }
            StepOutcome::Act(_) if step.deletes_task_evidence() && !is_stored(context, status, index) => {
                return Progress::requeue(Duration::ZERO);
            }
            // Whether seid may have run decides about a rollback: an operator that is killed after the submission must find it in the
            // status.
            StepOutcome::Act(Action::Submit(..))
                if applied_spec::is_release_of_update(context, status, &task)
                    && !is_submission_stored(context, status, index) =>
            {
                with_task(status, index, |task| task.submitted_at = Some(now.clone()));
                self::wait(status, index, step::submitted(step), deadline, now);
                return Progress::requeue(Duration::ZERO);
            }
            StepOutcome::Act(action) => {
                with_task(status, index, |task| {
                    task.status = TaskStatus::Running;
                    if matches!(action, Action::Submit(..)) {
                        task.submitted_at.get_or_insert_with(|| now.clone());
                    }
                });
                return Progress::act(action);
            }
            StepOutcome::Skipped(why) => skip_task(context, status, index, why),
            StepOutcome::Wait(_) if now.0 >= deadline.0 && step.is_skipped_at_deadline() => {
                let why = format!("no result within {} s", step.limit().as_secs());
                skip_task(context, status, index, why);
            }
            // An answer that is pending decides whether the task has finished in time.
            StepOutcome::Wait(wait) if now.0 >= deadline.0 && wait.message.is_some() => {
                let Wait { what, name, message, late_message, .. } = wait;
                let message = late_message.or(message).unwrap_or_default();
                let error = format!("deadline exceeded while waiting for {what} {name}: {message}");
                fail(context, status, index, Failure::Environment(error), now);
                return Progress::default();
            }
            StepOutcome::Wait(wait) => return self::wait(status, index, wait, deadline, now),
            StepOutcome::Failed(why) if has_retries_left(status, index) => {
                retry(status, index, step, &why, deadline, now);
                let retries = with_task(status, index, |task| task.retry_count).flatten();
                return Progress::requeue(task::backoff(retries.unwrap_or_default()));
            }
            StepOutcome::Failed(why) => {
                fail(context, status, index, Failure::Environment(why), now);
                return Progress::default();
            }
            StepOutcome::Fatal(why) => {
                fail(context, status, index, Failure::Spec(why), now);
                return Progress::default();
            }
        }
    }
}

/// Marks a task as complete.
fn complete_task(context: NodeContext<'_>, status: &mut SeiNodeStatus, index: usize) {
    with_task(status, index, |task| {
        task.status = TaskStatus::Complete;
        task.error = None;
        // The operator was killed after it submitted the task and before it recorded that: the sidecar knows when.
        if let (None, TaskObservation::Found(result)) =
            (&task.submitted_at, context.observed.sidecar.task_state(&task.id))
        {
            task.submitted_at = Some(Time(result.submitted_at.0));
        }
    });
    status.waiting_for = None;
}

/// Marks a task as complete although it had no result. Its error says why.
fn skip_task(context: NodeContext<'_>, status: &mut SeiNodeStatus, index: usize, why: String) {
    complete_task(context, status, index);
    with_task(status, index, |task| task.error = Some(why));
}

/// Returns whether the stored status has all tasks before this one as complete. An operator that is killed after
/// deleting the evidence of their completion could not evaluate them again.
fn is_stored(context: NodeContext<'_>, status: &SeiNodeStatus, index: usize) -> bool {
    stored_tasks(context, status)
        .and_then(|stored| stored.get(..index))
        .is_some_and(|before| before.iter().all(|task| task.status == TaskStatus::Complete))
}

/// Returns whether the stored status has this task as submitted.
fn is_submission_stored(context: NodeContext<'_>, status: &SeiNodeStatus, index: usize) -> bool {
    stored_tasks(context, status)
        .and_then(|stored| stored.get(index))
        .is_some_and(|task| task.submitted_at.is_some())
}

/// Returns the tasks of the current plan as they are stored.
fn stored_tasks<'a>(context: NodeContext<'a>, status: &SeiNodeStatus) -> Option<&'a [PlannedTask]> {
    let id = status.plan.as_ref().map(|plan| &plan.id);
    let stored = context.node.status.as_ref().and_then(|stored| stored.plan.as_ref());
    stored.filter(|stored| Some(&stored.id) == id).map(|stored| stored.tasks.as_slice())
}

/// The `what` of a wait for a retry.
const RETRY: &str = "Retry";

fn retry_due(status: &SeiNodeStatus, task_type: &str, retries: i32) -> Option<Timestamp> {
    let waiting = status.waiting_for.as_ref()?;
    (waiting.what == RETRY && waiting.name == task_type)
        .then(|| deadline::after(&waiting.since, task::backoff(retries)).0)
}

fn has_retries_left(status: &SeiNodeStatus, index: usize) -> bool {
    let task = status.plan.as_ref().and_then(|plan| plan.tasks.get(index));
    task.is_some_and(|task| task.retry_count.unwrap_or_default() < task.max_retries.unwrap_or_default())
}

/// Counts a failed attempt. The retry starts only after the count is stored: otherwise a killed operator could not tell
/// that the failure which the sidecar reports was already counted.
fn retry(status: &mut SeiNodeStatus, index: usize, step: Step, why: &str, deadline: Time, now: &Time) {
    with_task(status, index, |task| {
        task.retry_count = Some(task.retry_count.unwrap_or_default() + 1);
        task.status = TaskStatus::Pending;
        task.submitted_at = None;
        task.error = Some(why.to_owned());
    });
    let mut waiting = WaitingFor::new(RETRY, step.name(), now.clone(), deadline);
    waiting.message = Some(why.to_owned());
    status.waiting_for = Some(waiting);
}

/// After this time the late message of a wait replaces its message.
const LATE_AFTER: Duration = Duration::from_mins(2);

/// How often a wait for a watched object is checked, in case an event was missed.
const RESYNC: Duration = Duration::from_secs(30);

fn wait(status: &mut SeiNodeStatus, index: usize, wait: Wait, deadline: Time, now: &Time) -> Progress {
    let mut waiting = WaitingFor::new(wait.what, wait.name, now.clone(), deadline.clone());
    waiting.message = wait.message;
    match status.waiting_for.take() {
        // Nothing new is known: keeping the previous text saves a status write.
        Some(before) if waiting.message.is_none() => {
            waiting = WaitingFor { deadline: deadline.clone(), ..before }
        }
        Some(before) if before.target == waiting.target => waiting.since = before.since,
        _ => {}
    }
    let waited = deadline::elapsed(&waiting.since, now);
    if waited >= LATE_AFTER && wait.late_message.is_some() {
        waiting.message = wait.late_message;
    }
    let left = Duration::try_from(deadline.0.duration_since(now.0)).ok().filter(|left| !left.is_zero());
    let next = if wait.is_polled { poll_interval(waited) } else { RESYNC };
    status.waiting_for = Some(waiting);
    with_task(status, index, |task| {
        if task.status == TaskStatus::Pending && task.submitted_at.is_some() {
            task.status = TaskStatus::Running;
        }
    });
    Progress::requeue(left.map_or(next, |left| next.min(left)))
}

/// Returns the poll interval of something that cannot be watched. It grows with the time waited.
fn poll_interval(waited: Duration) -> Duration {
    (waited / 4).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

fn complete(context: NodeContext<'_>, status: &mut SeiNodeStatus, now: &Time) {
    let Some(mut plan) = status.plan.take() else { return };
    plan.phase = PlanPhase::Complete;
    applied_spec::forget_if_released(&plan, status, context.observed);
    status_change::record_config(context, &plan, status);
    if is_setup(&plan) {
        status_change::record_start(context.kind, status);
    }
    // A completed mark-ready plan does not resolve a failed update.
    let resolves = |failed: &FailedPlan| failed.kind == plan.kind || is_setup(&plan);
    if status.last_failed_plan.as_ref().is_some_and(resolves) {
        status.last_failed_plan = None;
    }
    if let Some(phase) = plan.target_phase {
        set_phase(status, phase, now);
    }
    status.plan_step = None;
    status.waiting_for = None;
    status.plan = Some(plan);
}

/// Why a plan failed.
enum Failure {
    /// The spec must be edited.
    Spec(String),
    /// Something else was in the way, which may be gone at the next attempt.
    Environment(String),
}

fn fail(context: NodeContext<'_>, status: &mut SeiNodeStatus, index: usize, failure: Failure, now: &Time) {
    let (why, is_environment) = match failure {
        Failure::Spec(why) => (why, false),
        Failure::Environment(why) => (why, true),
    };
    let step = status.plan_step.take().unwrap_or_default();
    let Some(mut plan) = status.plan.take() else { return };
    let Some(task) = plan.tasks.get_mut(index) else { return };
    task.status = TaskStatus::Failed;
    task.error = Some(why.clone());
    let detail = FailedTask {
        task_type: task.task_type.clone(),
        id: task.id.clone(),
        error: why,
        retry_count: task.retry_count.unwrap_or_default(),
        max_retries: task.max_retries.unwrap_or_default(),
    };
    plan.phase = PlanPhase::Failed;
    plan.failed_task_index = i32::try_from(index).ok();
    plan.failed_task_detail = Some(detail.clone());
    status.waiting_for = None;
    let is_failed_update = |failed: &FailedPlan| {
        failed.rolled_back
            || failed.kind == Some(PlanKind::NodeUpdate) && applied_spec::is_spec_of(failed, context.node)
    };
    let is_after_failed_update = plan.kind == Some(PlanKind::MarkReady)
        && status.last_failed_plan.as_ref().is_some_and(is_failed_update);
    if plan.kind == Some(PlanKind::Rollback) || is_after_failed_update {
        // The failure of the update stays visible, and the update is not tried again at once: it is what the user must fix.
        status.plan = Some(plan);
        return;
    }
    let rolled_back = applied_spec::is_rollback_required(context, status, &plan, index);
    applied_spec::forget_if_released(&plan, status, context.observed);
    let previous = status.last_failed_plan.as_ref();
    let same = previous.filter(|failed| failed.kind == plan.kind && failed.generation == plan.generation);
    let attempts = same.map_or(1, |failed| failed.attempts.saturating_add(1));
    // An update is always retried, since its drift stays, unless the node runs its previous configuration: another attempt
    // would replace a healthy pod, or get the same answer to its dry-run.
    let is_retried =
        !rolled_back && (is_environment || !is_setup(&plan)) && !stored_plan::is_in_dry_run(&plan);
    status.last_failed_plan = Some(FailedPlan {
        id: plan.id.clone(),
        kind: plan.kind,
        generation: plan.generation,
        spec_hash: applied_spec::spec_hash(&context.node.spec),
        step,
        failed_at: now.clone(),
        task: detail,
        attempts,
        next_retry_at: is_retried.then(|| deadline::after(now, task::plan_backoff(attempts))),
        rolled_back,
    });
    if let Some(phase) = plan.failed_phase {
        set_phase(status, phase, now);
    }
    status.plan = Some(plan);
}

/// Sets the phase, and the transition time if it changes.
pub(super) fn set_phase(status: &mut SeiNodeStatus, phase: SeiNodePhase, now: &Time) {
    if status.phase != Some(phase) {
        status.phase = Some(phase);
        status.phase_transition_time = Some(now.clone());
    }
}

fn with_task<T>(
    status: &mut SeiNodeStatus,
    index: usize,
    change: impl FnOnce(&mut PlannedTask) -> T,
) -> Option<T> {
    status.plan.as_mut()?.tasks.get_mut(index).map(change)
}
