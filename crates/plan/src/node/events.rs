//! The events of a node. Only transitions are recorded.

use api::condition::{
    self, ImportPVCReady, Ready, SidecarReady, SidecarTLSSecretReady, SigningKeyReady, Status,
};
use api::event::{EventRecord, EventType};
use api::sei_node::{Scheme, SeiNodePhase, SeiNodeStatus};
use api::{SeiNode, condition::Reason};

use super::stored_plan;
use super::tls::desired_tls;

/// Returns the events for the transition between two statuses.
#[must_use]
pub fn transition_events(node: &SeiNode, before: &SeiNodeStatus, after: &SeiNodeStatus) -> Vec<EventRecord> {
    let mut events = Vec::new();
    if before.phase != after.phase {
        let name =
            |phase: Option<SeiNodePhase>| phase.map_or_else(|| "new".into(), |phase| format!("{phase:?}"));
        events.push(normal(
            "PhaseTransition",
            "Plan",
            format!("{} -> {}", name(before.phase), name(after.phase)),
        ));
    }
    if (before.phase, after.phase) == (Some(SeiNodePhase::Running), Some(SeiNodePhase::Initializing)) {
        let message = "the PersistentVolumeClaim of the data volume is gone: the node is set up again on an empty volume";
        events.push(warning("DataVolumeLost", "Plan", message.into()));
    }
    let is_terminating =
        |status: &SeiNodeStatus| condition::has_reason(&status.conditions, Ready::DataVolumeTerminating);
    if is_terminating(after) && !is_terminating(before) {
        events.push(warning("DataVolumeTerminating", "Check", message_of::<Ready>(after)));
    }
    events.extend(in_use_event(SigningKeyReady::SigningKeyInUse, before, after));
    events.extend(in_use_event(ImportPVCReady::PVCInUse, before, after));
    let failed = after.last_failed_plan.as_ref();
    if let Some(failed) =
        failed.filter(|failed| before.last_failed_plan.as_ref().is_none_or(|known| known.id != failed.id))
    {
        let reason = if after.phase == Some(SeiNodePhase::Failed) { "NodeFailed" } else { "UpdateFailed" };
        let message = format!("step {} ({}): {}", failed.step, failed.task.task_type, failed.task.error);
        events.push(warning(reason, "Plan", message));
    }
    let skipped = |status: &SeiNodeStatus| {
        let plan = status.plan.as_ref()?;
        stored_plan::skipped_dry_run(plan).map(|why| (plan.id.clone(), why.to_owned()))
    };
    if let Some((id, why)) = skipped(after).filter(|after| skipped(before).as_ref() != Some(after)) {
        let message = format!(
            "plan {id} continues although the running sidecar did not check the configuration: {why}"
        );
        events.push(normal("DryRunSkipped", "Plan", message));
    }
    if let (Some(old), Some(new)) = (stored_plan::active(before), stored_plan::active(after))
        && old.id != new.id
    {
        let why = if stored_plan::is_interruption(new) {
            "to let seid run; the update continues afterwards"
        } else {
            "after an edit of the spec"
        };
        let message = format!("plan {} replaces plan {} {why}", new.id, old.id);
        events.push(normal("PlanSuperseded", "Plan", message));
    }
    let (was, is) = (status_of::<SidecarReady>(before), status_of::<SidecarReady>(after));
    let not_ready = condition::has_reason(&after.conditions, SidecarReady::NotReady);
    if not_ready && was != Some(Status::False.as_str()) {
        events.push(warning(
            "SidecarReadinessLost",
            "Probe",
            "the sidecar holds seid back until it receives mark-ready".into(),
        ));
    } else if is == Some(Status::True.as_str()) && was == Some(Status::False.as_str()) {
        events.push(normal("SidecarReadinessRestored", "Probe", "the sidecar lets seid run".into()));
    }
    if desired_tls(node).scheme == Scheme::Https {
        let (was, is) =
            (status_of::<SidecarTLSSecretReady>(before), status_of::<SidecarTLSSecretReady>(after));
        let message = message_of::<SidecarTLSSecretReady>(after);
        if is == Some(Status::False.as_str()) && was != is {
            events.push(warning("SidecarTLSSecretNotReady", "Check", message));
        } else if is == Some(Status::True.as_str()) && was == Some(Status::False.as_str()) {
            events.push(normal("SidecarTLSSecretReady", "Check", message));
        }
    }
    events
}

/// Returns the event of a node that starts to wait for an object which another node uses.
fn in_use_event<R: Reason>(reason: R, before: &SeiNodeStatus, after: &SeiNodeStatus) -> Option<EventRecord> {
    let is_in_use = |status: &SeiNodeStatus| condition::has_reason(&status.conditions, reason);
    (is_in_use(after) && !is_in_use(before))
        .then(|| warning(reason.as_str(), "Check", message_of::<R>(after)))
}

fn status_of<R: Reason>(status: &SeiNodeStatus) -> Option<&str> {
    condition::find::<R>(&status.conditions).map(|condition| condition.status.as_str())
}

fn message_of<R: Reason>(status: &SeiNodeStatus) -> String {
    condition::find::<R>(&status.conditions).map(|condition| condition.message.clone()).unwrap_or_default()
}

fn normal(reason: &'static str, action: &'static str, message: String) -> EventRecord {
    EventRecord { event_type: EventType::Normal, reason: reason.into(), action, message }
}

fn warning(reason: &'static str, action: &'static str, message: String) -> EventRecord {
    EventRecord { event_type: EventType::Warning, reason: reason.into(), action, message }
}
