//! Steps that replace and observe the node's own pod.

use api::drift;
use api::names::{container, object};

use super::{StepOutcome, Wait, objects};
use crate::node::action::Deletion;
use crate::node::context::{NodeContext, is_terminating, name_of, revision_of};
use crate::node::status_change::{CurrentPod, StatusChange};

/// Deletes a pod of an older revision. It does not wait for readiness: a halted seid is never ready, and an update is
/// how to fix it.
pub(super) fn replace(context: NodeContext<'_>) -> StepOutcome {
    let observed = context.observed;
    let wait = |message: &str| StepOutcome::wait("StatefulSet", context.name(), message);
    let Some(set) = observed.stateful_set.as_deref() else {
        return wait("it does not exist");
    };
    if set.replicas().is_some_and(|replicas| replicas > 1) {
        return StepOutcome::Failed(format!(
            "StatefulSet {} has more than one replica: scale it to 1",
            context.name()
        ));
    }
    // The template decides which pod is deleted: it must be the desired one, and its controller must have observed it.
    let hash = match context.desired_template_hash() {
        Ok(hash) => hash,
        Err(error) => return StepOutcome::Fatal(error.to_string()),
    };
    if !drift::is_applied_from(set, &hash) {
        return wait("the new template is not visible in the watch yet");
    }
    let Some(newest) = set.newest_revision() else {
        return wait("the StatefulSet controller has not observed the new template yet");
    };
    match context.pod().map(|pod| (pod, revision_of(pod))) {
        Some((pod, Some(revision))) if revision != newest => {
            if is_terminating(&**pod) {
                return StepOutcome::wait(
                    "Pod",
                    name_of(&**pod),
                    "the pod of the previous revision is terminating",
                );
            }
            objects::delete_pod(context, Deletion::Pod(Box::new((**pod).clone())))
        }
        _ => StepOutcome::DONE,
    }
}

/// Waits until seid runs in a pod of the desired template, and records what the pod was created with.
pub(super) fn observe(context: NodeContext<'_>) -> StepOutcome {
    let pod_name = object::pod(context.name());
    // The message stays the same until something fails or takes long: a starting pod passes through more states than
    // are worth a status write each.
    let starting = |late_message: String| {
        StepOutcome::Wait(Wait {
            what: "Pod",
            name: pod_name.clone(),
            message: Some("the pod is starting".into()),
            late_message: Some(late_message),
            is_polled: false,
            is_in_use: false,
        })
    };
    // If the operator was killed between applying a template and recording that, the template may have been applied
    // again since. The pod of the earlier template would never have the newest revision.
    match replace(context) {
        StepOutcome::Done(_) => {}
        StepOutcome::Wait(wait) => return starting(wait.message.unwrap_or_default()),
        other => return other,
    }
    let Some(pod) = context.pod() else {
        return starting(format!(
            "the StatefulSet has not created the pod: see `kubectl describe statefulset {}`, and check that \
             kube-controller-manager runs",
            context.name()
        ));
    };
    if is_terminating(&**pod) {
        return starting(
            "the previous pod is still terminating: check that its Kubernetes node is up".into(),
        );
    }
    if !pod.is_running(container::SEID) {
        return match pod.failure() {
            Some(failure) => StepOutcome::wait("Pod", &pod_name, failure),
            None if !pod.is_scheduled() => starting(
                "the pod is not scheduled and has no scheduling error: check that kube-scheduler runs".into(),
            ),
            None => {
                starting(format!("its containers have not started: see `kubectl describe pod {pod_name}`"))
            }
        };
    }
    StepOutcome::Done(Some(StatusChange::Pod(Box::new(CurrentPod::new(context, pod)))))
}
