//! The size of the data volume: growth, its progress, and what is refused.

use api::sei_node::PlanPhase;
use serde_json::json;

use super::cluster::Cluster;
use super::fixture::{converge, message, node, platform, reason, run_once, running, size, status, validator};
use super::reconcile::{Fault, REFUSAL, reconcile};

/// Returns the size that the claim requests.
fn request(cluster: &Cluster) -> String {
    let spec = cluster.observed.claim.as_ref().unwrap().spec.clone().unwrap();
    spec.resources.unwrap().requests.unwrap()["storage"].0.clone()
}

/// Returns the reason and the message of the condition.
fn storage(cluster: &Cluster) -> (String, String) {
    (reason(cluster, "StorageReady"), message(cluster, "StorageReady"))
}

/// Returns a cluster with a running node whose volume has the default size of 10Gi.
fn bound() -> Cluster {
    let mut cluster = running(node("a"), &platform());
    cluster.bind_claim("10Gi");
    converge(&mut cluster, &platform());
    let expected = "PersistentVolumeClaim data-a requests 10Gi; spec.storage.size is not set";
    assert_eq!(storage(&cluster), ("VolumeSized".into(), expected.into()));
    cluster
}

fn resize(cluster: &mut Cluster, to: &str) {
    cluster.edit(|node| node.spec.storage = Some(size(to)));
    converge(cluster, &platform());
}

#[test]
fn claim_is_created_with_the_size_and_class_of_the_spec() {
    let mut node = node("a");
    node.spec.storage =
        Some(api::sei_node::Storage { storage_class_name: Some("deep".into()), ..size("3Ti") });
    let cluster = running(node, &platform());
    assert_eq!(request(&cluster), "3Ti");
    let claim = cluster.observed.claim.as_ref().unwrap().spec.as_ref().unwrap();
    assert_eq!(claim.storage_class_name.as_deref(), Some("deep"));
    assert_eq!(storage(&cluster).0, "VolumePending");
}

/// The claim of a validator is retained: it has no owner.
#[test]
fn growth_of_a_retained_volume_can_be_withdrawn() {
    let mut cluster = running(validator("a"), &platform());
    cluster.bind_claim("10Gi");
    let owners = cluster.observed.claim.as_ref().unwrap().metadata.owner_references.clone();
    assert_eq!(owners.unwrap_or_default(), []);
    resize(&mut cluster, "20Gi");
    assert_eq!((request(&cluster), storage(&cluster).0), ("20Gi".into(), "Resizing".into()));
    resize(&mut cluster, "15Gi");
    assert_eq!(request(&cluster), "15Gi");
}

#[test]
fn growth_is_applied_in_place_and_reported_until_it_is_complete() {
    let mut cluster = bound();
    let plan = status(&cluster).plan.unwrap().id;
    resize(&mut cluster, "20Gi");
    assert_eq!(request(&cluster), "20Gi");
    let claim = cluster.observed.claim.as_ref().unwrap().spec.as_ref().unwrap();
    assert_eq!(claim.storage_class_name.as_deref(), Some("fast"), "other fields are kept");
    let (reason, message) = storage(&cluster);
    assert_eq!(reason, "Resizing");
    assert!(message.contains("has 10Gi and requests 20Gi"), "{message}");
    assert_eq!(status(&cluster).reconciled_generation, cluster.node.metadata.generation);
    let pending = json!([{ "type": "FileSystemResizePending", "status": "True" }]);
    cluster.set_claim_status(
        json!({ "phase": "Bound", "capacity": { "storage": "10Gi" }, "conditions": pending }),
    );
    converge(&mut cluster, &platform());
    let (reason, message) = storage(&cluster);
    assert_eq!(reason, "FileSystemResizePending");
    assert!(message.contains("`kubectl delete pod a-0`"), "{message}");
    cluster.bind_claim("20Gi");
    converge(&mut cluster, &platform());
    assert_eq!(storage(&cluster).0, "VolumeSized");
    assert_eq!(status(&cluster).plan.unwrap().id, plan, "no plan");
    assert!(cluster.pod_deletions.is_empty(), "no new pod");
    let writes = cluster.writes;
    converge(&mut cluster, &platform());
    assert_eq!(cluster.writes, writes, "writes in steady state");
}

#[test]
fn failed_expansion_is_reported_and_can_be_withdrawn() {
    let mut cluster = bound();
    resize(&mut cluster, "20Gi");
    let error = json!([{ "type": "ControllerResizeError", "status": "True", "message": "quota of the zone exceeded" }]);
    cluster.set_claim_status(
        json!({ "phase": "Bound", "capacity": { "storage": "10Gi" }, "conditions": error }),
    );
    converge(&mut cluster, &platform());
    let (reason, message) = storage(&cluster);
    assert_eq!(reason, "ExpansionFailed");
    assert!(message.ends_with("quota of the zone exceeded"), "{message}");
    resize(&mut cluster, "12Gi");
    assert_eq!(request(&cluster), "12Gi");
    cluster.set_claim_status(json!({
        "phase": "Bound", "capacity": { "storage": "10Gi" },
        "allocatedResourceStatuses": { "storage": "NodeResizeInfeasible" },
    }));
    converge(&mut cluster, &platform());
    let (reason, message) = storage(&cluster);
    assert_eq!(reason, "ExpansionFailed");
    assert!(message.ends_with("the storage driver reports NodeResizeInfeasible"), "{message}");
}

#[test]
fn growth_waits_until_the_claim_is_bound() {
    let mut cluster = running(node("a"), &platform());
    resize(&mut cluster, "20Gi");
    assert_eq!(request(&cluster), "10Gi");
    let (reason, message) = storage(&cluster);
    assert_eq!(reason, "ExpansionPending");
    assert!(message.contains("spec.storage.size is 20Gi"), "{message}");
    assert_ne!(status(&cluster).reconciled_generation, cluster.node.metadata.generation);
    cluster.bind_claim("10Gi");
    converge(&mut cluster, &platform());
    assert_eq!(request(&cluster), "20Gi");
    assert_eq!(status(&cluster).reconciled_generation, cluster.node.metadata.generation);
}

#[test]
fn shrink_is_refused_with_field_size_and_fix() {
    let mut cluster = bound();
    cluster.edit(|node| {
        node.spec.storage = Some(size("5Gi"));
        node.spec.image = "sei:1".into();
    });
    converge(&mut cluster, &platform());
    assert_eq!(request(&cluster), "10Gi");
    assert_eq!(reason(&cluster, "SpecApplied"), "SpecInvalid");
    assert_eq!(
        message(&cluster, "SpecApplied"),
        "spec.storage.size: 5Gi is less than the 10Gi that PersistentVolumeClaim data-a requests, and a volume cannot shrink: set \
         it to at least 10Gi"
    );
    assert_eq!(storage(&cluster).0, "ShrinkRefused");
    assert_ne!(status(&cluster).reconciled_generation, cluster.node.metadata.generation);
    assert!(cluster.pod_deletions.is_empty(), "no plan starts");
    resize(&mut cluster, "10240Mi");
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
    assert_eq!((request(&cluster), storage(&cluster).0), ("10Gi".into(), "VolumeSized".into()));
    assert_eq!(cluster.pod_deletions.values().sum::<u32>(), 1, "the image is applied");
}

/// A StorageClass without expansion: the message of the API server is in the condition, and the size can be set back.
#[test]
fn refused_growth_is_reported_and_retried() {
    let mut cluster = bound();
    cluster.edit(|node| node.spec.storage = Some(size("20Gi")));
    reconcile(&mut cluster, &platform(), Fault::Refused);
    let (reason_now, message_now) = storage(&cluster);
    assert_eq!(reason_now, "ExpansionRefused");
    assert!(
        message_now.contains("spec.storage.size is 20Gi") && message_now.ends_with(REFUSAL),
        "{message_now}"
    );
    assert_eq!(reason(&cluster, "SpecApplied"), "WriteRefused");
    assert_ne!(status(&cluster).reconciled_generation, cluster.node.metadata.generation);
    run_once(&mut cluster, &platform());
    assert_eq!(request(&cluster), "20Gi");
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
}

/// A full volume may be why a plan hangs.
#[test]
fn growth_does_not_wait_for_a_plan() {
    let mut cluster = bound();
    cluster.edit(|node| node.spec.image = "sei:1".into());
    for _ in 0..5 {
        // Without a kubelet, the new pod does not start.
        cluster.run_stateful_set_controller();
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    let plan = status(&cluster).plan.unwrap();
    assert_eq!(plan.phase, PlanPhase::Active);
    cluster.edit(|node| node.spec.storage = Some(size("20Gi")));
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(request(&cluster), "20Gi");
    assert_eq!(status(&cluster).plan.unwrap().id, plan.id, "the plan continues");
}

#[test]
fn paused_node_reports_a_pending_size() {
    let mut cluster = bound();
    cluster.edit(|node| {
        node.spec.paused = true;
        node.spec.storage = Some(size("20Gi"));
    });
    converge(&mut cluster, &platform());
    assert_eq!(request(&cluster), "10Gi");
    let text = message(&cluster, "Paused");
    assert!(text.contains("storage size 20Gi instead of 10Gi"), "{text}");
}

#[test]
fn platform_default_never_resizes_an_existing_claim() {
    let mut cluster = bound();
    let mut larger = platform();
    larger.storage.size = "50Gi".into();
    larger.storage.class = "other".into();
    converge(&mut cluster, &larger);
    assert_eq!((request(&cluster), storage(&cluster).0), ("10Gi".into(), "VolumeSized".into()));
}
