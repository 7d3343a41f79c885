//! The models that are checked: what may happen in each, and which states it must reach.

use super::Role::{FullNode, Validator, ValidatorOfAnotherChain};
use super::event::{Edit, Event};
use super::properties::{
    ANSWER_PENDING_AT_DEADLINE, CLAIM_BLOCKS_UPDATE, FAILED_AFTER_UNKNOWN_RELEASE, GRANTED_AFTER_QUEUED,
    PAUSED_AT_DEADLINE, PAUSED_WITH_EDIT, PLAN_EXECUTED, ROLLBACK_COMPLETED, SEID_RUNS_WITHOUT_ISSUER,
    TWO_UPDATED, VOLUME_REPLACED,
};
use super::{ReconcileFaults, Scope, Steps, check, check_in_depth};

const EDITS: &[Edit] = &[Edit::Image(1), Edit::Image(2), Edit::Tls(true), Edit::Tls(false), Edit::Both];

const FAULTS: &[Event] =
    &[Event::PodDeleted, Event::ObjectsDeleted, Event::SidecarRestarted, Event::RetriedTasksFail];

/// One node, two edits and two faults.
const NEW: Scope = Scope {
    nodes: &[FullNode],
    disruptions: 1,
    is_running: false,
    steps: Steps::Single,
    edits: (2, EDITS),
    pauses: 0,
    platform_changes: 0,
    faults: (2, FAULTS),
    reconcile_faults: ReconcileFaults::Any,
    examples: &[PLAN_EXECUTED],
};

const RUNNING: Scope = Scope { is_running: true, ..NEW };

/// A running node whose components work one after the other: more can happen to it.
const DEEP: Scope = Scope { steps: Steps::Components, reconcile_faults: ReconcileFaults::Never, ..RUNNING };

#[test]
fn new_node_converges_whatever_happens() {
    check("a new node", NEW);
}

#[test]
fn running_node_converges_whatever_happens() {
    check("a running node", RUNNING);
}

/// With one edit and one fault `make model` checks every state.
#[test]
fn node_converges_whatever_happens_once() {
    let once = Scope { edits: (1, EDITS), faults: (1, FAULTS), ..NEW };
    check("a new node, one edit, one fault", once);
    check("a running node, one edit, one fault", Scope { is_running: true, ..once });
}

#[test]
fn two_running_nodes_converge_whatever_happens() {
    check("two running nodes", Scope { nodes: &[FullNode, FullNode], faults: (1, FAULTS), ..RUNNING });
}

#[test]
fn failed_update_is_rolled_back_whatever_happens() {
    let small = Scope {
        edits: (1, &[Edit::Image(1)]),
        faults: (1, &[Event::TasksFail, Event::DeadlinePasses]),
        examples: &[ROLLBACK_COMPLETED],
        ..DEEP
    };
    let full = Scope {
        edits: (2, &[Edit::Image(1), Edit::Image(2), Edit::Tls(true)]),
        pauses: 1,
        faults: (2, &[Event::TasksFail, Event::SidecarHangs, Event::DeadlinePasses, Event::PodDeleted]),
        ..small
    };
    check_in_depth("failed updates", small, full);
}

/// An operator that is killed has submitted mark-ready, perhaps, and the sidecar cannot be asked afterwards.
#[test]
fn update_that_may_have_run_is_not_undone_whatever_happens() {
    let small = Scope {
        edits: (1, &[Edit::Image(1)]),
        faults: (3, &[Event::SidecarHangs, Event::DeadlinePasses]),
        reconcile_faults: ReconcileFaults::KilledAfterRelease,
        examples: &[ROLLBACK_COMPLETED, FAILED_AFTER_UNKNOWN_RELEASE],
        ..DEEP
    };
    let full = Scope {
        edits: (2, &[Edit::Image(1), Edit::Both]),
        faults: (3, &[Event::SidecarHangs, Event::DeadlinePasses, Event::TasksFail]),
        ..small
    };
    check_in_depth("killed operators", small, full);
}

/// An update waits for its certificate, and the node must run with what it has.
#[test]
fn waiting_update_does_not_hold_seid_back_whatever_happens() {
    let small = Scope {
        steps: Steps::All,
        edits: (1, &[Edit::Tls(true)]),
        faults: (3, &[Event::IssuerStops, Event::SidecarRestarted, Event::MinutesPass]),
        examples: &[SEID_RUNS_WITHOUT_ISSUER],
        ..DEEP
    };
    let full = Scope {
        steps: Steps::Components,
        edits: (2, &[Edit::Tls(true), Edit::Tls(false), Edit::Both, Edit::Image(1)]),
        pauses: 1,
        faults: (3, &[Event::IssuerStops, Event::SidecarRestarted, Event::PodDeleted, Event::DeadlinePasses]),
        ..small
    };
    check_in_depth("a stopped issuer", small, full);
}

#[test]
fn paused_node_is_left_alone_whatever_happens() {
    let small = Scope {
        steps: Steps::All,
        edits: (1, &[Edit::Image(1)]),
        pauses: 1,
        faults: (1, &[Event::DeadlinePasses]),
        examples: &[PAUSED_WITH_EDIT, PAUSED_AT_DEADLINE],
        ..DEEP
    };
    let full = Scope {
        steps: Steps::Components,
        edits: (1, &[Edit::Image(1), Edit::Tls(true)]),
        pauses: 2,
        faults: (2, &[Event::DeadlinePasses, Event::TasksFail, Event::ObjectsDeleted, Event::SidecarHangs]),
        ..small
    };
    check_in_depth("a paused node", small, full);
}

#[test]
fn pending_answer_is_awaited_whatever_happens() {
    let small = Scope {
        steps: Steps::All,
        edits: (1, &[Edit::Image(1)]),
        faults: (2, &[Event::AnswersPend, Event::DeadlinePasses]),
        examples: &[ANSWER_PENDING_AT_DEADLINE],
        ..DEEP
    };
    let full = Scope {
        steps: Steps::Components,
        is_running: false,
        edits: (1, &[Edit::Tls(true)]),
        pauses: 1,
        ..small
    };
    check_in_depth("pending answers", small, full);
}

#[test]
fn platform_change_is_paced_whatever_happens() {
    let small = Scope {
        nodes: &[FullNode, FullNode],
        edits: (0, &[]),
        platform_changes: 1,
        faults: (0, &[]),
        examples: &[GRANTED_AFTER_QUEUED],
        ..DEEP
    };
    let full = Scope {
        edits: (1, &[Edit::Image(1)]),
        pauses: 1,
        platform_changes: 2,
        faults: (1, &[Event::TasksFail, Event::PodDeleted]),
        ..small
    };
    check_in_depth("a changed platform", small, full);
    let with_validator = |scope| Scope { nodes: &[FullNode, Validator], ..scope };
    check_in_depth("a changed platform and a validator", with_validator(small), with_validator(full));
}

/// More than one node may be updated at a time, but no two validators, and no two nodes of a chain.
#[test]
fn validators_are_updated_last_and_one_at_a_time() {
    let small = Scope {
        nodes: &[FullNode, Validator, ValidatorOfAnotherChain],
        disruptions: 2,
        steps: Steps::All,
        edits: (0, &[]),
        platform_changes: 1,
        faults: (0, &[]),
        examples: &[GRANTED_AFTER_QUEUED, TWO_UPDATED],
        ..DEEP
    };
    let full = Scope {
        pauses: 1,
        platform_changes: 2,
        faults: (1, &[Event::TasksFail, Event::PodDeleted]),
        ..small
    };
    check_in_depth("a changed platform and two validators", small, full);
}

#[test]
fn pod_keeps_its_claim_whatever_happens() {
    let small = Scope {
        steps: Steps::All,
        edits: (1, &[Edit::Image(1)]),
        faults: (2, &[Event::ClaimDeleted, Event::PodDeleted]),
        examples: &[CLAIM_BLOCKS_UPDATE, VOLUME_REPLACED],
        ..DEEP
    };
    let full = Scope {
        steps: Steps::Components,
        edits: (1, &[Edit::Image(1), Edit::Tls(true)]),
        pauses: 1,
        faults: (2, &[Event::ClaimDeleted, Event::PodDeleted, Event::TasksFail, Event::DeadlinePasses]),
        ..small
    };
    check_in_depth("deleted claims", small, full);
}
