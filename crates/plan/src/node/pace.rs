//! Paces updates that no edit of a node asks for: changed settings of the operator, and other objects. Without it, one
//! setting would restart every node at once.

use api::SeiNode;
use api::condition::{self, ChainSynced, NodeUpdateInProgress, Ready, SidecarReady, Status};
use api::sei_node::{PlanKind, PlanPhase, SeiNodePhase};

use super::kind::NodeKind;
use super::stored_plan;

/// How many nodes may be updated at the same time for other reasons than their own edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisruptionLimit {
    /// This many nodes.
    Count(usize),
    /// This share of all nodes, rounded down, and at least one.
    Percent(u8),
}

impl DisruptionLimit {
    /// Returns the number of nodes that may be updated at the same time.
    #[must_use]
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count.max(1),
            Self::Percent(percent) => (total.saturating_mul(percent.into()) / 100).max(1),
        }
    }
}

/// What pacing must know about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacedNode {
    chain: String,
    is_validator: bool,
    /// It is set up, and does not work.
    is_unhealthy: bool,
    /// It is being updated, or does not work since its last update.
    is_disrupted: bool,
    /// It waits for its turn.
    is_queued: bool,
}

impl PacedNode {
    /// Reads a node.
    #[must_use]
    pub fn new(node: &SeiNode) -> Self {
        let status = node.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let is_running = status.is_some_and(|status| status.phase == Some(SeiNodePhase::Running));
        // A spec that is not applied says nothing about the running pod.
        let is_unapplied = condition::has_reason(conditions, Ready::SpecNotApplied)
            || condition::has_reason(conditions, Ready::EditPaused);
        let is_behind = condition::find::<ChainSynced>(conditions)
            .is_some_and(|chain| chain.status == Status::False.as_str());
        let works = condition::is_true::<Ready>(conditions)
            || is_unapplied && condition::is_true::<SidecarReady>(conditions) && !is_behind;
        let last_update = status
            .and_then(|status| status.plan.as_ref())
            .filter(|plan| matches!(plan.kind, Some(PlanKind::NodeUpdate | PlanKind::Rollback)))
            // The sidecar rejected it before anything was changed.
            .filter(|plan| plan.phase != PlanPhase::Failed || !stored_plan::is_in_dry_run(plan));
        let is_leaving = node.metadata.deletion_timestamp.is_some();
        Self {
            chain: node.spec.chain_id.clone(),
            is_validator: NodeKind::from_spec(&node.spec).is_some_and(NodeKind::can_sign),
            is_unhealthy: is_running && !works && !is_leaving,
            is_disrupted: is_running
                && (last_update.is_some_and(|plan| plan.phase != PlanPhase::Complete || !works)
                    || status.and_then(stored_plan::unfinished_update).is_some()),
            is_queued: is_running
                && condition::has_reason(conditions, NodeUpdateInProgress::UpdateQueued)
                && !node.spec.paused
                && !is_leaving,
        }
    }

    /// Returns the node after its update was granted, and before its status shows that.
    #[must_use]
    pub fn with_granted_update(self) -> Self {
        Self { is_disrupted: true, is_queued: false, ..self }
    }

    /// Returns whether nothing about the node holds others back.
    #[must_use]
    pub fn works(&self) -> bool {
        !self.is_disrupted && !self.is_unhealthy
    }

    /// Returns whether the node waits for its turn.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.is_queued
    }

    /// Returns whether the node signs blocks.
    #[must_use]
    pub fn is_validator(&self) -> bool {
        self.is_validator
    }

    /// Returns whether the status shows that the node is being updated.
    #[must_use]
    pub fn is_disrupted(&self) -> bool {
        self.is_disrupted
    }
}

/// Why a node is not updated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The position in the queue, from 1.
    pub position: usize,
    /// What the node waits for.
    pub reason: String,
}

/// Decides whether a node may be updated now. `others` are all other nodes; those that are queued and come `ahead` of it
/// determine its position.
///
/// # Errors
/// What the node waits for.
pub fn grant<'a>(
    node: &PacedNode,
    others: impl Iterator<Item = (&'a PacedNode, bool)>,
    limit: DisruptionLimit,
) -> Result<(), Queued> {
    let (mut total, mut disrupted, mut ahead) = (1, 0, 0);
    let (mut is_chain_unhealthy, mut is_validator_disrupted, mut has_others_first) = (false, false, false);
    for (other, is_ahead) in others {
        total += 1;
        disrupted += usize::from(other.is_disrupted);
        let is_same_chain = other.chain == node.chain;
        is_chain_unhealthy |= is_same_chain && (other.is_unhealthy || other.is_disrupted);
        is_validator_disrupted |= other.is_validator && other.is_disrupted;
        has_others_first |= is_same_chain && other.is_queued && !other.is_validator;
        let is_before = (other.is_validator, !is_ahead) < (node.is_validator, true);
        ahead += usize::from(other.is_queued && is_before);
    }
    let limit = limit.of(total);
    let queued = |reason: String| Err(Queued { position: ahead + 1, reason });
    if disrupted >= limit {
        let nodes = if limit == 1 { "one node is".to_owned() } else { format!("{limit} nodes are") };
        return queued(format!("at most {nodes} updated at a time for changes other than edits"));
    }
    // A node that does not work cannot become worse, and the update may fix it.
    if is_chain_unhealthy && !node.is_unhealthy {
        return queued(format!("another node of chain {} is not ready", node.chain));
    }
    if node.is_validator && is_validator_disrupted {
        return queued("validators are updated one at a time".into());
    }
    // A validator that was not queued before may be the first to notice a change that concerns others, too.
    if node.is_validator && !node.is_unhealthy && (has_others_first || !node.is_queued) {
        return queued(format!("validators are updated after the other nodes of chain {}", node.chain));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: DisruptionLimit = DisruptionLimit::Count(1);

    fn node(chain: &str) -> PacedNode {
        PacedNode { chain: chain.into(), ..PacedNode::default() }
    }

    fn reason(node: &PacedNode, others: &[PacedNode], limit: DisruptionLimit) -> Option<String> {
        grant(node, others.iter().map(|other| (other, true)), limit).err().map(|queued| queued.reason)
    }

    #[test]
    fn limit_is_at_least_one() {
        let counts = [DisruptionLimit::Percent(10), DisruptionLimit::Percent(50), DisruptionLimit::Count(3)]
            .map(|limit| [1, 12, 25, 1000].map(|total| limit.of(total)));
        assert_eq!(counts, [[1, 1, 2, 100], [1, 6, 12, 500], [3, 3, 3, 3]]);
    }

    #[test]
    fn at_most_the_limit_is_disrupted() {
        let disrupted = node("b").with_granted_update();
        let others = [disrupted.clone(), node("c"), node("d")];
        assert_eq!(
            reason(&node("a"), &others, ONE).unwrap(),
            "at most one node is updated at a time for changes other than edits"
        );
        assert_eq!(reason(&node("a"), &others, DisruptionLimit::Count(2)), None);
        assert_eq!(reason(&node("a"), &others, DisruptionLimit::Percent(50)), None, "two of four");
        let broken = PacedNode { is_unhealthy: true, ..node("a") };
        assert!(reason(&broken, &others, ONE).is_some(), "also for a node that does not work");
    }

    #[test]
    fn other_nodes_of_the_chain_must_work() {
        let broken = PacedNode { is_unhealthy: true, ..node("a") };
        let others = [broken.clone()];
        assert_eq!(reason(&node("a"), &others, ONE).unwrap(), "another node of chain a is not ready");
        assert_eq!(reason(&node("b"), &others, ONE), None);
        assert_eq!(reason(&broken, &others, ONE), None, "it cannot become worse");
        let updating = [node("a").with_granted_update()];
        assert!(reason(&node("a"), &updating, DisruptionLimit::Count(9)).is_some());
    }

    #[test]
    fn validators_are_last_and_one_at_a_time() {
        let validator = PacedNode { is_validator: true, is_queued: true, ..node("a") };
        let queued = PacedNode { is_queued: true, ..node("a") };
        let last = "validators are updated after the other nodes of chain a";
        assert_eq!(reason(&validator, std::slice::from_ref(&queued), ONE).unwrap(), last);
        assert_eq!(reason(&validator, &[node("a"), validator.clone()], ONE), None);
        let new = PacedNode { is_queued: false, ..validator.clone() };
        assert_eq!(
            reason(&new, &[node("a")], ONE).unwrap(),
            last,
            "others may not have noticed the change yet"
        );
        let other = PacedNode { chain: "b".into(), ..validator.clone() }.with_granted_update();
        let limit = DisruptionLimit::Count(9);
        assert_eq!(
            reason(&validator, std::slice::from_ref(&other), limit).unwrap(),
            "validators are updated one at a time"
        );
        assert_eq!(reason(&node("a"), &[other], limit), None);
    }

    #[test]
    fn position_counts_queued_nodes_ahead() {
        let queued = PacedNode { is_queued: true, ..node("b") };
        let validator = PacedNode { is_validator: true, ..queued.clone() };
        let updating = node("c").with_granted_update();
        let others =
            [(&queued, true), (&queued, false), (&validator, true), (&updating, true), (&queued, true)];
        let position = |node: &PacedNode| grant(node, others.into_iter(), ONE).unwrap_err().position;
        assert_eq!(position(&node("a")), 3);
        assert_eq!(position(&PacedNode { is_validator: true, ..node("a") }), 5, "after all others");
    }

    #[test]
    fn state_follows_from_status() {
        let read = |paused: bool, status: serde_json::Value| {
            let spec = json!({ "chainId": "c", "image": "i", "paused": paused, "validator": {} });
            let node = json!({ "metadata": { "name": "a" }, "spec": spec, "status": status });
            PacedNode::new(&serde_json::from_value(node).unwrap())
        };
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-05-18T10:00:00Z",
            })
        };
        let plan = |phase: &str| json!({ "kind": "NodeUpdate", "phase": phase, "tasks": [] });
        let ready = condition("Ready", "True", "NodeReady");
        let healthy = PacedNode { chain: "c".into(), is_validator: true, ..PacedNode::default() };
        let running = |conditions: serde_json::Value, plan: serde_json::Value| json!({ "phase": "Running", "conditions": conditions, "plan": plan });
        assert_eq!(read(false, running(json!([ready]), plan("Complete"))), healthy);
        assert_eq!(
            read(false, json!({ "phase": "Initializing" })),
            healthy,
            "its setup disrupts no other node"
        );
        let broken = PacedNode { is_unhealthy: true, is_disrupted: true, ..healthy.clone() };
        let sidecar = condition("SidecarReady", "True", "Ready");
        for reason in ["SpecNotApplied", "EditPaused"] {
            let unapplied = condition("Ready", "False", reason);
            let with = |others: serde_json::Value| {
                let mut conditions = vec![unapplied.clone()];
                conditions.extend(others.as_array().unwrap().iter().cloned());
                read(false, running(json!(conditions), plan("Complete")))
            };
            let unknown = condition("ChainSynced", "Unknown", "NotObserved");
            assert_eq!(with(json!([sidecar])), healthy, "an older sidecar");
            assert_eq!(with(json!([sidecar, unknown])), healthy);
            assert_eq!(with(json!([sidecar, condition("ChainSynced", "True", "InSync")])), healthy);
            assert_eq!(with(json!([])), broken, "{reason}: the sidecar has never answered");
            let crashed = condition("SidecarReady", "Unknown", "Unreachable");
            assert_eq!(with(json!([crashed, unknown])), broken, "{reason}");
            let halted = condition("ChainSynced", "False", "Halted");
            assert_eq!(with(json!([sidecar, halted])), broken, "{reason}");
        }
        let failing = condition("Ready", "False", "PodFailing");
        assert_eq!(read(false, running(json!([failing]), plan("Complete"))), broken);
        let disrupted = PacedNode { is_disrupted: true, ..healthy.clone() };
        assert_eq!(read(false, running(json!([ready]), plan("Active"))), disrupted);
        assert_eq!(read(false, running(json!([ready]), plan("Failed"))), disrupted);
        let waiting = condition("NodeUpdateInProgress", "False", "UpdateQueued");
        let queued = PacedNode { is_queued: true, ..healthy.clone() };
        let conditions = json!([ready, waiting]);
        assert_eq!(read(false, running(conditions.clone(), plan("Complete"))), queued);
        assert_eq!(
            read(true, running(conditions, plan("Complete"))),
            healthy,
            "a paused node does not take its turn"
        );
    }
}
