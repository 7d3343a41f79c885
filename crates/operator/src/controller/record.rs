//! The record stage: stores the status of a node, then emits the events and metrics that follow from it.

use std::sync::Arc;
use std::time::Duration;

use api::SeiNode;
use api::names::finalizer;
use api::note::{Note, Tone};
use api::sei_node::{PlanPhase, SeiNodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use plan::node::{Decision, transition_events};
use runtime::write::{Outcome, Writer};

use super::reconcile::{Next, STALE_REQUEUE};
use super::{Controller, Error};

/// Stores the status of a decision, or removes the finalizer of a node that is being deleted.
pub(super) async fn record(
    controller: &Controller,
    writer: &Writer,
    node: &Arc<SeiNode>,
    decision: Decision,
) -> Result<Next, Error> {
    // Before the status write: most repairs do not change the status.
    emit_repairs(controller, node, &decision.repairs);
    if decision.remove_finalizer {
        return remove_finalizer(writer, node).await;
    }
    let status = decision.status;
    let stored = match writer.pass(&**node).record(&status).await? {
        Outcome::Unchanged => {
            let after = decision.requeue_after.map(|after| after.max(STALE_REQUEUE));
            let is_active = status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Active);
            return Ok(if is_active { Next::Requeue(after) } else { Next::Converged(after) });
        }
        Outcome::Applied(stored) => controller.stores.nodes.record_write(stored),
        // Deleted in the meantime.
        Outcome::Missing => return Ok(Next::Requeue(None)),
        Outcome::Stale(_) => return Ok(Next::Requeue(Some(STALE_REQUEUE))),
        Outcome::Conflict(reason)
        | Outcome::Rejected(reason)
        | Outcome::Forbidden(reason)
        | Outcome::Unavailable(reason)
        | Outcome::Unknown(reason) => return Err(Error::Status(reason)),
    };
    tracing::debug!(
        phase = ?status.phase,
        step = status.plan_step,
        waiting_for = status.waiting_for.as_ref().map(|waiting| &waiting.target),
        reason = status.waiting_for.as_ref().and_then(|waiting| waiting.message.as_ref()),
        "status updated"
    );
    emit_transitions(controller, &stored, node.status.as_ref());
    if decision.requeue_after == Some(Duration::ZERO) {
        return Ok(Next::Continue(stored));
    }
    Ok(Next::Requeue(decision.requeue_after))
}

async fn remove_finalizer(writer: &Writer, node: &SeiNode) -> Result<Next, Error> {
    match writer.drop_finalizer(node, finalizer::NODE).await? {
        Outcome::Unchanged | Outcome::Applied(_) | Outcome::Missing => Ok(Next::Requeue(None)),
        Outcome::Stale(_) => Ok(Next::Requeue(Some(STALE_REQUEUE))),
        // An error: it is retried with backoff and logged, instead of ten times a second without a log.
        Outcome::Conflict(reason)
        | Outcome::Rejected(reason)
        | Outcome::Forbidden(reason)
        | Outcome::Unavailable(reason)
        | Outcome::Unknown(reason) => Err(Error::Finalizer(reason)),
    }
}

/// Emits the events and metrics of the change from the previous status to the stored one.
fn emit_transitions(controller: &Controller, node: &SeiNode, previous: Option<&SeiNodeStatus>) {
    let none = SeiNodeStatus::default();
    let (before, after) = (previous.unwrap_or(&none), node.status.as_ref().unwrap_or(&none));
    controller.events.send(node, &transition_events(node, before, after));
    controller.metrics.record_status_change(node, before, after, &Time(Timestamp::now()));
}

/// Emits one event for each object that was restored.
fn emit_repairs(controller: &Controller, node: &SeiNode, repairs: &[String]) {
    let event = |message: &String| Note {
        tone: Tone::Warning,
        reason: "ObjectRestored".into(),
        action: "Repair",
        message: message.clone(),
    };
    controller.events.send(node, &repairs.iter().map(event).collect::<Vec<_>>());
}
