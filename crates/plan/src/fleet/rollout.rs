//! Which nodes of a fleet are written with the target revision now, and what the others wait for.

use std::collections::BTreeSet;

use api::fleet::{FleetNodeState, UpdateStrategy};

use super::availability::Member;
use super::budget;
use super::observed::ChainValidator;
use super::quorum::{Power, Verdict};

/// What the rollout does in this reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rollout {
    /// Ordinals of the nodes to write.
    pub(super) write: BTreeSet<i32>,
    /// What the next node waits for, if one does.
    pub(super) waits_for: Option<Wait>,
}

/// What holds a node back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The user paused the rollout.
    Paused,
    /// A node that was updated is not available and will not become so by itself.
    Stalled {
        /// Its ordinal.
        failed: i32,
    },
    /// As many nodes are unavailable as may be.
    Budget {
        /// The ordinal of an unavailable node.
        unavailable: i32,
        /// The number of nodes that may be unavailable.
        limit: usize,
    },
    /// The first updated node has to become available before others are written.
    Canary {
        /// Its ordinal.
        canary: i32,
    },
    /// The chain would halt.
    Quorum {
        /// The ordinal of the next validator.
        next: i32,
        /// The power of the chain, and whether it can ever be updated.
        power: Power,
        /// Its own power.
        own: i64,
        /// Whether it alone has a third of the power.
        is_impossible: bool,
    },
    /// The voting power is not known.
    UnknownPower {
        /// The ordinal of the next validator.
        next: i32,
    },
    /// More nodes stopped answering at once than the rollout may disrupt.
    ProbePath,
    /// Nodes that are behind or do not answer are left alone.
    Unreachable {
        /// The ordinal of one of them.
        node: i32,
    },
    /// Only nodes that the user holds are left.
    Held {
        /// The ordinal of one of them.
        node: i32,
    },
}

/// What a rollout may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'a> {
    pub(super) strategy: &'a UpdateStrategy,
    pub(super) is_paused: bool,
    /// The validators of the chain, and its total power.
    pub(super) validators: &'a [ChainValidator],
    pub(super) total_power: Option<i64>,
}

/// Decides which nodes are written.
pub(super) fn next(members: &[Member<'_>], limits: Limits<'_>) -> Rollout {
    let is_writable = |member: &&Member<'_>| {
        member.node.is_some()
            && !member.is_updated
            && !matches!(member.state, FleetNodeState::NameConflict | FleetNodeState::Missing)
    };
    let outdated: Vec<&Member<'_>> = members.iter().filter(is_writable).collect();
    if outdated.is_empty() {
        return Rollout::default();
    }
    if limits.is_paused {
        return Rollout { waits_for: Some(Wait::Paused), ..Rollout::default() };
    }
    let (held, free): (Vec<&Member<'_>>, Vec<&Member<'_>>) =
        outdated.into_iter().partition(|member| member.is_held);
    Selection::new(members, limits).run(&free, &held)
}

struct Selection<'a> {
    members: &'a [Member<'a>],
    limits: Limits<'a>,
    limit: usize,
    /// Nodes that are unavailable, or are made so in this reconcile.
    disrupted: usize,
    power: Option<Power>,
    write: BTreeSet<i32>,
}

impl<'a> Selection<'a> {
    fn new(members: &'a [Member<'a>], limits: Limits<'a>) -> Self {
        let established = members.iter().filter(|member| member.established_at.is_some()).count();
        Self {
            members,
            limits,
            limit: budget::max_unavailable(limits.strategy, established),
            disrupted: members.iter().filter(|member| member.is_disrupted()).count(),
            power: Power::of(limits.validators, limits.total_power),
            write: BTreeSet::new(),
        }
    }

    fn run(mut self, outdated: &[&Member<'_>], held: &[&Member<'_>]) -> Rollout {
        let unreachable = self.count(|member| {
            member.state == FleetNodeState::Unknown && member.established_at.is_some() && !member.is_updated
        });
        if unreachable > self.limit {
            return Rollout { waits_for: Some(Wait::ProbePath), ..Rollout::default() };
        }
        self.write_unavailable(outdated);
        let waits_for = self.write_available(outdated).or_else(|| self.wait_for_rest(outdated, held));
        Rollout { write: self.write, waits_for }
    }

    /// Writes nodes whose update disrupts nothing: those that were never available, and those that do not work. A broken node must
    /// not block its own fix. Several at once are limited, since what broke them may be outside of them.
    fn write_unavailable(&mut self, outdated: &[&Member<'_>]) {
        let updating = self.count(|member| member.is_updated && member.state == FleetNodeState::Updating);
        let mut left = self.limit.saturating_sub(updating);
        for member in outdated {
            match member.state {
                FleetNodeState::Starting => drop(self.write.insert(member.ordinal)),
                FleetNodeState::Broken if member.established_at.is_none() => {
                    self.write.insert(member.ordinal);
                }
                // Its update to a superseded revision: nobody waits for that.
                FleetNodeState::Updating | FleetNodeState::FailedUpdate => {
                    self.write.insert(member.ordinal);
                    left = left.saturating_sub(1);
                }
                FleetNodeState::Broken if left > 0 => {
                    self.write.insert(member.ordinal);
                    left -= 1;
                }
                _ => {}
            }
        }
    }

    /// Writes available nodes as long as that is safe. Returns what the next one waits for.
    fn write_available(&mut self, outdated: &[&Member<'_>]) -> Option<Wait> {
        let mut candidates: Vec<&Member<'_>> = outdated
            .iter()
            .copied()
            .filter(|member| {
                member.state == FleetNodeState::Available
                    // It does not work, and waits for its turn.
                    || (member.state == FleetNodeState::Broken && !self.write.contains(&member.ordinal))
            })
            .collect();
        candidates.sort_by_key(|member| {
            let is_available = member.state == FleetNodeState::Available;
            (is_available, self.power_of(member).unwrap_or(0), -member.ordinal)
        });
        for member in candidates {
            if let Some(wait) = self.wait_of(member) {
                return Some(wait);
            }
            self.write.insert(member.ordinal);
            self.disrupted += 1;
            if let (Some(power), Some(own)) = (self.power, self.power_of(member)) {
                self.power = Some(power.without(own));
            }
        }
        None
    }

    /// Returns what a node that works waits for.
    fn wait_of(&self, member: &Member<'_>) -> Option<Wait> {
        let failed =
            self.members.iter().find(|other| other.is_updated && other.state == FleetNodeState::FailedUpdate);
        if let Some(failed) = failed {
            return Some(Wait::Stalled { failed: failed.ordinal });
        }
        if self.disrupted >= self.limit {
            let unavailable = self
                .members
                .iter()
                .find(|other| other.is_disrupted())
                .map(|other| other.ordinal)
                .or_else(|| self.write.iter().next_back().copied());
            let unavailable = unavailable.unwrap_or(member.ordinal);
            return Some(Wait::Budget { unavailable, limit: self.limit });
        }
        if let Some(canary) = self.canary() {
            return Some(Wait::Canary { canary });
        }
        self.quorum_wait(member)
    }

    /// Returns the first updated node, as long as it is not available and the number of unavailable nodes is limited.
    fn canary(&self) -> Option<i32> {
        self.limits.strategy.max_unavailable.as_ref()?;
        let has_updated =
            self.members.iter().any(|other| other.is_updated && other.state == FleetNodeState::Available);
        if has_updated {
            return None;
        }
        let updating = self.members.iter().find(|other| {
            other.is_updated && other.established_at.is_some() && other.state == FleetNodeState::Updating
        });
        updating.map(|other| other.ordinal).or_else(|| {
            let is_established = |ordinal: &&i32| {
                let written = self.members.iter().find(|other| other.ordinal == **ordinal);
                written.is_some_and(|written| written.established_at.is_some())
            };
            self.write.iter().find(is_established).copied()
        })
    }

    fn quorum_wait(&self, member: &Member<'_>) -> Option<Wait> {
        if !member.can_sign || self.limits.strategy.allow_chain_halt {
            return None;
        }
        let (Some(power), Some(own)) = (self.power, self.power_of(member)) else {
            return Some(Wait::UnknownPower { next: member.ordinal });
        };
        let is_impossible = match power.allows(own) {
            Verdict::Safe => return None,
            Verdict::Held => false,
            Verdict::Impossible => true,
        };
        Some(Wait::Quorum { next: member.ordinal, power, own, is_impossible })
    }

    /// Returns what nodes wait for that are neither available nor broken, and those that the user holds.
    fn wait_for_rest(&self, outdated: &[&Member<'_>], held: &[&Member<'_>]) -> Option<Wait> {
        let rest = outdated.iter().find(|member| !self.write.contains(&member.ordinal));
        rest.map(|member| Wait::Unreachable { node: member.ordinal })
            .or_else(|| held.first().map(|member| Wait::Held { node: member.ordinal }))
    }

    fn power_of(&self, member: &Member<'_>) -> Option<i64> {
        let namespace = member.node?.metadata.namespace.as_deref().unwrap_or_default();
        let known = self
            .limits
            .validators
            .iter()
            .find(|validator| validator.name == member.name && validator.namespace == namespace);
        known.and_then(|validator| validator.power)
    }

    fn count(&self, filter: impl Fn(&Member<'_>) -> bool) -> usize {
        self.members.iter().filter(|member| filter(member)).count()
    }
}
