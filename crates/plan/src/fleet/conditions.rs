//! The conditions of a fleet. Each is always present, with a reason and a message that says what to do.

use api::SeiNodeDeployment;
use api::condition::{
    self, Available, GenesisCeremonyComplete, GenesisCeremonyNeeded, NodesReady, Paused, PlanInProgress,
    QuorumSafe, Reason, RolloutInProgress, RouteReady, SpecApplied,
};
use api::fleet::{FleetNodeState, FleetPhase, SeiNodeDeploymentStatus};
use api::sei_node::{SeiNodePhase, WaitingFor};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::availability::{self, Member};
use super::budget;
use super::child;
use super::decide::{Findings, has_nodes};
use super::observed::Observed;
use super::rollout::Wait;
use crate::node::deadline;

/// How many nodes a message names.
const NAMED_NODES: usize = 5;

/// Writes the conditions of a fleet that is being deleted.
pub(super) fn write_deletion(fleet: &SeiNodeDeployment, status: &mut SeiNodeDeploymentStatus, now: &Time) {
    status.phase = Some(FleetPhase::Terminating);
    status.waiting_for = None;
    let generation = fleet.metadata.generation.unwrap_or_default();
    let reason = NodesReady::NodesInitializing;
    condition::set(&mut status.conditions, reason, "the fleet is being deleted", generation, now);
}

/// Writes every condition, and what the fleet waits for.
pub(super) fn write(
    fleet: &SeiNodeDeployment,
    status: &mut SeiNodeDeploymentStatus,
    observed: &Observed,
    members: &[Member<'_>],
    findings: &Findings,
    now: &Time,
) {
    let generation = fleet.metadata.generation.unwrap_or_default();
    let mut writer = Writer { fleet, status, members, findings, generation, now };
    writer.nodes();
    writer.rollout();
    writer.quorum();
    writer.spec(observed);
    writer.genesis();
    writer.set(PlanInProgress::NoPlan, "no plan is needed");
    if fleet.spec.networking.is_none() {
        writer.set(RouteReady::NotPublished, "spec.networking is not set");
    } else {
        writer
            .set(RouteReady::RoutesNotManaged, "the Service of the fleet exists; HTTPRoutes are not created");
    }
    let is_paused = fleet.spec.paused;
    let reason = if is_paused { Paused::Paused } else { Paused::NotPaused };
    let message =
        if is_paused { "spec.paused is true, also for the nodes" } else { "the fleet is reconciled" };
    writer.set(reason, message);
}

struct Writer<'a> {
    fleet: &'a SeiNodeDeployment,
    status: &'a mut SeiNodeDeploymentStatus,
    members: &'a [Member<'a>],
    findings: &'a Findings,
    generation: i64,
    now: &'a Time,
}

impl Writer<'_> {
    fn set(&mut self, reason: impl Reason, message: &str) {
        condition::set(&mut self.status.conditions, reason, message, self.generation, self.now);
    }

    fn nodes(&mut self) {
        let failed = self.names(|member| {
            let phase = member.node.and_then(|node| node.status.as_ref()?.phase);
            phase == Some(SeiNodePhase::Failed)
        });
        let unavailable = self.described(|member| member.state != FleetNodeState::Available);
        let is_ready = self.status.ready_replicas == Some(self.fleet.spec.replicas);
        if !failed.is_empty() {
            self.set(NodesReady::NodesFailed, &format!("failed: {failed}"));
        } else if is_ready {
            self.set(NodesReady::AllNodesReady, "all nodes run");
        } else {
            self.set(NodesReady::NodesInitializing, &format!("not available: {unavailable}"));
        }
        let established = self.members.iter().filter(|member| member.established_at.is_some()).count();
        let disrupted = self.members.iter().filter(|member| member.is_disrupted()).count();
        let limit = budget::max_unavailable(&self.fleet.spec.update_strategy, established);
        if disrupted > limit || (disrupted > 0 && disrupted == established) {
            self.set(Available::TooManyUnavailable, &format!("not available: {unavailable}"));
        } else if established < self.members.len() {
            self.set(Available::NodesNotEstablished, &format!("not available: {unavailable}"));
        } else {
            self.set(
                Available::EnoughNodesAvailable,
                "at most as many nodes as spec.updateStrategy.maxUnavailable allows are unavailable",
            );
        }
    }

    fn rollout(&mut self) {
        self.status.waiting_for = None;
        if self.status.rollout.is_none() {
            let (reason, message) = match self.status.current_revision {
                Some(_) if self.status.update_revision == self.status.current_revision => {
                    (RolloutInProgress::RolloutComplete, "all nodes match the template")
                }
                _ => (RolloutInProgress::NoRollout, "the template has not changed"),
            };
            return self.set(reason, message);
        }
        let updated = self.status.updated_replicas.unwrap_or_default();
        let unavailable = self.status.unavailable_replicas.unwrap_or_default();
        let progress = format!("Updated {updated}/{}, Unavailable {unavailable}", self.fleet.spec.replicas);
        let wait = self
            .findings
            .rollout
            .waits_for
            .clone()
            .or_else(|| self.updating().map(|ordinal| Wait::Canary { canary: ordinal }));
        let (reason, text) = match &wait {
            None => (RolloutInProgress::TemplateChanged, String::new()),
            Some(wait) => self.explain(wait),
        };
        self.status.waiting_for = wait.as_ref().and_then(|wait| self.waiting_for(wait, &text));
        let message = if text.is_empty() { progress } else { format!("{progress}, {text}") };
        self.set(reason, &message);
    }

    /// Returns an updated node that is not available yet.
    fn updating(&self) -> Option<i32> {
        let is_updating =
            |member: &&Member<'_>| member.is_updated && member.state != FleetNodeState::Available;
        self.members.iter().find(is_updating).map(|member| member.ordinal)
    }

    fn explain(&self, wait: &Wait) -> (RolloutInProgress, String) {
        let describe = |ordinal: i32| self.describe(ordinal);
        let changed = RolloutInProgress::TemplateChanged;
        match wait {
            Wait::Paused => (RolloutInProgress::RolloutPaused, "the rollout is paused".into()),
            Wait::Stalled { failed } => {
                (RolloutInProgress::RolloutStalled, format!("stalled by {}", describe(*failed)))
            }
            Wait::Budget { unavailable, limit } => {
                let nodes = if *limit == 1 { "one node may".into() } else { format!("{limit} nodes may") };
                (changed, format!("waiting for {} ({nodes} be unavailable)", describe(*unavailable)))
            }
            Wait::Canary { canary } => (changed, format!("waiting for {}", describe(*canary))),
            Wait::Quorum { next, .. } | Wait::UnknownPower { next } => {
                (changed, format!("{} waits for the voting power of others", self.name(*next)))
            }
            Wait::ProbePath => (
                RolloutInProgress::ProbePathSuspect,
                "more nodes stopped answering than may be unavailable, while their pods are ready".into(),
            ),
            Wait::Unreachable { node } => (changed, format!("waiting for {}", describe(*node))),
            Wait::Held { node } => {
                (changed, format!("all nodes are updated except {}, which is on hold", self.name(*node)))
            }
        }
    }

    fn waiting_for(&self, wait: &Wait, message: &str) -> Option<WaitingFor> {
        let ordinal = match wait {
            Wait::Stalled { failed: ordinal }
            | Wait::Budget { unavailable: ordinal, .. }
            | Wait::Canary { canary: ordinal }
            | Wait::Unreachable { node: ordinal } => *ordinal,
            _ => return None,
        };
        let member = self.members.iter().find(|member| member.ordinal == ordinal)?;
        let summary = self.status.nodes.iter().find(|summary| summary.name == member.name)?;
        let since = summary.since.clone().unwrap_or_else(|| self.now.clone());
        let limit = u64::try_from(self.fleet.spec.progress_deadline_seconds).unwrap_or_default();
        let applied_at = member.node.and_then(availability::applied_at).unwrap_or_else(|| since.clone());
        let until = deadline::after(&applied_at, std::time::Duration::from_secs(limit));
        let waiting = WaitingFor::new("SeiNode", member.name.clone(), since, until);
        Some(WaitingFor { message: Some(message.into()), ..waiting })
    }

    fn quorum(&mut self) {
        let has_validators = self.members.iter().any(|member| member.can_sign);
        if !has_validators {
            return self.set(QuorumSafe::NoValidators, "the fleet has no validators");
        }
        if self.fleet.spec.update_strategy.allow_chain_halt {
            return self.set(
                QuorumSafe::ChainHaltAllowed,
                "spec.updateStrategy.allowChainHalt allows updates that halt the chain",
            );
        }
        match &self.findings.rollout.waits_for {
            Some(Wait::UnknownPower { next }) => {
                let message =
                    format!("the voting power of {} or of another validator is not known", self.name(*next));
                self.set(QuorumSafe::VotingPowerUnknown, &message);
            }
            Some(Wait::Quorum { next, power, own, is_impossible }) => {
                let (reason, problem) = if *is_impossible {
                    (QuorumSafe::QuorumImpossible, "a third or more of it alone".to_owned())
                } else {
                    (QuorumSafe::QuorumHeld, format!("{} of it is down", power.down))
                };
                let message = format!(
                    "{} has voting power {own} of {}, and {problem}: its update would halt the chain",
                    self.name(*next),
                    power.total
                );
                self.set(reason, &message);
            }
            _ => self.set(
                QuorumSafe::QuorumKept,
                "validators are updated only while the others have more than two thirds of the voting power",
            ),
        }
    }

    fn spec(&mut self, observed: &Observed) {
        let findings = self.findings;
        let conflicts = self.names(|member| member.state == FleetNodeState::NameConflict);
        if let Some((object, failure)) = observed.write_failures.iter().next() {
            self.set(SpecApplied::WriteRefused, &format!("{object}: {failure}"));
        } else if !conflicts.is_empty() {
            let message = format!(
                "the names of these SeiNodes are taken by others: {conflicts}; delete them, or annotate the fleet with \
                 outrigger.dev/adopt-nodes=true to take over those with its label"
            );
            self.set(SpecApplied::NameConflict, &message);
        } else if let Some(name) = &findings.unknown_revision {
            let message = format!(
                "annotation outrigger.dev/rollback-to: revision {name} does not exist; see `kubectl get controllerrevisions`"
            );
            self.set(SpecApplied::SpecInvalid, &message);
        } else if !findings.unapplied.is_empty() {
            self.set(SpecApplied::FieldsNotApplied, &findings.unapplied.join("; "));
        } else if !findings.held_removals.is_empty() {
            let message = format!(
                "not removed, because they sign blocks: {}; annotate them with outrigger.dev/allow-removal=true",
                findings.held_removals.join(", ")
            );
            self.set(SpecApplied::ScaleDownHeld, &message);
        } else if let Some(revision) = &findings.rolled_back_to {
            let message = format!(
                "the annotation outrigger.dev/rollback-to keeps the nodes at revision {revision}; remove it to roll out the spec"
            );
            self.set(SpecApplied::RolledBack, &message);
        } else {
            self.set(SpecApplied::AllApplied, "every field takes effect");
        }
    }

    fn genesis(&mut self) {
        if self.fleet.spec.genesis.is_none() {
            self.set(GenesisCeremonyNeeded::GenesisNotRequested, "spec.genesis is not set");
            self.set(GenesisCeremonyComplete::CeremonyNotApplicable, "spec.genesis is not set");
        } else if has_nodes(self.members) {
            self.set(GenesisCeremonyNeeded::GenesisDone, "the nodes of the chain exist");
            self.set(GenesisCeremonyComplete::CeremonyComplete, "the nodes of the chain exist");
        } else {
            self.set(GenesisCeremonyNeeded::GenesisConfigured, "spec.genesis requests a new chain");
            self.set(GenesisCeremonyComplete::CeremonyNotStarted, "see the condition SpecApplied");
        }
    }

    fn name(&self, ordinal: i32) -> String {
        child::node_name(self.fleet, ordinal)
    }

    fn describe(&self, ordinal: i32) -> String {
        let member = self.members.iter().find(|member| member.ordinal == ordinal);
        member.map_or_else(|| self.name(ordinal), describe)
    }

    fn names(&self, filter: impl Fn(&Member<'_>) -> bool) -> String {
        list(self.members.iter().filter(|member| filter(member)).map(|member| member.name.clone()))
    }

    fn described(&self, filter: impl Fn(&Member<'_>) -> bool) -> String {
        list(self.members.iter().filter(|member| filter(member)).map(describe))
    }
}

/// Names a node, with why it is not available.
fn describe(member: &Member<'_>) -> String {
    let reason = member.reason.clone().unwrap_or_else(|| format!("{:?}", member.state));
    match &member.message {
        Some(message) if member.state == FleetNodeState::FailedUpdate => {
            format!("{}: {reason} ({message})", member.name)
        }
        _ => format!("{}: {reason}", member.name),
    }
}

fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let rest = names.len().saturating_sub(NAMED_NODES);
    let named = names.into_iter().take(NAMED_NODES).collect::<Vec<_>>().join(", ");
    if rest == 0 { named } else { format!("{named} and {rest} more") }
}
