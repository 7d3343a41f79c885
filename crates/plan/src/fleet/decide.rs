//! The decision about a fleet: a pure function of the desired state, the stored status, the observed state and the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::fleet::{
    DeletionPolicy, FleetNodeState, NodeSummary, NodeTemplate, SeiNodeDeploymentStatus, UpdateStrategyType,
};
use api::names::{annotation, finalizer, label, object};
use api::{SeiNode, SeiNodeDeployment, drift};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::availability::{self, Member, Viewpoint};
use super::child::{self, Ownership};
use super::observed::Observed;
use super::quorum::{Power, Verdict};
use super::revision::{self, History, Revision};
use super::rollout::{self, Limits, Rollout};
use super::{conditions, services, status};
use crate::node::NodeKind;

/// How often a fleet in steady state is reconciled, in case an event was missed.
const RESYNC: Duration = Duration::from_secs(30);

/// One action of the operator.
#[derive(Clone, Debug)]
pub enum Action {
    /// Create a node. It must not exist yet.
    CreateNode(Box<SeiNode>),
    /// Apply a node (server-side apply of the fields it names), if it is still as observed.
    UpdateNode(Box<SeiNode>, Arc<SeiNode>),
    /// Set labels and annotations of a node that already has the spec of its revision, and make the fleet its controller.
    AdoptNode(Box<SeiNode>, Arc<SeiNode>),
    /// Delete a node, with its uid as a precondition.
    DeleteNode(Arc<SeiNode>),
    /// Remove the fleet from the owners of a node, which outlives it.
    ReleaseNode(Arc<SeiNode>),
    /// Create a revision. It must not exist yet.
    CreateRevision(Box<ControllerRevision>),
    /// Change the number of a revision that has become the newest one again.
    RenumberRevision(Box<ControllerRevision>, Arc<ControllerRevision>),
    /// Delete a revision that no node has.
    DeleteRevision(Arc<ControllerRevision>),
    /// Apply a Service.
    ApplyService(Box<Service>, Option<Arc<Service>>),
    /// Delete a Service.
    DeleteService(Arc<Service>),
    /// Remove the finalizer of the upstream controller from the fleet.
    RemoveFinalizer,
}

/// What to do about a fleet, and which status to store.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The status to store.
    pub status: SeiNodeDeploymentStatus,
    /// The actions to execute now.
    pub actions: Vec<Action>,
    /// When to requeue the fleet, if nothing happens before.
    pub requeue_after: Option<Duration>,
}

/// What the conditions report besides the members.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) rollout: Rollout,
    /// The revision that an annotation keeps, if it is not that of the spec.
    pub(super) rolled_back_to: Option<String>,
    /// An annotation names a revision that does not exist.
    pub(super) unknown_revision: Option<String>,
    /// Nodes that are not removed, because they sign.
    pub(super) held_removals: Vec<String>,
    /// Fields of the spec that have no effect, with the reason.
    pub(super) unapplied: Vec<String>,
    /// The rollout is paused.
    pub(super) is_paused: bool,
}

/// Decides about a fleet. `fleet` is the stored object; `status` is the newest status.
#[must_use]
pub fn decide(
    fleet: &SeiNodeDeployment,
    status: SeiNodeDeploymentStatus,
    observed: &Observed,
    now: &Time,
) -> Decision {
    let mut decision = Decision { status, requeue_after: Some(RESYNC), ..Decision::default() };
    decision.status.observed_generation = fleet.metadata.generation;
    let decider = Decider { fleet, observed, now };
    if fleet.metadata.deletion_timestamp.is_some() {
        decider.delete(&mut decision);
    } else {
        decider.reconcile(&mut decision);
    }
    decision
}

#[derive(Clone, Copy)]
struct Decider<'a> {
    fleet: &'a SeiNodeDeployment,
    observed: &'a Observed,
    now: &'a Time,
}

impl<'a> Decider<'a> {
    /// Lets a fleet go that is being deleted. Garbage collection deletes the nodes that have it as their owner.
    fn delete(self, decision: &mut Decision) {
        self.release_nodes(decision);
        // Garbage collection of the background waits for the finalizer.
        if decision.actions.is_empty() && self.has_finalizer() {
            decision.actions.push(Action::RemoveFinalizer);
        }
        decision.requeue_after = None;
        conditions::write_deletion(self.fleet, &mut decision.status, self.now);
    }

    /// Removes the fleet from the owners of nodes that outlive it. In place before it is deleted: garbage collection waits for no
    /// operator.
    fn release_nodes(self, decision: &mut Decision) {
        if self.fleet.spec.deletion_policy == DeletionPolicy::Retain {
            let owned = self.observed.nodes.iter().filter(|node| self.has_as_owner(node));
            decision.actions.extend(owned.cloned().map(Action::ReleaseNode));
        }
    }

    fn reconcile(self, decision: &mut Decision) {
        self.release_nodes(decision);
        let history = History::read(self.fleet, self.observed);
        let mut findings = Findings { is_paused: self.is_rollout_paused(), ..Findings::default() };
        let Some(target) = self.target(&history, decision, &mut findings) else {
            // The revision is created first, so that every label of a node names a stored one.
            return self.finish(decision, &[], "", &findings);
        };
        self.apply_services(decision);
        let members = self.members(&target, &decision.status);
        if self.is_writable(&members, &mut findings) {
            self.remove_excess(&members, decision, &mut findings);
            self.create_missing(&members, &history, &target, decision);
            let adopted = self.adopt(&members, &target, decision);
            self.roll_out(&members, &adopted, &target, decision, &mut findings);
            self.apply_metadata(&members, &adopted, &history, decision, &findings.rollout.write);
        }
        let used: BTreeSet<&str> = members
            .iter()
            .filter_map(|member| member.revision.as_deref())
            .chain([target.hash.as_str()])
            .chain(decision.status.current_revision.as_deref())
            .collect();
        decision.actions.extend(history.obsolete(&used).into_iter().map(Action::DeleteRevision));
        self.finish(decision, &members, &target.hash, &findings);
    }

    fn finish(self, decision: &mut Decision, members: &[Member<'_>], target: &str, findings: &Findings) {
        status::write(self.fleet, &mut decision.status, members, target, self.now);
        conditions::write(self.fleet, &mut decision.status, self.observed, members, findings, self.now);
        let changes_at =
            members.iter().filter_map(|member| member.changes_at.as_ref()).map(|time| time.0).min();
        let left = changes_at.and_then(|time| Duration::try_from(time.duration_since(self.now.0)).ok());
        if let Some(left) = left.filter(|left| *left < RESYNC) {
            decision.requeue_after = Some(left);
        }
    }

    /// Returns the revision that nodes should have; nothing if it is only created now.
    fn target(self, history: &History, decision: &mut Decision, findings: &mut Findings) -> Option<Revision> {
        let template = &self.fleet.spec.template;
        if let Some(name) = self.annotation(annotation::ROLLBACK_TO) {
            match history.find(self.fleet, name) {
                Some(revision) => {
                    if revision.template != revision::canonical(template.clone()) {
                        findings.rolled_back_to = Some(revision.hash.clone());
                    }
                    return Some(revision.clone());
                }
                None => findings.unknown_revision = Some(name.to_owned()),
            }
        }
        if let Some(revision) = history.of_template(template) {
            self.renumber(revision, history, decision);
            return Some(revision.clone());
        }
        let mut collisions = decision.status.collision_count.unwrap_or(0);
        while history.find(self.fleet, &revision::revision_hash(template, collisions)).is_some() {
            collisions += 1;
        }
        if collisions > 0 {
            decision.status.collision_count = Some(collisions);
        }
        let hash = revision::revision_hash(template, collisions);
        let number = history.next_number();
        let revision = Revision { hash, number, template: revision::canonical(template.clone()) };
        let object = revision::object(self.fleet, &revision);
        decision.actions.push(Action::CreateRevision(Box::new(object)));
        decision.requeue_after = Some(Duration::ZERO);
        None
    }

    /// Gives a revision that is used again the highest number, so that the numbers tell the order of rollouts.
    fn renumber(self, revision: &Revision, history: &History, decision: &mut Decision) {
        let next = history.next_number();
        if revision.number + 1 < next
            && let Some(stored) = self.stored_revision(&revision.hash)
        {
            let renumbered = Revision { number: next, ..revision.clone() };
            let object = revision::object(self.fleet, &renumbered);
            decision.actions.push(Action::RenumberRevision(Box::new(object), stored));
        }
    }

    fn stored_revision(self, hash: &str) -> Option<Arc<ControllerRevision>> {
        let has_hash = |stored: &&Arc<ControllerRevision>| {
            stored.metadata.name.as_deref().is_some_and(|name| name.strip_suffix(hash).is_some())
        };
        self.observed.revisions.iter().find(has_hash).cloned()
    }

    fn members<'b>(self, target: &'b Revision, status: &SeiNodeDeploymentStatus) -> Vec<Member<'b>>
    where
        'a: 'b,
    {
        let by_name: BTreeMap<&str, &SeiNode> = self
            .observed
            .nodes
            .iter()
            .filter_map(|node| Some((node.metadata.name.as_deref()?, &**node)))
            .collect();
        let viewpoint = Viewpoint {
            fleet: self.fleet,
            target: &target.hash,
            active_since: self.observed.active_since.as_ref(),
            now: self.now,
        };
        (0..self.fleet.spec.replicas)
            .map(|ordinal| {
                let name = child::node_name(self.fleet, ordinal);
                let previous = status.nodes.iter().find(|summary| summary.name == name);
                let member = viewpoint.evaluate(ordinal, by_name.get(name.as_str()).copied(), previous);
                let desired = self.render(&target.template, &target.hash, ordinal, self.now);
                let is_modified = member.node.is_some_and(|node| is_modified(node, &desired));
                Member { is_updated: member.is_updated && !is_modified, ..member }
            })
            .collect()
    }

    /// Returns whether nodes may be written at all, and reports fields that have no effect.
    fn is_writable(self, members: &[Member<'_>], findings: &mut Findings) -> bool {
        let spec = &self.fleet.spec;
        if spec.update_strategy.strategy_type == UpdateStrategyType::HardFork {
            findings.is_paused = true;
            findings.unapplied.push(
                "spec.updateStrategy.type: HardFork is not supported, and no node is updated; use InPlace"
                    .into(),
            );
        }
        if spec.networking.is_some() {
            let service = object::external_service(self.fleet.metadata.name.as_deref().unwrap_or_default());
            findings.unapplied.push(format!(
                "spec.networking: HTTPRoutes are not created; create them for Service {service}"
            ));
        }
        // The nodes of a chain that another controller has created are taken over.
        if spec.genesis.is_none() || has_nodes(members) {
            return true;
        }
        if spec.replicas == 2 {
            findings.unapplied.push(
                "spec.replicas: two validators never make the first block, because each waits for two peers; use one, or at \
                 least three"
                    .into(),
            );
        }
        findings.unapplied.push(
            "spec.genesis: new chains are not created; create the chain and its validators as single SeiNodes".into(),
        );
        false
    }

    /// Deletes nodes beyond the desired number, from the highest ordinal. A node that signs is deleted only if the user confirms it,
    /// and the chain can do without it.
    fn remove_excess(self, members: &[Member<'_>], decision: &mut Decision, findings: &mut Findings) {
        let replicas = self.fleet.spec.replicas;
        let mut excess: Vec<(i32, &Arc<SeiNode>)> = self
            .observed
            .nodes
            .iter()
            .filter(|node| self.is_owned(node) && node.metadata.deletion_timestamp.is_none())
            .filter_map(|node| Some((child::ordinal(node)?, node)))
            .filter(|(ordinal, _)| *ordinal >= replicas)
            .collect();
        excess.sort_by_key(|(ordinal, _)| -ordinal);
        let mut power = Power::of(&self.observed.validators, self.observed.total_power);
        for (_, node) in excess {
            if NodeKind::from_spec(&node.spec).is_some_and(NodeKind::can_sign) {
                let own = self.power_of(node);
                let halts = power.zip(own).is_none_or(|(power, own)| power.allows(own) != Verdict::Safe);
                let is_safe = !halts || self.fleet.spec.update_strategy.allow_chain_halt;
                let is_allowed = child::is_annotated(&node.metadata, annotation::ALLOW_REMOVAL);
                if !is_allowed || !is_safe {
                    findings.held_removals.push(node.metadata.name.clone().unwrap_or_default());
                    continue;
                }
                power = power.zip(own).map(|(power, own)| power.without(own)).or(power);
            }
            decision.actions.push(Action::DeleteNode(node.clone()));
        }
        // Nothing else reports a node that is gone from the list.
        let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
        decision.status.nodes.retain(|summary: &NodeSummary| names.contains(summary.name.as_str()));
    }

    fn create_missing(
        self,
        members: &[Member<'_>],
        history: &History,
        target: &Revision,
        decision: &mut Decision,
    ) {
        let has_updated =
            members.iter().any(|member| member.is_updated && member.state == FleetNodeState::Available);
        let is_new = members.iter().all(|member| member.established_at.is_none());
        let is_unlimited = self.fleet.spec.update_strategy.max_unavailable.is_none();
        let current = decision.status.current_revision.as_deref();
        let current = current.and_then(|current| history.find(self.fleet, current));
        for member in members.iter().filter(|member| member.node.is_none()) {
            // A node that was deleted returns as it was: its data may not fit another image.
            let previous = member.revision.as_deref().and_then(|revision| history.find(self.fleet, revision));
            let is_proven = (has_updated || is_new || is_unlimited) && !self.is_rollout_paused();
            let revision = previous.or(if is_proven { None } else { current }).unwrap_or(target);
            let node = self.render(&revision.template, &revision.hash, member.ordinal, self.now);
            decision.actions.push(Action::CreateNode(Box::new(node)));
        }
    }

    /// Takes over nodes that already have the spec of the target, without a restart: those of the upstream controller, and those
    /// that a deleted fleet has left if the user asks for it. Returns their ordinals.
    fn adopt(self, members: &[Member<'_>], target: &Revision, decision: &mut Decision) -> BTreeSet<i32> {
        let mut adopted = BTreeSet::new();
        for member in members {
            let Some(node) = member.node.filter(|node| node.metadata.deletion_timestamp.is_none()) else {
                continue;
            };
            let is_adoptable = match child::ownership(self.fleet, node) {
                Ownership::Owned => availability::applied_at(node).is_none(),
                Ownership::Adoptable => {
                    child::is_annotated(&self.fleet.metadata, annotation::ADOPT_NODES)
                        && child::ordinal(node) == Some(member.ordinal)
                }
                Ownership::Foreign => false,
            };
            let applied_at = availability::applied_at(node).unwrap_or_else(|| self.now.clone());
            let desired = self.render(&target.template, &target.hash, member.ordinal, &applied_at);
            if is_adoptable
                && drift::is_contained(&node.spec, &desired.spec)
                && let Some(observed) = self.observed_node(&member.name)
            {
                decision.actions.push(Action::AdoptNode(Box::new(desired), observed));
                adopted.insert(member.ordinal);
            }
        }
        adopted
    }

    fn roll_out(
        self,
        members: &[Member<'_>],
        adopted: &BTreeSet<i32>,
        target: &Revision,
        decision: &mut Decision,
        findings: &mut Findings,
    ) {
        let members: Vec<Member<'_>> = members
            .iter()
            .cloned()
            .map(|member| Member {
                is_updated: member.is_updated || adopted.contains(&member.ordinal),
                ..member
            })
            .collect();
        let limits = Limits {
            strategy: &self.fleet.spec.update_strategy,
            is_paused: findings.is_paused,
            validators: &self.observed.validators,
            total_power: self.observed.total_power,
        };
        findings.rollout = rollout::next(&members, limits);
        for ordinal in &findings.rollout.write {
            let Some(observed) = self.observed_node(&child::node_name(self.fleet, *ordinal)) else {
                continue;
            };
            let node = self.render(&target.template, &target.hash, *ordinal, self.now);
            decision.actions.push(Action::UpdateNode(Box::new(node), observed));
        }
    }

    /// Applies what is no part of a revision: `paused`, labels and annotations. Each node keeps the revision that it has.
    fn apply_metadata(
        self,
        members: &[Member<'_>],
        adopted: &BTreeSet<i32>,
        history: &History,
        decision: &mut Decision,
        written: &BTreeSet<i32>,
    ) {
        for member in members {
            let is_written = adopted.contains(&member.ordinal) || written.contains(&member.ordinal);
            let is_owned = !matches!(member.state, FleetNodeState::Missing | FleetNodeState::NameConflict);
            let Some(node) = member.node.filter(|_| is_owned && !is_written) else { continue };
            let revision = member.revision.as_deref().and_then(|hash| history.find(self.fleet, hash));
            let (Some(revision), Some(applied_at)) = (revision, availability::applied_at(node)) else {
                continue;
            };
            let desired = self.render(&revision.template, &revision.hash, member.ordinal, &applied_at);
            // A node that others have changed is restored by the rollout: that restarts it.
            if !is_modified(node, &desired)
                && (node.spec.paused != desired.spec.paused || !has_metadata(node, &desired))
                && let Some(observed) = self.observed_node(&member.name)
            {
                decision.actions.push(Action::UpdateNode(Box::new(desired), observed));
            }
        }
    }

    fn render(self, template: &NodeTemplate, revision: &str, ordinal: i32, applied_at: &Time) -> SeiNode {
        child::render(self.fleet, template, revision, ordinal, applied_at)
    }

    fn apply_services(self, decision: &mut Decision) {
        let observed = self.observed;
        let desired = services::internal_service(self.fleet);
        decision.actions.push(Action::ApplyService(Box::new(desired), observed.internal_service.clone()));
        match (&self.fleet.spec.networking, &observed.external_service) {
            (Some(_), live) => {
                let desired = services::external_service(self.fleet);
                decision.actions.push(Action::ApplyService(Box::new(desired), live.clone()));
            }
            (None, Some(live)) => decision.actions.push(Action::DeleteService(live.clone())),
            (None, None) => {}
        }
    }

    fn observed_node(self, name: &str) -> Option<Arc<SeiNode>> {
        let is_named = |node: &&Arc<SeiNode>| node.metadata.name.as_deref() == Some(name);
        self.observed.nodes.iter().find(is_named).cloned()
    }

    fn power_of(self, node: &SeiNode) -> Option<i64> {
        let (name, namespace) = (node.metadata.name.as_deref(), node.metadata.namespace.as_deref());
        let known = self.observed.validators.iter().find(|validator| {
            Some(validator.name.as_str()) == name && Some(validator.namespace.as_str()) == namespace
        });
        known.and_then(|validator| validator.power)
    }

    fn is_owned(self, node: &SeiNode) -> bool {
        child::ownership(self.fleet, node) == Ownership::Owned
    }

    fn has_as_owner(self, node: &SeiNode) -> bool {
        let mut owners = node.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(&owner.uid) == self.fleet.metadata.uid.as_ref())
    }

    fn has_finalizer(self) -> bool {
        self.fleet.metadata.finalizers.iter().flatten().any(|name| name == finalizer::FLEET)
    }

    fn is_rollout_paused(self) -> bool {
        self.fleet.spec.paused || child::is_annotated(&self.fleet.metadata, annotation::ROLLOUT_PAUSED)
    }

    fn annotation(self, name: &str) -> Option<&'a str> {
        self.fleet.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }
}

/// Returns whether a node of the fleet exists.
pub(super) fn has_nodes(members: &[Member<'_>]) -> bool {
    members.iter().any(|member| member.node.is_some() && member.state != FleetNodeState::NameConflict)
}

/// Returns whether others have changed what the fleet set in the spec of a node. Its repair restarts the node, like an update.
fn is_modified(node: &SeiNode, desired: &SeiNode) -> bool {
    let mut desired = desired.spec.clone();
    desired.paused = node.spec.paused;
    !drift::is_contained(&node.spec, &desired)
}

/// Returns whether a node has the labels, annotations and owner that it should have.
fn has_metadata(node: &SeiNode, desired: &SeiNode) -> bool {
    let (live, desired) = (&node.metadata, &desired.metadata);
    let has = |live: &Option<BTreeMap<String, String>>, desired: &Option<BTreeMap<String, String>>| {
        desired.iter().flatten().all(|(name, value)| {
            live.as_ref().and_then(|live| live.get(name)) == Some(value) || name == label::REVISION
        })
    };
    let has_owner = desired
        .owner_references
        .iter()
        .flatten()
        .all(|owner| live.owner_references.iter().flatten().any(|known| known.uid == owner.uid));
    has_owner && has(&live.labels, &desired.labels) && has(&live.annotations, &desired.annotations)
}
