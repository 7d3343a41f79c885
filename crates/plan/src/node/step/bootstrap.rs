//! Steps about the bootstrap Job, which syncs a node from a snapshot to a height.

use api::names::object;
use k8s_openapi::api::batch::v1::Job;

use super::{StepOutcome, objects};
use crate::node::action::{Deletion, Object};
use crate::node::context::{NodeContext, is_controlled_by, is_terminating, name_of};
use crate::render;

/// Creates the Job. A failed Job of a previous plan, which an edit has replaced, is deleted first.
pub(super) fn deploy_job(context: NodeContext<'_>) -> StepOutcome {
    let NodeContext { node, platform, observed, .. } = context;
    let has_failed = |job: &&Job| {
        is_controlled_by(node, *job) && matches!(job_result(job), Some(Err(_))) && !is_terminating(*job)
    };
    if let Some(job) = observed.job.as_deref().filter(has_failed) {
        return objects::delete_pod(context, Deletion::Job(Box::new(job.clone())));
    }
    objects::create(context, observed.job.as_deref(), || render::bootstrap_job(node, platform), Object::Job)
}

/// Waits until the Job has completed.
pub(super) fn await_job(context: NodeContext<'_>) -> StepOutcome {
    let name = object::bootstrap_job(context.name());
    let Some(job) = context.observed.job.as_deref() else {
        return StepOutcome::Failed(format!("Job {name} was deleted before it completed"));
    };
    match job_result(job) {
        Some(Ok(())) => StepOutcome::DONE,
        Some(Err(why)) => job_failed(context, &why),
        None => {
            let failure = context.bootstrap_pod().and_then(|pod| pod.failure());
            let message = failure.unwrap_or_else(|| "seid is syncing to the target height".into());
            StepOutcome::wait("Job", name, message)
        }
    }
}

/// Reports a failed Job with the failure of its pod: the Job itself only reports that the pod has failed.
pub(super) fn job_failed(context: NodeContext<'_>, why: &str) -> StepOutcome {
    let name = object::bootstrap_job(context.name());
    let failure = context.bootstrap_pod().and_then(|pod| pod.failure());
    StepOutcome::Failed(match failure {
        Some(failure) => format!("Job {name} failed: {why}: {failure}"),
        None => format!("Job {name} failed: {why}"),
    })
}

/// Deletes the Job and its Service. Both must be gone before the node's own pod is created: only one pod can mount the
/// volume.
pub(super) fn teardown(context: NodeContext<'_>) -> StepOutcome {
    let observed = context.observed;
    if let Some(job) = observed.job.as_deref() {
        if is_terminating(job) {
            return StepOutcome::wait("Job", name_of(job), "it is being deleted after its pod");
        }
        return objects::delete_pod(context, Deletion::Job(Box::new(job.clone())));
    }
    match observed.service.as_deref() {
        // The node's own Service has the same name, and is created later.
        Some(service) if render::is_bootstrap(service) => {
            if is_terminating(service) {
                return StepOutcome::wait("Service", name_of(service), "it is being deleted");
            }
            objects::delete(context, Deletion::Service(Box::new(service.clone())))
        }
        _ => match observed.pods.iter().find(|pod| render::is_bootstrap(&***pod)) {
            Some(pod) => StepOutcome::wait("Pod", name_of(&**pod), "the bootstrap pod is terminating"),
            None => StepOutcome::DONE,
        },
    }
}

/// Returns the result of a Job, once it has finished.
pub(in crate::node) fn job_result(job: &Job) -> Option<Result<(), String>> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let find = |type_: &str| conditions.iter().find(|one| one.type_ == type_ && one.status == "True");
    if find("Complete").is_some() {
        return Some(Ok(()));
    }
    let failed = find("Failed")?;
    let text =
        [failed.reason.as_deref(), failed.message.as_deref()].map(Option::unwrap_or_default).join(": ");
    Some(Err(text))
}
