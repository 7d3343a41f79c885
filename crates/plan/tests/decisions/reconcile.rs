//! The reconcile loop of the operator on the fake cluster, with injected faults.

use std::sync::Arc;

use api::sei_node::{PlanPhase, SeiNodePhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use plan::Platform;
use plan::node::{Action, Observed, Submission, WriteFailure, decide, required_observations};

use super::cluster::Cluster;

/// A fault in a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No fault.
    None,
    /// The operator is killed after this many actions, before it stores the status.
    KilledAfter(usize),
    /// The action with this number is executed, but its answer is lost.
    AnswerLost(usize),
    /// The API server refuses every write of this reconcile, except that of the status.
    Refused,
}

/// Decisions in one reconcile: more than any plan has steps. The operator has a limit as well.
const MAX_DECISIONS: usize = 64;

/// The message of the API server with [`Fault::Refused`].
pub const REFUSAL: &str = "exceeded quota: objects";

/// Returns the time after some minutes.
pub fn time(minutes: i64) -> Time {
    let start: Timestamp = "2026-05-18T10:00:00Z".parse().unwrap();
    Time(start.saturating_add(SignedDuration::from_mins(minutes)).unwrap())
}

/// Reconciles the node once. Returns the number of actions.
pub fn reconcile(cluster: &mut Cluster, platform: &Platform, fault: Fault) -> usize {
    let node = cluster.node.clone();
    // A new cache: on another path of the model the same generation has another spec.
    let mut observed = Observed { render_cache: Arc::default(), ..cluster.observed.clone() };
    let mut status = node.status.clone().unwrap_or_default();
    cluster.plans += 1;
    let new_plan_id = format!("00000000-0000-4000-8000-{:012}", cluster.plans);
    let before = status.plan.as_ref().map(|plan| plan.id.clone());
    let (mut actions, mut decisions) = (0, 0);
    loop {
        decisions += 1;
        assert!(decisions <= MAX_DECISIONS, "the reconcile does not converge: {status:#?}");
        let queries = required_observations(&node, &status, platform, &observed);
        cluster.answer(&queries, &mut observed);
        let decision = decide(&node, status, platform, &observed, &time(cluster.minutes), &new_plan_id);
        status = decision.status;
        if decision.actions.is_empty() {
            if required_observations(&node, &status, platform, &observed) == queries {
                break;
            }
            continue;
        }
        let stored = node.status.as_ref();
        let has_plan = stored
            .and_then(|stored| stored.plan.as_ref())
            .is_some_and(|plan| plan.phase == PlanPhase::Active);
        let is_running = stored.is_some_and(|stored| stored.phase == Some(SeiNodePhase::Running));
        // The claim and the issued Secret of a deleted or failed node get their owners without a plan.
        let is_ownership =
            |action: &Action| matches!(action, Action::SetClaimOwnership(_) | Action::SetSecretOwnership(_));
        let is_allowed = has_plan || is_running || decision.actions.iter().all(is_ownership);
        assert!(is_allowed, "executed a plan that is not stored");
        for action in &decision.actions {
            actions += 1;
            if fault == Fault::Refused {
                refuse(action, &mut observed);
            } else if fault == Fault::AnswerLost(actions) {
                let mut lost = observed.clone();
                cluster.execute(action, &mut lost);
                lose_answer(action, &mut observed);
            } else {
                cluster.execute(action, &mut observed);
            }
            if fault == Fault::KilledAfter(actions) {
                let is_release =
                    matches!(action, Action::Submit(_, request) if request.task_type == "mark-ready");
                cluster.history.has_unknown_release |= is_release;
                return actions;
            }
        }
    }
    cluster.record(&status);
    if status.plan.as_ref().map(|plan| plan.id.clone()) == before {
        // The id was not used: the next reconcile may have it.
        cluster.plans -= 1;
    }
    actions
}

/// Adds what the operator observes after an action that the API server refused. The sidecar refuses nothing.
fn refuse(action: &Action, observed: &mut Observed) {
    match action {
        Action::Submit(..) => lose_answer(action, observed),
        _ => drop(observed.write_failures.insert(action.kind(), WriteFailure::Transient(REFUSAL.into()))),
    }
}

/// Adds what the operator observes after an action whose answer was lost.
fn lose_answer(action: &Action, observed: &mut Observed) {
    let unknown = || "no answer".to_owned();
    match action {
        Action::Apply(object) | Action::Create(object) => {
            observed.write_failures.insert(object.kind(), WriteFailure::Transient(unknown()));
        }
        Action::Delete(deletion) => {
            observed.write_failures.insert(deletion.kind(), WriteFailure::Transient(unknown()));
        }
        Action::SetClaimOwnership(_) | Action::SetSecretOwnership(_) => {
            observed.write_failures.insert(action.kind(), WriteFailure::Transient(unknown()));
        }
        Action::Submit(_, request) => {
            let id = request.id.clone().unwrap_or_default();
            observed.sidecar.submission = Some((id, Submission::Unknown(unknown())));
        }
    }
}
