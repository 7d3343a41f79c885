//! Validators: the chain never loses a third of its power by an update.

use api::condition::QuorumSafe;
use serde_json::json;

use super::cluster::{BETTER, Cluster};

#[test]
fn four_equal_validators_are_updated_one_at_a_time() {
    for strategy in [json!({}), json!({ "maxUnavailable": 4 })] {
        let mut cluster = Cluster::validators(&[10; 4], strategy);
        cluster.edit_image(BETTER);
        cluster.converge();
        assert_eq!((cluster.with_image(BETTER).len(), cluster.most_unavailable), (4, 1));
    }
}

#[test]
fn rollout_waits_for_a_validator_that_is_down() {
    let mut cluster = Cluster::validators(&[10; 4], json!({ "maxUnavailable": 4 }));
    cluster.set_ready("f-1", false);
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER), [""; 0]);
    let message = cluster.message_of(QuorumSafe::QuorumHeld);
    assert_eq!(
        message,
        "f-3 has voting power 10 of 40, and 10 of it is down: its update would halt the chain"
    );
    cluster.pass(61);
    cluster.converge();
    assert_eq!(
        cluster.with_image(BETTER).len(),
        4,
        "a broken validator is down anyway, and the update is its cure"
    );
    assert_eq!(cluster.most_unavailable, 1);
}

#[test]
fn validator_with_a_third_is_last_and_needs_permission() {
    let mut cluster = Cluster::validators(&[40, 20, 20, 20], json!({ "maxUnavailable": 1 }));
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER), ["f-1", "f-2", "f-3"]);
    assert!(cluster.message_of(QuorumSafe::QuorumImpossible).starts_with("f-0 has voting power 40 of 100"));
    cluster.edit(|fleet| fleet.spec.update_strategy.allow_chain_halt = true);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER).len(), 4);
}

#[test]
fn unknown_voting_power_holds_the_rollout() {
    let mut cluster = Cluster::validators(&[10; 4], json!({}));
    cluster.powers.remove("f-2");
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER), [""; 0]);
    assert!(cluster.message_of(QuorumSafe::VotingPowerUnknown).contains("f-2"));
    cluster.powers.insert("f-2".into(), 10);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER).len(), 4);
}

#[test]
fn chain_halt_is_possible_on_request() {
    let mut cluster = Cluster::validators(&[10; 4], json!({ "allowChainHalt": true }));
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    assert_eq!(cluster.with_image(BETTER).len(), 4);
}
