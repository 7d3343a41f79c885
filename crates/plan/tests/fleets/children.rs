//! Creation and removal of nodes.

use api::condition::SpecApplied;
use api::fleet::DeletionPolicy;
use api::names::{annotation, finalizer, label};
use serde_json::json;

use super::cluster::{BETTER, Cluster, GOOD, fleet_labels};

#[test]
fn nodes_have_the_template_and_the_labels_of_the_fleet() {
    let mut cluster = Cluster::new(2, |fleet| {
        fleet["spec"]["template"]["metadata"] =
            json!({ "labels": { "team": "a" }, "annotations": { "note": "b" } });
    });
    cluster.converge();
    let node = &cluster.nodes["f-1"];
    let expected = [("sei.io/nodedeployment", "f"), ("sei.io/nodedeployment-ordinal", "1"), ("team", "a")];
    assert_eq!(fleet_labels(node), expected.into());
    assert_eq!(node.metadata.annotations.as_ref().unwrap()["note"], "b");
    let owner = &node.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.uid.as_str(), owner.controller), ("fleet-uid", Some(true)));
    assert_eq!(node.spec.pod_labels["team"], "a");
    assert_eq!(node.spec.pod_labels[label::FLEET], "f");
    assert!(!node.spec.pod_labels.contains_key(label::REVISION), "it would restart pods");
}

#[test]
fn scaling_removes_the_highest_ordinals_and_restarts_nothing() {
    let mut cluster = Cluster::available(3, json!(1));
    cluster.edit(|fleet| fleet.spec.replicas = 5);
    cluster.converge();
    assert_eq!(cluster.nodes.len(), 5);
    cluster.edit(|fleet| fleet.spec.replicas = 2);
    cluster.converge();
    assert_eq!(cluster.nodes.keys().map(String::as_str).collect::<Vec<_>>(), ["f-0", "f-1"]);
    assert_eq!(cluster.status().nodes.len(), 2);
    assert!(cluster.updates.is_empty() && cluster.revisions.len() == 1);
}

#[test]
fn validator_is_removed_only_after_confirmation() {
    let mut cluster = Cluster::validators(&[10; 5], json!({}));
    cluster.edit(|fleet| fleet.spec.replicas = 4);
    cluster.converge();
    assert_eq!(cluster.nodes.len(), 5);
    assert!(cluster.message_of(SpecApplied::ScaleDownHeld).contains("f-4"));
    cluster.annotate_node("f-4", annotation::ALLOW_REMOVAL, "true");
    cluster.converge();
    assert_eq!(cluster.nodes.len(), 4);
    assert_eq!(cluster.message_of(SpecApplied::AllApplied), "every field takes effect");
}

#[test]
fn removal_that_halts_the_chain_is_held() {
    let mut cluster = Cluster::validators(&[10, 10, 10], json!({}));
    cluster.annotate_node("f-2", annotation::ALLOW_REMOVAL, "true");
    cluster.edit(|fleet| fleet.spec.replicas = 2);
    cluster.converge();
    assert_eq!(cluster.nodes.len(), 3);
    cluster.edit(|fleet| fleet.spec.update_strategy.allow_chain_halt = true);
    cluster.converge();
    assert_eq!(cluster.nodes.len(), 2);
}

#[test]
fn deleted_node_returns_with_its_revision() {
    let mut cluster = Cluster::available(4, json!(1));
    cluster.edit_image(BETTER);
    cluster.reconcile();
    cluster.reconcile();
    cluster.annotate(annotation::ROLLOUT_PAUSED, "true");
    cluster.nodes.remove("f-0");
    cluster.converge();
    assert_eq!((cluster.image_of("f-0"), cluster.image_of("f-3")), (GOOD, BETTER));
}

#[test]
fn new_node_in_an_unproven_rollout_gets_the_current_revision() {
    let mut cluster = Cluster::available(3, json!(1));
    cluster.edit_image(super::cluster::BAD);
    cluster.converge();
    cluster.edit(|fleet| fleet.spec.replicas = 4);
    cluster.reconcile();
    assert_eq!(cluster.image_of("f-3"), GOOD);
}

#[test]
fn two_validators_of_a_new_chain_are_refused() {
    let mut cluster = Cluster::new(2, |fleet| {
        let spec = &mut fleet["spec"]["template"]["spec"];
        spec["fullNode"].take();
        spec["validator"] = json!({});
        fleet["spec"]["genesis"] = json!({ "chainId": "arctic-1" });
    });
    cluster.converge();
    assert!(cluster.nodes.is_empty());
    assert!(
        cluster
            .message_of(SpecApplied::FieldsNotApplied)
            .contains("two validators never make the first block")
    );
}

/// Garbage collection of a foreground deletion waits for no operator: the owner is removed before.
#[test]
fn retained_nodes_have_no_owner_and_follow_the_policy() {
    let mut cluster = Cluster::new(2, |fleet| fleet["spec"]["deletionPolicy"] = json!("Retain"));
    cluster.converge();
    let owners = |cluster: &Cluster| {
        cluster
            .nodes
            .values()
            .filter(|node| node.metadata.owner_references.iter().flatten().count() > 0)
            .count()
    };
    assert_eq!((owners(&cluster), cluster.nodes.len()), (0, 2));
    cluster.edit(|fleet| fleet.spec.deletion_policy = DeletionPolicy::Delete);
    cluster.converge();
    assert_eq!(owners(&cluster), 2);
    cluster.edit(|fleet| fleet.spec.deletion_policy = DeletionPolicy::Retain);
    cluster.converge();
    assert_eq!(owners(&cluster), 0);
    assert!(cluster.updates.is_empty() && cluster.revisions.len() == 1);
    cluster.fleet.metadata.finalizers = Some(vec![finalizer::FLEET.into()]);
    cluster.fleet.metadata.deletion_timestamp = Some(cluster.now.clone());
    cluster.converge();
    assert_eq!((cluster.nodes.len(), &cluster.fleet.metadata.finalizers), (2, &None));
}
