//! Nodes of the upstream controller, of deleted fleets, and of others.

use api::condition::SpecApplied;
use api::fleet::FleetNodeState;
use api::names::{annotation, label};
use serde_json::json;

use super::cluster::{BETTER, Cluster, GOOD};

/// Turns the nodes into those of the upstream controller.
fn upstream(cluster: &mut Cluster) {
    for node in cluster.nodes.values_mut() {
        node.metadata.annotations = None;
        node.metadata.labels.as_mut().unwrap().insert(label::REVISION.into(), "7".into());
        node.spec.pod_labels.insert(label::REVISION.into(), "7".into());
    }
    cluster.revisions.clear();
    cluster.fleet.status = None;
    cluster.updates.clear();
}

#[test]
fn upstream_nodes_are_taken_over_without_a_restart() {
    let mut cluster = Cluster::available(3, json!(1));
    upstream(&mut cluster);
    cluster.converge();
    assert!(cluster.updates.is_empty());
    assert_eq!(cluster.status().updated_replicas, Some(3));
    let generations: Vec<_> = cluster.nodes.values().map(|node| node.metadata.generation).collect();
    assert_eq!(generations, [Some(1); 3], "no spec is written");
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!((cluster.with_image(BETTER).len(), cluster.most_unavailable), (3, 1));
}

#[test]
fn upstream_nodes_that_differ_are_rolled_out() {
    let mut cluster = Cluster::available(3, json!(1));
    upstream(&mut cluster);
    cluster.edit_image(BETTER);
    cluster.converge();
    assert_eq!((cluster.with_image(BETTER).len(), cluster.most_unavailable), (3, 1));
}

#[test]
fn retained_nodes_are_adopted_only_on_request_and_if_equal() {
    let mut cluster = Cluster::available(2, json!(1));
    for node in cluster.nodes.values_mut() {
        node.metadata.owner_references = None;
        node.metadata.annotations.as_mut().unwrap().insert(annotation::FLEET_UID.into(), "another".into());
    }
    cluster.nodes.get_mut("f-1").unwrap().spec.chain_id = "other-1".into();
    cluster.fleet.status = None;
    cluster.revisions.clear();
    let before = cluster.nodes.clone();
    cluster.converge();
    assert_eq!(cluster.nodes, before, "no write without the annotation");
    assert!(cluster.message_of(SpecApplied::NameConflict).contains("f-0, f-1"));
    cluster.annotate(annotation::ADOPT_NODES, "true");
    cluster.converge();
    assert!(cluster.nodes["f-0"].metadata.owner_references.is_some());
    assert_eq!(cluster.nodes["f-1"], before["f-1"], "another chain is never taken over");
    assert_eq!(cluster.state_of("f-1"), Some(FleetNodeState::NameConflict));
    assert!(cluster.updates.is_empty());
}

#[test]
fn foreign_node_is_never_written_and_others_continue() {
    let mut cluster = Cluster::new(3, |_| {});
    let foreign = json!({
        "metadata": { "name": "f-1", "namespace": "sei", "uid": "other", "generation": 1 },
        "spec": { "chainId": "arctic-1", "image": GOOD, "fullNode": {} },
    });
    cluster.nodes.insert("f-1".into(), serde_json::from_value(foreign).unwrap());
    cluster.reconcile();
    let before = cluster.nodes["f-1"].clone();
    cluster.reconcile();
    assert_eq!(cluster.nodes.len(), 3);
    assert_eq!(cluster.nodes["f-1"], before);
    assert!(cluster.message_of(SpecApplied::NameConflict).contains("f-1"));
}
