//! The executor: takes an active plan as far as the world lets it.

use std::time::Duration;

use api::condition::{self, ImportPVCReady, NodeKeyReady, OperatorKeyringReady, SigningKeyReady};
use api::sei_node::{
    FailedPlan, FailedTask, PlanPhase, SeiNodePhase, SeiNodeStatus, TaskPlan, TaskStatus, WaitingFor,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;

use super::action::Action;
use super::check::claim;
use super::compose;
use super::mirrors;
use super::step::{Look, Scene, Wait, look_again};
use super::task::{self, Step};
use super::world::TaskSight;

/// What became of a plan in this pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// What is to be done for it now.
    pub(super) actions: Vec<Action>,
    /// When it is to be looked at again, if nothing happens.
    pub(super) look_again: Option<Duration>,
}

/// Takes the active plan of a status as far as it goes.
pub(super) fn advance(scene: Scene<'_>, status: &mut SeiNodeStatus, now: &Time) -> Progress {
    loop {
        let Some(plan) = status.plan.as_ref().filter(|plan| plan.phase == PlanPhase::Active) else {
            return Progress::default();
        };
        let Some(index) = plan.tasks.iter().position(|task| task.status != TaskStatus::Complete) else {
            complete(scene, status, now);
            return Progress { look_again: Some(Duration::ZERO), ..Progress::default() };
        };
        let task = plan.tasks[index].clone();
        show_step(status, index);
        let Some(step) = Step::from_name(&task.task_type) else {
            fail(status, index, format!("this operator knows no task {}", task.task_type), now);
            return Progress::default();
        };
        let deadline = begin(status, index, step, now);
        if let Some(due) = retry_due(status, &task.task_type, task.retry_count.unwrap_or_default())
            && due > now.0
        {
            let look_again = Duration::try_from(due.duration_since(now.0)).ok();
            return Progress { look_again, ..Progress::default() };
        }
        let look = scene.look(step, &task, status);
        say(scene, step, &look, status, now);
        match look {
            Look::Done => {
                with_task(status, index, |task| {
                    task.status = TaskStatus::Complete;
                    task.error = None;
                    // Given by an operator that was killed before it could record it: the sidecar knows when.
                    if let (None, TaskSight::Found(result)) =
                        (&task.submitted_at, scene.world.sidecar.task_of(&task.id))
                    {
                        task.submitted_at = Some(Time(result.submitted_at.0));
                    }
                });
                status.waiting_for = None;
            }
            Look::Do(_) if step.takes_evidence_away() && !is_stored(scene, status, index) => {
                return Progress { look_again: Some(Duration::ZERO), ..Progress::default() };
            }
            Look::Do(action) => {
                with_task(status, index, |task| {
                    task.status = TaskStatus::Running;
                    if matches!(action, Action::Submit(..)) {
                        task.submitted_at = Some(now.clone());
                    }
                });
                return Progress { actions: vec![action], ..Progress::default() };
            }
            Look::Wait(_) if now.0 >= deadline.0 => {
                let why = match &look {
                    Look::Wait(Wait { what, name, message, late, .. }) => {
                        let message = late.as_ref().or(message.as_ref()).map_or("", String::as_str);
                        format!("not done in its time; waited for {what} {name}: {message}")
                    }
                    _ => String::new(),
                };
                fail(status, index, why, now);
                return Progress::default();
            }
            Look::Wait(wait) => return self::wait(status, index, wait, deadline, now),
            Look::Failed(why) if retries_left(status, index) => {
                retry(status, index, step, &why, deadline, now);
                let count = with_task(status, index, |task| task.retry_count).flatten().unwrap_or_default();
                return Progress { look_again: Some(task::backoff(count)), ..Progress::default() };
            }
            Look::Failed(why) | Look::Never(why) => {
                fail(status, index, why, now);
                return Progress::default();
            }
        }
    }
}

/// Whether the API server knows that all tasks before this one are done. An operator that is killed after it has taken away
/// what they were judged by could never judge them again.
fn is_stored(scene: Scene<'_>, status: &SeiNodeStatus, index: usize) -> bool {
    let id = status.plan.as_ref().map(|plan| &plan.id);
    let stored = scene.node.status.as_ref().and_then(|stored| stored.plan.as_ref());
    stored
        .filter(|stored| Some(&stored.id) == id)
        .and_then(|stored| stored.tasks.get(..index))
        .is_some_and(|before| before.iter().all(|task| task.status == TaskStatus::Complete))
}

/// The step of a plan, as `kubectl get` shows it.
fn show_step(status: &mut SeiNodeStatus, index: usize) {
    let total = status.plan.as_ref().map_or(0, |plan| plan.tasks.len());
    status.plan_step = Some(format!("{}/{total}", index + 1));
}

/// The deadline of a task: set when it becomes the current one, and kept from then on, whatever it comes to wait for.
fn begin(status: &SeiNodeStatus, index: usize, step: Step, now: &Time) -> Time {
    let current = status.waiting_for.as_ref().filter(|_| {
        // The wait in status belongs to the first task that is not complete: nothing else can wait.
        status
            .plan
            .as_ref()
            .is_some_and(|plan| plan.tasks[..index].iter().all(|task| task.status == TaskStatus::Complete))
    });
    match current {
        Some(waiting) => waiting.deadline.clone(),
        None => after(now, step.limit()),
    }
}

fn after(now: &Time, limit: Duration) -> Time {
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    Time(now.0.saturating_add(limit).unwrap_or(now.0))
}

/// What is waited for before a failed attempt is repeated.
const RETRY: &str = "Retry";

fn retry_due(status: &SeiNodeStatus, task_type: &str, retries: i32) -> Option<k8s_openapi::jiff::Timestamp> {
    let waiting = status.waiting_for.as_ref()?;
    (waiting.what == RETRY && waiting.name == task_type)
        .then(|| after(&waiting.since, task::backoff(retries)).0)
}

fn retries_left(status: &SeiNodeStatus, index: usize) -> bool {
    let task = status.plan.as_ref().and_then(|plan| plan.tasks.get(index));
    task.is_some_and(|task| task.retry_count.unwrap_or_default() < task.max_retries.unwrap_or_default())
}

/// Counts a failed attempt. The next one is made only after this was stored: else a killed operator would not know that the
/// failure which the sidecar shows is an old one.
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

/// After this time it is said where something is held up that tells nothing by itself.
const LONG: Duration = Duration::from_mins(2);

fn wait(status: &mut SeiNodeStatus, index: usize, wait: Wait, deadline: Time, now: &Time) -> Progress {
    let mut waiting = WaitingFor::new(wait.what, wait.name, now.clone(), deadline.clone());
    waiting.message = wait.message;
    match status.waiting_for.take() {
        // Nothing new is known: what was said before still holds, and saying it otherwise would be a write.
        Some(before) if waiting.message.is_none() => waiting = before,
        Some(before) if before.target == waiting.target => waiting.since = before.since,
        _ => {}
    }
    let waited = Duration::try_from(now.0.duration_since(waiting.since.0)).unwrap_or_default();
    if waited >= LONG && wait.late.is_some() {
        waiting.message = wait.late;
    }
    let left = Duration::try_from(deadline.0.duration_since(now.0)).unwrap_or_default();
    // What can be watched tells when it happens; the look every half minute is for what was missed.
    let next = if wait.asked { look_again(waited) } else { Duration::from_secs(30) };
    status.waiting_for = Some(waiting);
    with_task(status, index, |task| {
        if task.status == TaskStatus::Pending && task.submitted_at.is_some() {
            task.status = TaskStatus::Running;
        }
    });
    Progress { look_again: Some(next.min(left)), ..Progress::default() }
}

fn complete(scene: Scene<'_>, status: &mut SeiNodeStatus, now: &Time) {
    let Some(mut plan) = status.plan.take() else { return };
    plan.phase = PlanPhase::Complete;
    let parts = compose::parts_of(&plan);
    let peers = compose::peers_of(&plan).unwrap_or_default();
    mirrors::stamp_config(status, scene.node, scene.kind, peers, parts);
    if is_setup(&plan) {
        mirrors::stamp_start(status, scene.kind);
    }
    // A plan that only let seid start again says nothing about an update that failed.
    let mends = |failed: &FailedPlan| failed.kind == plan.kind || is_setup(&plan);
    if status.last_failed_plan.as_ref().is_some_and(mends) {
        status.last_failed_plan = None;
    }
    if let Some(phase) = plan.target_phase {
        set_phase(status, phase, now);
    }
    status.plan_step = None;
    status.waiting_for = None;
    status.plan = Some(plan);
}

/// Whether a plan sets a node up.
pub(super) fn is_setup(plan: &TaskPlan) -> bool {
    use api::sei_node::PlanKind;
    matches!(plan.kind, Some(PlanKind::Init | PlanKind::Bootstrap | PlanKind::Genesis) | None)
        && plan.failed_phase.is_some()
}

fn fail(status: &mut SeiNodeStatus, index: usize, why: String, now: &Time) {
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
    let before = status.last_failed_plan.as_ref();
    let again = before.filter(|before| before.kind == plan.kind && before.generation == plan.generation);
    status.last_failed_plan = Some(FailedPlan {
        id: plan.id.clone(),
        kind: plan.kind,
        generation: plan.generation,
        step,
        failed_at: now.clone(),
        task: detail,
        attempts: again.map_or(1, |before| before.attempts.saturating_add(1)),
    });
    if let Some(phase) = plan.failed_phase {
        set_phase(status, phase, now);
    }
    status.waiting_for = None;
    status.plan = Some(plan);
}

/// Changes the phase, and notes when.
pub(super) fn set_phase(status: &mut SeiNodeStatus, phase: SeiNodePhase, now: &Time) {
    if status.phase != Some(phase) {
        status.phase = Some(phase);
        status.phase_transition_time = Some(now.clone());
    }
}

fn with_task<T>(
    status: &mut SeiNodeStatus,
    index: usize,
    change: impl FnOnce(&mut api::sei_node::PlannedTask) -> T,
) -> Option<T> {
    status.plan.as_mut()?.tasks.get_mut(index).map(change)
}

/// Says in a condition what was found of something that was given to the node.
fn say(scene: Scene<'_>, step: Step, look: &Look, status: &mut SeiNodeStatus, now: &Time) {
    let generation = scene.node.metadata.generation.unwrap_or_default();
    let found = match look {
        Look::Done => Some((0, "it is usable".to_owned())),
        Look::Wait(wait) => Some((1, wait.message.clone().unwrap_or_default())),
        Look::Never(why) => Some((2, why.clone())),
        Look::Do(_) | Look::Failed(_) => None,
    };
    let Some((which, message)) = found else { return };
    macro_rules! set {
        ($fit:expr, $not_yet:expr, $unfit:expr) => {{
            let reason = [$fit, $not_yet, $unfit][which];
            condition::set(&mut status.conditions, reason, &message, generation, now);
        }};
    }
    match step {
        Step::EnsureDataClaim if claim::imported(scene.node).is_some() => {
            set!(ImportPVCReady::PVCValidated, ImportPVCReady::PVCNotReady, ImportPVCReady::PVCInvalid);
        }
        Step::ValidateSigningKey => {
            set!(
                SigningKeyReady::SigningKeyValidated,
                SigningKeyReady::SigningKeyNotReady,
                SigningKeyReady::SigningKeyInvalid
            );
        }
        Step::ValidateNodeKey => {
            set!(NodeKeyReady::NodeKeyValidated, NodeKeyReady::NodeKeyNotReady, NodeKeyReady::NodeKeyInvalid);
        }
        Step::ValidateOperatorKeyring => {
            set!(
                OperatorKeyringReady::OperatorKeyringValidated,
                OperatorKeyringReady::OperatorKeyringNotReady,
                OperatorKeyringReady::OperatorKeyringInvalid
            );
        }
        _ => {}
    }
}
