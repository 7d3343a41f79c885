//! The events of a fleet. Only transitions are recorded.

use api::condition::{self, QuorumSafe, RolloutInProgress, SpecApplied};
use api::event::{EventRecord, EventType};
use api::fleet::{FleetNodeState, NodeSummary, SeiNodeDeploymentStatus};

/// Returns the events for the transition between two statuses.
#[must_use]
pub fn transition_events(
    before: &SeiNodeDeploymentStatus,
    after: &SeiNodeDeploymentStatus,
) -> Vec<EventRecord> {
    let mut events = Vec::new();
    for node in &after.nodes {
        let known = before.nodes.iter().find(|known| known.name == node.name);
        if exists(node) && !known.is_some_and(exists) {
            events.push(normal("SeiNodeCreated", "Scale", format!("created SeiNode {}", node.name)));
        }
    }
    for node in before.nodes.iter().filter(|node| exists(node)) {
        if !after.nodes.iter().any(|kept| kept.name == node.name) {
            events.push(normal("SeiNodeDeleted", "Scale", format!("deleted SeiNode {}", node.name)));
        }
    }
    let target =
        |status: &SeiNodeDeploymentStatus| status.rollout.as_ref().map(|rollout| rollout.target_hash.clone());
    match (target(before), target(after)) {
        (None, Some(to)) => {
            events.push(normal("RolloutStarted", "Rollout", format!("rolling out revision {to}")));
        }
        (Some(from), Some(to)) if from != to => {
            let message = format!("revision {to} supersedes revision {from}");
            events.push(normal("RolloutSuperseded", "Rollout", message));
        }
        (Some(from), None) => {
            events.push(normal("RolloutComplete", "Rollout", format!("all nodes have revision {from}")));
        }
        _ => {}
    }
    let stalled = |status: &SeiNodeDeploymentStatus| {
        condition::has_reason(&status.conditions, RolloutInProgress::RolloutStalled)
    };
    if stalled(after) && !stalled(before) {
        events.push(warning("RolloutStalled", message_of::<RolloutInProgress>(after)));
    }
    for reason in [QuorumSafe::QuorumHeld, QuorumSafe::QuorumImpossible, QuorumSafe::VotingPowerUnknown] {
        let has = |status: &SeiNodeDeploymentStatus| condition::has_reason(&status.conditions, reason);
        if has(after) && !has(before) {
            events.push(warning("QuorumHeld", message_of::<QuorumSafe>(after)));
        }
    }
    for reason in [SpecApplied::NameConflict, SpecApplied::ScaleDownHeld] {
        let has = |status: &SeiNodeDeploymentStatus| condition::has_reason(&status.conditions, reason);
        if has(after) && !has(before) {
            let name = condition::Reason::as_str(reason);
            events.push(warning(name, message_of::<SpecApplied>(after)));
        }
    }
    events
}

fn exists(node: &NodeSummary) -> bool {
    !matches!(node.state, None | Some(FleetNodeState::Missing | FleetNodeState::NameConflict))
}

fn message_of<R: condition::Reason>(status: &SeiNodeDeploymentStatus) -> String {
    condition::find::<R>(&status.conditions).map(|found| found.message.clone()).unwrap_or_default()
}

fn normal(reason: &'static str, action: &'static str, message: String) -> EventRecord {
    EventRecord { event_type: EventType::Normal, reason: reason.into(), action, message }
}

fn warning(reason: &'static str, message: String) -> EventRecord {
    EventRecord { event_type: EventType::Warning, reason: reason.into(), action: "Rollout", message }
}
