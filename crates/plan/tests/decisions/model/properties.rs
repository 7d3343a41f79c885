//! The properties of the model. They are judged by what the fake cluster executed and stores, not by what the operator reports.
//!
//! Each fails if the operator
//!
//! | property | does this |
//! |---|---|
//! | at most one pod replacement for each change | tries an update again after its rollback, on the way to convergence |
//! | a task is submitted once for each attempt | submits a task again while it runs |
//! | nodes converge to their spec or the previous one | rolls back to the new spec, or counts paused time |
//! | few nodes are updated for the platform | starts platform updates without a slot, or grants every slot |
//! | one node of a chain is updated for the platform | grants slots in a chain that does not work |
//! | one validator is updated for the platform | grants slots to validators of different chains |
//! | a validator is updated for the platform after the others | grants slots to validators like to other nodes, or before others have noticed the change |
//! | a paused node is left alone | executes the plan of a paused node |
//! | no plan of a paused node fails | executes the plan of a paused node |
//! | deadlines do not run while a node is paused | does not extend deadlines when a node resumes |
//! | a pending answer is awaited | fails a task at its deadline although nothing is known about it |
//! | a pod is not deleted while its claim is being deleted | does not check whether the claim is being deleted |
//! | seid never runs with an update that is undone | rolls back an update whose mark-ready was submitted, or to the new spec, or records mark-ready after its submission |
//! | nodes converge to their spec or the previous one, and seid runs meanwhile | does not interrupt an update that waits for its certificate, or forgets its changes |
//! | conditions never disappear | removes a condition of a paused node |
//!
//! The example of a completed rollback fails if a failed update is never rolled back.

use std::collections::HashSet;

use api::condition::{self, Ready};
use api::sei_node::{PlanKind, PlanPhase, SeiNodeStatus, TaskStatus};
use stateright::Property;

use super::{Nodes, State};
use crate::cluster::Cluster;
use crate::history::Violation;

/// A state that must be reached.
pub(super) type Example = (&'static str, fn(&Nodes, &State) -> bool);

/// Returns all properties, with the examples of a model.
pub(super) fn all(examples: &[Example]) -> Vec<Property<Nodes>> {
    let mut properties = always();
    properties.extend(examples.iter().map(|(name, condition)| Property::sometimes(name, *condition)));
    properties
}

fn always() -> Vec<Property<Nodes>> {
    vec![
        Property::always(
            "at most one pod replacement for each change, and one for its rollback",
            |_, state| every(state, Cluster::has_few_replacements),
        ),
        Property::always("a task is submitted once for each attempt", |_, state| {
            every(state, |cluster| {
                cluster
                    .submissions
                    .iter()
                    .all(|(id, times)| cluster.sidecar.tasks.get(id).is_some_and(|(_, _, run)| times <= run))
            })
        }),
        Property::always(
            "without faults, nodes converge to their spec or the previous one",
            |model, state| model.converges(state).is_ok(),
        ),
        Property::always("few nodes are updated for the platform at a time", |model, state: &State| {
            updated(state).count() <= model.scope.disruptions
        }),
        Property::always("one node of a chain is updated for the platform at a time", |_, state| {
            let mut chains = HashSet::new();
            updated(state).all(|cluster| chains.insert(&cluster.node.spec.chain_id))
        }),
        Property::always("one validator is updated for the platform at a time", |_, state| {
            updated(state).filter(|cluster| cluster.node.spec.validator.is_some()).count() <= 1
        }),
        Property::always(
            "a validator is updated for the platform after the others of its chain",
            |_, state| never(state, Violation::ValidatorNotLast),
        ),
        Property::always("a paused node is left alone", |_, state| never(state, Violation::ActedWhilePaused)),
        Property::always("no plan of a paused node fails", |_, state| {
            never(state, Violation::FailedWhilePaused)
        }),
        Property::always("deadlines do not run while a node is paused", |_, state| {
            never(state, Violation::PausedTimeCounted)
        }),
        Property::always("a pending answer is awaited", |_, state| {
            never(state, Violation::PendingAnswerNotAwaited)
        }),
        Property::always("a pod is not deleted while its claim is being deleted", |_, state| {
            never(state, Violation::PodDeletedWithItsClaim)
        }),
        Property::always("seid never runs with an update that is undone", |_, state| {
            never(state, Violation::FailedUpdateRan)
        }),
        Property::always("conditions never disappear", |_, state| never(state, Violation::ConditionLost)),
    ]
}

/// Returns the nodes that are being updated for a change of the platform.
fn updated(state: &State) -> impl Iterator<Item = &Cluster> {
    state.clusters.iter().filter(|cluster| cluster.is_platform_update_unfinished())
}

fn every(state: &State, holds: impl Fn(&Cluster) -> bool) -> bool {
    state.clusters.iter().all(holds)
}

fn never(state: &State, violation: Violation) -> bool {
    every(state, |cluster| !cluster.history.violations.contains(&violation))
}

fn any(state: &State, holds: impl Fn(&Cluster, &SeiNodeStatus) -> bool) -> bool {
    let holds = |cluster: &Cluster| cluster.node.status.as_ref().is_some_and(|status| holds(cluster, status));
    state.clusters.iter().any(holds)
}

pub(super) const PLAN_EXECUTED: Example = ("a plan is stored and executed", |_, state| {
    any(state, |_, status| {
        let tasks = status.plan.as_ref().map(|plan| plan.tasks.as_slice()).unwrap_or_default();
        tasks.iter().any(|task| task.status == TaskStatus::Complete)
    })
});

pub(super) const ROLLBACK_COMPLETED: Example = ("a rollback completes", |_, state| {
    any(state, |cluster, status| {
        let is_complete = |kind, phase| kind == Some(PlanKind::Rollback) && phase == PlanPhase::Complete;
        cluster.is_rolled_back()
            && cluster.sidecar.ready
            && status.plan.as_ref().is_some_and(|plan| is_complete(plan.kind, plan.phase))
    })
});

pub(super) const FAILED_AFTER_UNKNOWN_RELEASE: Example =
    ("an update fails whose mark-ready was submitted by a killed operator", |_, state| {
        any(state, |cluster, status| {
            let has_failed = status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Failed);
            has_failed && cluster.history.has_unknown_release
        })
    });

pub(super) const GRANTED_AFTER_QUEUED: Example = ("a queued node is updated later", |_, state| {
    any(state, |cluster, status| {
        let phase = status.plan.as_ref().map(|plan| plan.phase);
        cluster.history.was_granted && phase == Some(PlanPhase::Complete)
    })
});

pub(super) const TWO_UPDATED: Example =
    ("two nodes of different chains are updated", |_, state| updated(state).count() == 2);

pub(super) const PAUSED_WITH_EDIT: Example = ("a paused node has an edit", |_, state| {
    any(state, |_, status| condition::has_reason(&status.conditions, Ready::EditPaused))
});

pub(super) const PAUSED_AT_DEADLINE: Example = ("a plan continues after a long pause", |_, state| {
    any(state, |cluster, status| {
        let is_complete = status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Complete);
        cluster.history.has_paused_wait && is_complete
    })
});

pub(super) const ANSWER_PENDING_AT_DEADLINE: Example = ("an answer is pending at a deadline", |_, state| {
    any(state, |cluster, status| {
        let deadline = status.waiting_for.as_ref().map(|waiting| waiting.deadline.0);
        cluster.is_answer_pending
            && deadline.is_some_and(|at| at <= crate::reconcile::time(cluster.minutes).0)
    })
});

pub(super) const CLAIM_BLOCKS_UPDATE: Example =
    ("a claim that is being deleted blocks an update", |_, state| {
        any(state, |cluster, status| {
            let is_waiting =
                status.waiting_for.as_ref().is_some_and(|waiting| waiting.what == "PersistentVolumeClaim");
            is_waiting && cluster.is_claim_terminating() && !cluster.observed.pods.is_empty()
        })
    });

pub(super) const SEID_RUNS_WITHOUT_ISSUER: Example =
    ("seid runs again before an update gets its certificate", |_, state| {
        any(state, |cluster, status| {
            let is_released = |kind, phase| kind == Some(PlanKind::MarkReady) && phase == PlanPhase::Complete;
            cluster.is_issuer_down
                && cluster.sidecar.ready
                && cluster.observed.certificate.is_some()
                && status.plan.as_ref().is_some_and(|plan| is_released(plan.kind, plan.phase))
        })
    });

pub(super) const VOLUME_REPLACED: Example = ("a node is set up again with a new volume", |_, state| {
    any(state, |cluster, status| {
        cluster.history.has_lost_volume
            && cluster.observed.claim.is_some()
            && cluster.sidecar.ready
            && status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Complete)
    })
});
