//! The state of each node in its fleet. It compares a node with its chain, never with a goal that the whole chain may miss: a chain
//! that halts makes no node unavailable, and so restarts nothing.

use std::time::Duration;

use api::condition::{self, ChainSynced, NodeUpdateInProgress, Ready, Reason, SidecarReady, SpecApplied};
use api::fleet::{FleetNodeState, NodeSummary};
use api::names::annotation;
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use api::{SeiNode, SeiNodeDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::child::{self, Ownership};
use crate::node::NodeKind;
use crate::node::deadline;

/// How long a node must not work until it counts as broken. A restart is shorter.
const BROKEN_GRACE: Duration = Duration::from_secs(60);

/// A desired node of a fleet, as it is.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    pub(super) ordinal: i32,
    pub(super) name: String,
    pub(super) node: Option<&'a SeiNode>,
    pub(super) state: FleetNodeState,
    /// Why it is in this state: a reason of a condition, and its message.
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    /// The revision that it has, or had when it was last seen.
    pub(super) revision: Option<String>,
    /// It has the target revision.
    pub(super) is_updated: bool,
    /// It was available once.
    pub(super) established_at: Option<Time>,
    /// It must not be updated.
    pub(super) is_held: bool,
    /// It signs blocks.
    pub(super) can_sign: bool,
    /// When its state changes by the passage of time alone.
    pub(super) changes_at: Option<Time>,
}

impl Member<'_> {
    /// Returns whether the node was available once and is not now.
    pub(super) fn is_disrupted(&self) -> bool {
        self.established_at.is_some() && self.state != FleetNodeState::Available
    }
}

/// What the state of a node depends on besides the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewpoint<'a> {
    pub(super) fleet: &'a SeiNodeDeployment,
    /// The hash of the target revision.
    pub(super) target: &'a str,
    pub(super) active_since: Option<&'a Time>,
    pub(super) now: &'a Time,
}

impl<'a> Viewpoint<'a> {
    /// Evaluates the node with an ordinal. `previous` is what the status says about it.
    pub(super) fn evaluate(
        self,
        ordinal: i32,
        node: Option<&'a SeiNode>,
        previous: Option<&NodeSummary>,
    ) -> Member<'a> {
        let name = child::node_name(self.fleet, ordinal);
        let revision = node
            .and_then(child::revision)
            .map(str::to_owned)
            .or_else(|| previous.and_then(|previous| previous.revision.clone()));
        let mut member = Member {
            ordinal,
            name,
            node,
            state: FleetNodeState::Missing,
            reason: None,
            message: None,
            is_updated: node.is_some() && revision.as_deref() == Some(self.target),
            revision,
            established_at: previous.and_then(|previous| previous.established_at.clone()),
            is_held: node.is_some_and(|node| child::is_annotated(&node.metadata, annotation::HOLD)),
            can_sign: node.is_some_and(can_sign),
            changes_at: None,
        };
        let Some(node) = node else { return member };
        if child::ownership(self.fleet, node) != Ownership::Owned {
            member.state = FleetNodeState::NameConflict;
            return member;
        }
        if node.metadata.deletion_timestamp.is_some() {
            return member;
        }
        self.evaluate_existing(node, previous, &mut member);
        member
    }

    fn evaluate_existing(self, node: &SeiNode, previous: Option<&NodeSummary>, member: &mut Member<'_>) {
        let none = SeiNodeStatus::default();
        let status = node.status.as_ref().unwrap_or(&none);
        if let Some(since) = works_since(node, status) {
            let min_ready =
                Duration::from_secs(u64::try_from(self.fleet.spec.min_ready_seconds).unwrap_or(0));
            let ready_at = deadline::after(since, min_ready);
            if min_ready.is_zero() || ready_at.0 <= self.now.0 {
                member.state = FleetNodeState::Available;
                member.established_at.get_or_insert_with(|| self.now.clone());
                return;
            }
            member.changes_at = Some(ready_at);
            member.reason = Some("MinReadySeconds".into());
        } else {
            let cause = cause(&status.conditions);
            member.reason = cause.map(|cause| cause.reason.clone());
            member.message = cause.map(|cause| cause.message.clone());
        }
        member.state = self.unavailable_state(node, status, previous, member);
    }

    fn unavailable_state(
        self,
        node: &SeiNode,
        status: &SeiNodeStatus,
        previous: Option<&NodeSummary>,
        member: &mut Member<'_>,
    ) -> FleetNodeState {
        let conditions = &status.conditions;
        if was_written_by_fleet(node) && !had_reached(previous, member.revision.as_deref()) {
            if is_refused(conditions) || status.phase == Some(SeiNodePhase::Failed) {
                return FleetNodeState::FailedUpdate;
            }
            let deadline = self.progress_deadline(node);
            if deadline.as_ref().is_some_and(|deadline| deadline.0 <= self.now.0) {
                return FleetNodeState::FailedUpdate;
            }
            member.changes_at = earlier(member.changes_at.take(), deadline);
            if member.established_at.is_some() {
                return FleetNodeState::Updating;
            }
        }
        if member.established_at.is_none() {
            return if status.phase == Some(SeiNodePhase::Failed) {
                FleetNodeState::Broken
            } else {
                FleetNodeState::Starting
            };
        }
        if condition::has_reason(conditions, SidecarReady::Unreachable) {
            return FleetNodeState::Unknown;
        }
        if condition::has_reason(conditions, ChainSynced::CatchingUp) {
            return FleetNodeState::CatchingUp;
        }
        let failing = condition::find::<Ready>(conditions)
            .filter(|ready| ready.status != "True")
            .map(|ready| deadline::after(&ready.last_transition_time, BROKEN_GRACE));
        match failing {
            Some(broken_at) if broken_at.0 > self.now.0 && status.phase != Some(SeiNodePhase::Failed) => {
                member.changes_at = earlier(member.changes_at.take(), Some(broken_at));
                FleetNodeState::Unknown
            }
            _ => FleetNodeState::Broken,
        }
    }

    /// Returns when a node that was updated must be available. The time does not pass while no operator is active.
    fn progress_deadline(self, node: &SeiNode) -> Option<Time> {
        let applied_at = applied_at(node)?;
        let since = self.active_since.filter(|active| active.0 > applied_at.0).unwrap_or(&applied_at);
        let limit = u64::try_from(self.fleet.spec.progress_deadline_seconds).unwrap_or(0);
        Some(deadline::after(since, Duration::from_secs(limit)))
    }
}

/// Returns when a node got its revision.
pub(super) fn applied_at(node: &SeiNode) -> Option<Time> {
    let text = node.metadata.annotations.as_ref()?.get(annotation::REVISION_APPLIED_AT)?;
    text.parse().ok().map(Time)
}

/// Returns since when a node runs what its spec asks for, and follows its chain.
fn works_since<'a>(node: &SeiNode, status: &'a SeiNodeStatus) -> Option<&'a Time> {
    let generation = node.metadata.generation;
    let is_applied = status.reconciled_generation == generation || status.adopted;
    let ready = condition::find::<Ready>(&status.conditions).filter(|ready| ready.status == "True")?;
    let is_current = status.observed_generation == generation && ready.observed_generation == generation;
    let chain = condition::find::<ChainSynced>(&status.conditions);
    let is_synced = chain.is_none_or(|chain| chain.status != "False");
    let is_updating = condition::is_true::<NodeUpdateInProgress>(&status.conditions);
    if status.phase != Some(SeiNodePhase::Running) || !is_applied || !is_current || !is_synced || is_updating
    {
        return None;
    }
    let chain = chain.filter(|chain| chain.status == "True").map(|chain| &chain.last_transition_time);
    let ready = &ready.last_transition_time;
    Some(chain.filter(|chain| chain.0 > ready.0).unwrap_or(ready))
}

/// Returns the condition that explains why a node does not work.
fn cause(conditions: &[Condition]) -> Option<&Condition> {
    fn failing<R: Reason>(conditions: &[Condition]) -> Option<&Condition> {
        condition::find::<R>(conditions).filter(|found| found.status == "False")
    }
    failing::<SpecApplied>(conditions)
        .filter(|_| is_refused(conditions))
        .or_else(|| failing::<ChainSynced>(conditions))
        .or_else(|| failing::<Ready>(conditions))
        .or_else(|| {
            condition::find::<NodeUpdateInProgress>(conditions).filter(|found| found.status == "True")
        })
}

/// Returns whether the node will not run its spec without another edit.
fn is_refused(conditions: &[Condition]) -> bool {
    [SpecApplied::SpecInvalid, SpecApplied::UpdateRolledBack, SpecApplied::ReferenceRefused]
        .into_iter()
        .any(|reason| condition::has_reason(conditions, reason))
}

/// Returns whether the fleet has written the node. Nodes of the upstream controller have no time of their revision.
fn was_written_by_fleet(node: &SeiNode) -> bool {
    applied_at(node).is_some()
}

/// Returns whether the node was available with its revision before.
fn had_reached(previous: Option<&NodeSummary>, revision: Option<&str>) -> bool {
    previous.filter(|previous| previous.revision.as_deref() == revision).is_some_and(|previous| {
        matches!(
            previous.state,
            Some(
                FleetNodeState::Available
                    | FleetNodeState::Broken
                    | FleetNodeState::CatchingUp
                    | FleetNodeState::Unknown
            )
        )
    })
}

fn can_sign(node: &SeiNode) -> bool {
    NodeKind::from_spec(&node.spec).is_some_and(NodeKind::can_sign)
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one.0 <= other.0 { one } else { other }),
        (one, other) => one.or(other),
    }
}
