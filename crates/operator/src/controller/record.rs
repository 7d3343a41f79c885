//! The record stage: stores the status of a node, then emits the events and metrics that follow from it.

use std::sync::Arc;
use std::time::Duration;

use api::SeiNode;
use api::event::{EventRecord, EventType};
use api::names::{finalizer, object};
use api::sei_node::{PlanPhase, SeiNodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use plan::node::{Decision, Observed, WriteFailure, deletion_event, transition_events};
use runtime::Key;
use runtime::write::{WriteOutcome, Writer};

use super::reconcile::{Next, STALE_REQUEUE};
use super::{Controller, Error};

/// Stores the status of a decision.
pub(super) async fn record(
    controller: &Controller,
    writer: &Writer,
    node: &Arc<SeiNode>,
    decision: Decision,
) -> Result<Next, Error> {
    // Before the status write: most repairs do not change the status.
    emit_repairs(controller, node, &decision.repairs);
    let status = decision.status;
    let stored = match writer.status_update(&**node).write(&status).await? {
        WriteOutcome::Unchanged => {
            let after = decision.requeue_after.map(|after| after.max(STALE_REQUEUE));
            let is_active = status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Active);
            return Ok(if is_active { Next::Requeue(after) } else { Next::Converged(after) });
        }
        WriteOutcome::Applied(stored) => controller.stores.nodes.record_write(stored),
        // Deleted in the meantime.
        WriteOutcome::Missing => {
            controller.forget(&Key::from_object(&**node)).await;
            return Ok(Next::Requeue(None));
        }
        WriteOutcome::Stale(_) => return Ok(Next::Requeue(Some(STALE_REQUEUE))),
        WriteOutcome::Conflict(reason)
        | WriteOutcome::Rejected(reason)
        | WriteOutcome::Forbidden(reason)
        | WriteOutcome::UnknownKind(reason)
        | WriteOutcome::Unavailable(reason)
        | WriteOutcome::Unknown(reason) => return Err(Error::Status(reason)),
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

/// Emits the event about the data that a deleted node leaves behind. The label of the claim says the same, also if no operator runs.
pub(super) async fn record_deletion(controller: &Controller, key: &Key, node: &SeiNode) -> Result<(), Error> {
    let claim = Key { namespace: key.namespace.clone(), name: object::data_claim(&key.name) };
    let claim = controller.stores.claims.get(&controller.client, &claim).await?;
    controller.events.publish(node, deletion_event(node, claim.as_deref()).as_slice());
    Ok(())
}

/// Removes the finalizer of a node that is being deleted. If the API server refuses that, the refusal becomes part of the observed state:
/// it is reported, and retried with backoff.
pub(super) async fn remove_finalizer(
    writer: &Writer,
    node: &SeiNode,
    observed: &mut Observed,
) -> Result<Option<Next>, Error> {
    match writer.remove_finalizer(node, finalizer::NODE).await? {
        WriteOutcome::Unchanged | WriteOutcome::Applied(_) | WriteOutcome::Missing => {
            Ok(Some(Next::Requeue(None)))
        }
        WriteOutcome::Stale(_) => Ok(Some(Next::Requeue(Some(STALE_REQUEUE)))),
        WriteOutcome::Conflict(reason)
        | WriteOutcome::Rejected(reason)
        | WriteOutcome::Forbidden(reason)
        | WriteOutcome::UnknownKind(reason)
        | WriteOutcome::Unavailable(reason)
        | WriteOutcome::Unknown(reason) => {
            observed.write_failures.insert("SeiNode", WriteFailure::Transient(reason));
            Ok(None)
        }
    }
}

/// Emits the events and metrics of the change from the previous status to the stored one.
fn emit_transitions(controller: &Controller, node: &SeiNode, previous: Option<&SeiNodeStatus>) {
    let none = SeiNodeStatus::default();
    let (before, after) = (previous.unwrap_or(&none), node.status.as_ref().unwrap_or(&none));
    controller.events.publish(node, &transition_events(node, before, after));
    controller.metrics.record_status_change(node, before, after, &Time(Timestamp::now()));
}

/// Emits one event for each object that was restored.
fn emit_repairs(controller: &Controller, node: &SeiNode, repairs: &[String]) {
    let event = |message: &String| EventRecord {
        event_type: EventType::Warning,
        reason: "ObjectRestored".into(),
        action: "Repair",
        message: message.clone(),
    };
    controller.events.publish(node, &repairs.iter().map(event).collect::<Vec<_>>());
}
