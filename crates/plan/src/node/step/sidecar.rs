//! Steps that run a task of the sidecar.

use api::names::object;
use api::sei_node::{PlannedTask, SeiNodeStatus};
use api::sidecar_wire::{TaskRequest, TaskState};

use super::{StepOutcome, Wait, bootstrap};
use crate::node::action::{Action, Transport};
use crate::node::context::NodeContext;
use crate::node::observed::{Submission, TaskObservation};
use crate::node::stored_plan;
use crate::node::task::Step;

/// Runs a task of the sidecar: queries it, submits it once, then only polls it. It is submitted again if the sidecar
/// has lost it, and after a failure that was counted.
pub(super) fn run_task(
    context: NodeContext<'_>,
    step: Step,
    task: &PlannedTask,
    status: &SeiNodeStatus,
) -> StepOutcome {
    // The bootstrap's seid starts after all tasks of its sidecar, and the sidecar exits with it: once the Job has
    // finished, the tasks cannot be queried.
    if is_bootstrap_task(task, status)
        && let Some(result) = context.observed.job.as_deref().and_then(bootstrap::job_result)
    {
        return match result {
            Ok(()) => StepOutcome::DONE,
            Err(why) => bootstrap::job_failed(context, &why),
        };
    }
    let Some(transport) = sidecar_transport(context, task, status) else {
        return StepOutcome::wait("Pod", object::pod(context.name()), "it does not exist yet");
    };
    let sidecar = &context.observed.sidecar;
    let result = match sidecar.task_state(&task.id) {
        TaskObservation::Unknown => return StepOutcome::poll(TASK, step.name(), None),
        TaskObservation::Unreachable(why) => return unreachable(context, &transport, why),
        TaskObservation::NotFound => None,
        TaskObservation::Found(result) => Some(result),
    };
    let submit = || match sidecar.submission_of(&task.id) {
        None => StepOutcome::Act(Action::Submit(transport.clone(), request(task))),
        Some(Submission::Accepted) if step.runs_in_background() => StepOutcome::DONE,
        Some(Submission::Accepted) => StepOutcome::Wait(submitted(step)),
        // As for a query: without a message, since the answer decides whether the task was accepted in time.
        Some(Submission::Pending) => StepOutcome::poll(TASK, step.name(), None),
        Some(Submission::Rejected(why)) => StepOutcome::Fatal(why.clone()),
        Some(Submission::Unknown(why)) => unreachable(context, &transport, why),
    };
    let Some(result) = result else { return submit() };
    let retries = task.retry_count.unwrap_or_default();
    match result.status {
        TaskState::Completed => StepOutcome::DONE,
        TaskState::Running if step.runs_in_background() => StepOutcome::DONE,
        TaskState::Running => StepOutcome::Wait(submitted(step)),
        // The previous attempt, which was counted.
        TaskState::Failed if i64::from(result.run) <= i64::from(retries) => submit(),
        TaskState::Failed => StepOutcome::Failed(
            result.error.clone().unwrap_or_else(|| "the sidecar reported no error".into()),
        ),
    }
}

/// The `what` of a wait for a task of the sidecar.
const TASK: &str = "SidecarTask";

/// Returns the wait for a task that is submitted. It is the same before and after the sidecar accepts and starts it, which saves
/// status writes.
pub(in crate::node) fn submitted(step: Step) -> Wait {
    Wait {
        what: TASK,
        name: step.name().to_owned(),
        message: Some("the sidecar is running the task".into()),
        late_message: None,
        is_polled: true,
        is_in_use: false,
    }
}

/// Returns how to reach the sidecar that a task is for: that of the bootstrap pod until its teardown.
pub(in crate::node) fn sidecar_transport(
    context: NodeContext<'_>,
    task: &PlannedTask,
    status: &SeiNodeStatus,
) -> Option<Transport> {
    if is_bootstrap_task(task, status) {
        context.bootstrap_transport()
    } else {
        context.observed_transport(status)
    }
}

fn unreachable(context: NodeContext<'_>, transport: &Transport, why: &str) -> StepOutcome {
    let failure = context.pod().and_then(|pod| pod.failure());
    let message = failure.unwrap_or_else(|| why.to_owned());
    StepOutcome::poll("Sidecar", &transport.host, Some(message))
}

/// Returns whether a task is for the sidecar of the bootstrap pod.
fn is_bootstrap_task(task: &PlannedTask, status: &SeiNodeStatus) -> bool {
    let tasks = status.plan.as_ref().map(stored_plan::bootstrap_tasks).unwrap_or_default();
    tasks.iter().any(|other| other.id == task.id)
}

/// Returns the request that submits a task.
pub(super) fn request(task: &PlannedTask) -> TaskRequest {
    let params = task.params.as_ref().and_then(|params| params.as_object()).cloned();
    TaskRequest { id: Some(task.id.clone()), task_type: task.task_type.clone(), params }
}
