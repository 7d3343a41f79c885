//! Revisions: what is one, how many are kept, and how to return to one.

use api::condition::SpecApplied;
use api::names::annotation;
use serde_json::json;

use super::cluster::{BETTER, Cluster, GOOD};

#[test]
fn scaling_pausing_and_strategy_are_no_revision() {
    let mut cluster = Cluster::available(2, json!(1));
    cluster.edit(|fleet| fleet.spec.replicas = 3);
    cluster.edit(|fleet| fleet.spec.paused = true);
    cluster.edit(|fleet| fleet.spec.min_ready_seconds = 5);
    cluster.edit(|fleet| fleet.spec.template.spec.paused = true);
    cluster.converge();
    assert_eq!(cluster.revisions.len(), 1);
    assert!(cluster.updates.is_empty());
}

/// A newer operator has more fields with defaults. Its revisions must equal those of the previous one.
#[test]
fn stored_revision_without_a_defaulted_field_is_the_same() {
    let mut cluster = Cluster::available(2, json!(1));
    cluster.edit(|fleet| fleet.spec.template.spec.sidecar = Some(api::sei_node::SidecarConfig::default()));
    cluster.converge();
    assert_eq!(cluster.revisions.len(), 2);
    cluster.updates.clear();
    for revision in cluster.revisions.values_mut() {
        let data = &mut revision.data.as_mut().unwrap().0;
        if let Some(sidecar) = data["template"]["spec"]["sidecar"].as_object_mut() {
            assert!(sidecar.remove("port").is_some());
        }
    }
    let before = cluster.nodes.clone();
    cluster.converge();
    assert_eq!((cluster.revisions.len(), &cluster.nodes), (2, &before));
}

#[test]
fn ten_unused_revisions_are_kept() {
    let mut cluster = Cluster::available(1, json!(1));
    for version in 0..15 {
        cluster.edit_image(&format!("images.example/sei:{version}"));
        cluster.converge();
    }
    assert_eq!(cluster.revisions.len(), 11);
    let numbers: Vec<i64> = {
        let mut numbers: Vec<i64> = cluster.revisions.values().map(|revision| revision.revision).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers, (6..=16).collect::<Vec<i64>>());
}

#[test]
fn annotation_keeps_an_older_revision_until_it_is_removed() {
    let mut cluster = Cluster::available(3, json!(1));
    let first = cluster.status().current_revision.unwrap();
    cluster.edit_image(BETTER);
    cluster.converge();
    cluster.annotate(annotation::ROLLBACK_TO, &format!("f-{first}"));
    cluster.converge();
    assert_eq!((cluster.with_image(GOOD).len(), cluster.most_unavailable), (3, 1));
    assert!(cluster.message_of(SpecApplied::RolledBack).contains(&first));
    assert_eq!(cluster.status().update_revision, Some(first));
    cluster.fleet.metadata.annotations = None;
    cluster.converge();
    assert_eq!(cluster.with_image(BETTER).len(), 3);
}

#[test]
fn unknown_revision_is_reported_and_changes_nothing() {
    let mut cluster = Cluster::available(2, json!(1));
    let before = cluster.nodes.clone();
    cluster.annotate(annotation::ROLLBACK_TO, "f-0000000000");
    cluster.converge();
    assert_eq!(cluster.nodes, before);
    assert!(cluster.message_of(SpecApplied::SpecInvalid).contains("f-0000000000 does not exist"));
}
