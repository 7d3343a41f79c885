//! Rollouts: how many nodes, which ones, and when they stop.

use std::collections::BTreeMap;

use api::condition::{ChainSynced, RolloutInProgress, SidecarReady, SpecApplied};
use api::fleet::{FleetNodeState, FleetPhase};
use api::names::annotation;
use serde_json::json;

use super::cluster::{BAD, BETTER, Cluster, GOOD, HOLD};

#[test]
fn at_most_max_unavailable_nodes_are_down() {
    for (max, most) in [(json!(1), 1), (json!(3), 3), (json!("25%"), 2), (json!("5%"), 1)] {
        let mut cluster = Cluster::available(10, max.clone());
        cluster.edit_image(BETTER);
        cluster.converge();
        assert_eq!(cluster.with_image(BETTER).len(), 10, "{max}");
        assert_eq!(cluster.most_unavailable, most, "{max}");
        assert!(cluster.updates.values().all(|count| *count == 1), "{:?}", cluster.updates);
        assert_eq!(cluster.message_of(RolloutInProgress::RolloutComplete), "all nodes match the template");
    }
}

#[test]
fn without_a_limit_all_nodes_are_updated_at_once() {
    let mut cluster = Cluster::new(5, |_| {});
    cluster.converge();
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    assert_eq!(cluster.with_image(BETTER).len(), 5);
}

#[test]
fn bad_image_stops_after_one_node_and_the_next_edit_goes_there() {
    let mut cluster = Cluster::available(5, json!(1));
    cluster.edit_image(BAD);
    cluster.converge();
    assert_eq!(cluster.with_image(BAD), ["f-4"], "the canary is the highest ordinal");
    assert_eq!(cluster.state_of("f-4"), Some(FleetNodeState::Updating));
    cluster.pass(1801);
    cluster.converge();
    let message = cluster.message_of(RolloutInProgress::RolloutStalled);
    assert!(message.starts_with("Updated 1/5, Unavailable 1, stalled by f-4: PodFailing"), "{message}");
    assert!(message.contains("ImagePullBackOff"), "{message}");
    assert_eq!(cluster.with_image(BAD), ["f-4"]);
    assert_eq!(cluster.status().phase, Some(FleetPhase::Upgrading));
    let status = cluster.status();
    assert_eq!(status.waiting_for.as_ref().map(|waiting| waiting.target.as_str()), Some("SeiNode/f-4"));
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    assert_eq!(cluster.with_image(BETTER), ["f-4"], "the failed node is first");
    cluster.converge();
    assert_eq!((cluster.with_image(BETTER).len(), cluster.most_unavailable), (5, 1));
}

#[test]
fn several_bad_edits_never_take_down_more_nodes() {
    let mut cluster = Cluster::available(5, json!(1));
    for round in 0..3 {
        cluster.edit_image(BAD);
        cluster.edit(|fleet| {
            fleet.spec.template.spec.overrides = BTreeMap::from([("a.b".into(), round.to_string())]);
        });
        cluster.converge();
        cluster.pass(1801);
        cluster.converge();
        assert_eq!(cluster.with_image(BAD), ["f-4"], "round {round}");
    }
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!((cluster.with_image(BETTER).len(), cluster.most_unavailable), (5, 1));
}

#[test]
fn broken_node_is_fixed_first_and_does_not_release_others() {
    let mut cluster = Cluster::available(5, json!(1));
    cluster.set_ready("f-0", false);
    cluster.pass(61);
    cluster.converge();
    assert_eq!(cluster.state_of("f-0"), Some(FleetNodeState::Broken));
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    assert_eq!(cluster.with_image(BETTER), ["f-0"]);
    cluster.converge();
    assert_eq!((cluster.with_image(BETTER).len(), cluster.most_unavailable), (5, 1));
}

#[test]
fn more_broken_nodes_than_the_budget_are_fixed_one_by_one() {
    let mut cluster = Cluster::available(5, json!(1));
    for node in ["f-0", "f-2", "f-3"] {
        cluster.set_ready(node, false);
    }
    cluster.pass(61);
    cluster.converge();
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    assert_eq!(cluster.with_image(BETTER).len(), 1);
    while cluster.with_image(BETTER).len() < 3 {
        assert!(cluster.with_image(BETTER).iter().all(|name| ["f-0", "f-2", "f-3"].contains(&&**name)));
        cluster.pass(1);
        cluster.run_nodes();
        cluster.reconcile();
    }
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER).len(), 5);
    assert!(cluster.updates.values().all(|count| *count == 1), "{:?}", cluster.updates);
}

#[test]
fn faulty_first_revision_is_replaced_at_once() {
    let mut cluster = Cluster::new(4, |fleet| {
        fleet["spec"]["updateStrategy"] = json!({ "maxUnavailable": 1 });
        fleet["spec"]["template"]["spec"]["image"] = json!(BAD);
    });
    cluster.converge();
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    assert_eq!(cluster.with_image(BETTER).len(), 4);
    cluster.converge();
}

#[test]
fn edit_during_a_rollout_supersedes_it() {
    let mut cluster = Cluster::available(6, json!(2));
    cluster.edit_image(BETTER);
    while cluster.with_image(BETTER).len() < 3 {
        cluster.reconcile();
        cluster.pass(1);
        cluster.run_nodes();
    }
    cluster.edit_image("images.example/sei:v3");
    cluster.converge();
    assert_eq!((cluster.with_image("images.example/sei:v3").len(), cluster.most_unavailable), (6, 2));
    assert!(cluster.updates.values().sum::<usize>() <= 6 + 3, "{:?}", cluster.updates);
}

#[test]
fn reverted_edit_restarts_only_updated_nodes() {
    let mut cluster = Cluster::available(6, json!(1));
    let first = cluster.status().current_revision;
    cluster.edit_image(BETTER);
    while cluster.with_image(BETTER).len() < 2 {
        cluster.reconcile();
        cluster.pass(1);
        cluster.run_nodes();
    }
    cluster.edit_image(GOOD);
    cluster.converge();
    assert_eq!(cluster.with_image(GOOD).len(), 6);
    assert_eq!(cluster.updates, BTreeMap::from([("f-4".into(), 2), ("f-5".into(), 2)]));
    assert_eq!(cluster.status().current_revision, first, "the name of the revision returns");
}

#[test]
fn unreachable_nodes_are_left_alone_and_suspected() {
    let mut cluster = Cluster::available(6, json!(1));
    for node in ["f-0", "f-1"] {
        cluster.set_condition(node, api::condition::Ready::SidecarNotReady, "");
        cluster.set_condition(node, SidecarReady::Unreachable, "no route to host");
    }
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER), [""; 0]);
    cluster.message_of(RolloutInProgress::ProbePathSuspect);
    for node in ["f-0", "f-1"] {
        cluster.set_condition(node, api::condition::Ready::NodeReady, "");
        cluster.set_condition(node, SidecarReady::Ready, "");
    }
    cluster.converge();
    assert_eq!((cluster.with_image(BETTER).len(), cluster.updates.values().sum::<usize>()), (6, 6));
}

#[test]
fn node_that_catches_up_counts_and_is_not_restarted() {
    let mut cluster = Cluster::available(3, json!(1));
    cluster.set_condition("f-1", ChainSynced::CatchingUp, "");
    cluster.set_condition("f-1", api::condition::Ready::ChainNotSynced, "");
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER), [""; 0]);
    assert_eq!(cluster.state_of("f-1"), Some(FleetNodeState::CatchingUp));
    let message = cluster.message_of(RolloutInProgress::TemplateChanged);
    assert!(message.contains("waiting for f-1: CatchingUp"), "{message}");
    cluster.set_condition("f-1", ChainSynced::InSync, "");
    cluster.set_condition("f-1", api::condition::Ready::NodeReady, "");
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER).len(), 3);
}

#[test]
fn paused_rollout_finishes_started_nodes_only() {
    for by_annotation in [true, false] {
        let mut cluster = Cluster::available(4, json!(1));
        cluster.edit_image(BETTER);
        cluster.reconcile();
        cluster.reconcile();
        if by_annotation {
            cluster.annotate(annotation::ROLLOUT_PAUSED, "true");
        } else {
            cluster.edit(|fleet| fleet.spec.paused = true);
        }
        cluster.converge();
        assert_eq!(cluster.with_image(BETTER).len(), 1);
        cluster.message_of(RolloutInProgress::RolloutPaused);
        let paused = cluster.nodes.values().filter(|node| node.spec.paused).count();
        assert_eq!(paused, if by_annotation { 0 } else { 4 });
        if by_annotation {
            cluster.fleet.metadata.annotations = None;
        } else {
            cluster.edit(|fleet| fleet.spec.paused = false);
        }
        cluster.converge();
        assert_eq!(cluster.with_image(BETTER).len(), 4);
        assert!(cluster.nodes.values().all(|node| !node.spec.paused));
    }
}

#[test]
fn node_on_hold_is_skipped_and_named() {
    let mut cluster = Cluster::available(3, json!(1));
    cluster.annotate_node("f-1", HOLD, "true");
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!(cluster.with_image(GOOD), ["f-1"]);
    let message = cluster.message_of(RolloutInProgress::TemplateChanged);
    assert!(message.ends_with("all nodes are updated except f-1, which is on hold"), "{message}");
}

#[test]
fn minimum_ready_time_delays_the_next_node() {
    let mut cluster = Cluster::new(2, |fleet| {
        fleet["spec"]["updateStrategy"] = json!({ "maxUnavailable": 1 });
        fleet["spec"]["minReadySeconds"] = json!(30);
    });
    cluster.converge();
    cluster.pass(30);
    cluster.converge();
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER), ["f-1"]);
    assert_eq!(cluster.state_of("f-1"), Some(FleetNodeState::Updating));
    cluster.pass(30);
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER).len(), 2);
}

#[test]
fn manual_edit_of_a_node_is_restored_within_the_budget() {
    let mut cluster = Cluster::available(3, json!(1));
    for name in ["f-0", "f-1"] {
        let node = cluster.nodes.get_mut(name).unwrap();
        node.spec.image = BETTER.into();
        node.metadata.generation = node.metadata.generation.map(|generation| generation + 1);
        node.metadata.labels.get_or_insert_default().insert("team".into(), "a".into());
    }
    cluster.run_nodes();
    cluster.pass(1);
    cluster.run_nodes();
    cluster.most_unavailable = 0;
    cluster.converge();
    assert_eq!((cluster.with_image(GOOD).len(), cluster.most_unavailable), (3, 1));
    assert_eq!(cluster.nodes["f-0"].metadata.labels.as_ref().unwrap()["team"], "a");
}

#[test]
fn refused_spec_of_a_node_stalls_at_once() {
    let mut cluster = Cluster::available(3, json!(1));
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    cluster.set_condition("f-2", SpecApplied::SpecInvalid, "spec.overrides a.b: unknown field");
    cluster.reconcile();
    let message = cluster.message_of(RolloutInProgress::RolloutStalled);
    assert!(message.contains("f-2: SpecInvalid (spec.overrides a.b: unknown field)"), "{message}");
}
