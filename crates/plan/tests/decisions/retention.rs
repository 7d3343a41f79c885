//! What happens to the claim of a data volume when its node is deleted and created again.

use std::sync::Arc;

use api::SeiNode;
use api::sei_node::{
    DataDeletionPolicy, DataVolume, FullNodeSpec, PlanKind, S3Snapshot, SeiNodePhase, SnapshotSource,
    ValidatorSpec, VolumeImport,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube_core::{Resource, ResourceExt};
use plan::node::{Candidates, deletion_event};

use super::cluster::Cluster;
use super::fixture::{converge, message, node, platform, reason, running, status, steps};
use super::reconcile::{Fault, reconcile, time};

const RETAINED_BY: &str = "sei.io/retained-by";
const SET_UP: &str = "sei.io/set-up";

fn validator(name: &str) -> SeiNode {
    let mut node = node(name);
    node.spec.full_node = None;
    node.spec.validator = Some(ValidatorSpec::default());
    node
}

fn with_policy(mut node: SeiNode, policy: DataDeletionPolicy) -> SeiNode {
    set_policy(&mut node, Some(policy));
    node
}

fn set_policy(node: &mut SeiNode, policy: Option<DataDeletionPolicy>) {
    node.spec.data_volume = Some(DataVolume { import: None, deletion_policy: policy });
}

fn claim(cluster: &Cluster) -> &PersistentVolumeClaim {
    cluster.observed.claim.as_ref().unwrap()
}

/// Returns whether the claim is deleted with the node, and whether its label says that it is retained.
fn ownership(cluster: &Cluster) -> (bool, bool) {
    let uid = cluster.node.uid();
    let is_owned = claim(cluster).owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref());
    (is_owned, claim(cluster).labels().get(RETAINED_BY) == Some(&cluster.node.name_any()))
}

const DELETED: (bool, bool) = (true, false);
const RETAINED: (bool, bool) = (false, true);

/// Returns a cluster with a new node, and the claim that the node of another cluster has left behind.
fn recreated(node: SeiNode, before: &Cluster) -> Cluster {
    let mut cluster = Cluster::new(node);
    cluster.node.metadata.uid = Some("uid-of-the-next".into());
    cluster.node.metadata.creation_timestamp = Some(time(10));
    let mut left = claim(before).clone();
    left.metadata.creation_timestamp = Some(time(0));
    cluster.observed.claim = Some(Arc::new(left));
    cluster
}

#[test]
fn policy_decides_who_deletes_the_claim() {
    use DataDeletionPolicy::{Delete, Retain};
    for (node, expected) in [
        (node("a"), DELETED),
        (validator("a"), RETAINED),
        (with_policy(node("a"), Retain), RETAINED),
        (with_policy(validator("a"), Delete), DELETED),
    ] {
        let cluster = running(node, &platform());
        assert_eq!(ownership(&cluster), expected, "{:?}", cluster.node.spec);
        assert_eq!(claim(&cluster).labels().contains_key(SET_UP), expected == RETAINED);
    }
}

#[test]
fn edited_policy_is_applied_without_a_plan() {
    use DataDeletionPolicy::{Delete, Retain};
    let mut cluster = running(node("a"), &platform());
    let plan = status(&cluster).plan.unwrap().id;
    for (policy, expected) in [(Some(Retain), RETAINED), (Some(Delete), DELETED), (None, DELETED)] {
        cluster.edit(|node| set_policy(node, policy));
        converge(&mut cluster, &platform());
        assert_eq!(ownership(&cluster), expected);
        assert_eq!(status(&cluster).plan.unwrap().id, plan, "no plan");
        assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    }
    cluster.edit(|node| {
        node.spec.paused = true;
        set_policy(node, Some(Retain));
    });
    converge(&mut cluster, &platform());
    assert_eq!(ownership(&cluster), RETAINED, "a paused node can be deleted, too");
    assert!(cluster.pod_deletions.is_empty());
}

/// The claims of previous versions and of the upstream controller have an owner.
#[test]
fn owned_claim_of_a_validator_becomes_retained() {
    let mut cluster = running(with_policy(validator("a"), DataDeletionPolicy::Delete), &platform());
    let other: OwnerReference = OwnerReference { uid: "other".into(), ..OwnerReference::default() };
    let stored = Arc::make_mut(cluster.observed.claim.as_mut().unwrap());
    stored.metadata.owner_references.as_mut().unwrap().push(other.clone());
    cluster.node.spec.data_volume = None;
    let plan = status(&cluster).plan.unwrap().id;
    converge(&mut cluster, &platform());
    assert_eq!(ownership(&cluster), RETAINED);
    assert_eq!(claim(&cluster).owner_references(), [other], "other owners stay");
    assert_eq!(status(&cluster).plan.unwrap().id, plan, "no plan");
}

#[test]
fn refused_change_of_the_owner_is_reported_and_retried() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| set_policy(node, Some(DataDeletionPolicy::Retain)));
    assert_eq!(reconcile(&mut cluster, &platform(), Fault::Refused), 1, "attempted once");
    assert_eq!(ownership(&cluster), DELETED);
    assert_eq!(reason(&cluster, "SpecApplied"), "WriteRefused");
    assert!(message(&cluster, "SpecApplied").starts_with("PersistentVolumeClaim: "));
    converge(&mut cluster, &platform());
    assert_eq!((ownership(&cluster), reason(&cluster, "Ready").as_str()), (RETAINED, "NodeReady"));
}

/// The finalizer of the upstream controller is what keeps the claim until then.
#[test]
fn claim_of_deleted_validator_loses_owner_before_finalizer() {
    let mut cluster = running(with_policy(validator("a"), DataDeletionPolicy::Delete), &platform());
    cluster.node.spec.data_volume = None;
    cluster.node.metadata.deletion_timestamp = Some(Time(time(1).0));
    cluster.node.metadata.finalizers = Some(vec!["sei.io/seinode-finalizer".into()]);
    let decide = |cluster: &Cluster, observed: &plan::node::Observed| {
        plan::node::decide(&cluster.node, status(cluster), &platform(), observed, &time(1), "p")
    };
    let first = decide(&cluster, &cluster.observed);
    assert_eq!((first.actions.len(), first.remove_finalizer), (1, false));
    let mut refused = cluster.observed.clone();
    let failure = plan::node::WriteFailure::Transient("quota".into());
    refused.write_failures.insert("PersistentVolumeClaim", failure);
    let decision = decide(&cluster, &refused);
    assert!(!decision.remove_finalizer, "the claim would be deleted");
    let reported = |type_: &str| {
        let found = decision.status.conditions.iter().find(|one| one.type_ == type_).unwrap();
        (found.reason.clone(), found.message.clone())
    };
    let message = "PersistentVolumeClaim: quota; the node is deleted after this write";
    assert_eq!(reported("SpecApplied"), ("WriteRefused".into(), message.into()));
    assert_eq!(reported("Ready"), ("Terminating".into(), message.into()));
    cluster.node.status = Some(decision.status);
    let mut observed = cluster.observed.clone();
    cluster.execute(&first.actions[0], &mut observed);
    assert_eq!(ownership(&cluster), RETAINED);
    let second = decide(&cluster, &observed);
    assert_eq!((second.actions.len(), second.remove_finalizer), (0, true));
    let applied = second.status.conditions.iter().find(|one| one.type_ == "SpecApplied").unwrap();
    assert_eq!(applied.reason, "NotEvaluated", "the write is not refused any more");
}

#[test]
fn deleted_node_never_becomes_the_owner_of_its_claim() {
    let mut cluster = running(validator("a"), &platform());
    cluster.edit(|node| set_policy(node, Some(DataDeletionPolicy::Delete)));
    cluster.node.metadata.deletion_timestamp = Some(Time(time(1).0));
    converge(&mut cluster, &platform());
    assert_eq!(ownership(&cluster), RETAINED);
}

#[test]
fn imported_claim_is_never_changed() {
    let mut node = validator("a");
    let import = Some(VolumeImport { pvc_name: "imported".into() });
    node.spec.data_volume = Some(DataVolume { import, deletion_policy: None });
    let mut cluster = Cluster::new(node);
    let foreign: PersistentVolumeClaim = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "imported", "labels": { RETAINED_BY: "a" } },
    }))
    .unwrap();
    cluster.observed.claim = Some(Arc::new(foreign.clone()));
    converge(&mut cluster, &platform());
    assert_eq!(claim(&cluster), &foreign);
    assert_eq!(deletion_event(&cluster.node, Some(&foreign)), None);
}

#[test]
fn new_node_takes_over_the_claim_of_the_same_name() {
    use DataDeletionPolicy::{Delete, Retain};
    let before = running(with_policy(node("a"), Retain), &platform());
    let volume = claim(&before).uid();
    for (policy, expected) in [(Retain, RETAINED), (Delete, DELETED)] {
        let mut cluster = recreated(with_policy(node("a"), policy), &before);
        converge(&mut cluster, &platform());
        assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running), "{:#?}", status(&cluster));
        assert_eq!((claim(&cluster).uid(), ownership(&cluster)), (volume.clone(), expected));
    }
}

#[test]
fn claim_of_another_chain_or_role_is_refused() {
    let before = running(with_policy(node("a"), DataDeletionPolicy::Retain), &platform());
    let mut other_chain = with_policy(node("a"), DataDeletionPolicy::Delete);
    other_chain.spec.chain_id = "pacific-1".into();
    for (node, text) in [
        (other_chain, "of chain arctic-1, and this node has chain pacific-1"),
        (
            with_policy(validator("a"), DataDeletionPolicy::Delete),
            "of role node, and this node has role validator",
        ),
    ] {
        let mut cluster = recreated(node, &before);
        reconcile(&mut cluster, &platform(), Fault::None);
        reconcile(&mut cluster, &platform(), Fault::None);
        let failed = status(&cluster).last_failed_plan.unwrap();
        assert!(failed.task.error.contains(text), "{}", failed.task.error);
        assert_eq!(ownership(&cluster), RETAINED, "the data stays");
    }
}

#[test]
fn claim_of_another_controller_is_not_taken_over() {
    let before = running(node("a"), &platform());
    let mut cluster = recreated(node("a"), &before);
    reconcile(&mut cluster, &platform(), Fault::None);
    reconcile(&mut cluster, &platform(), Fault::None);
    assert!(status(&cluster).last_failed_plan.unwrap().task.error.contains("is not owned by this SeiNode"));
}

/// The previous node was deleted, and another one imported its claim.
#[test]
fn claim_that_another_node_imports_is_not_taken_over() {
    let before = running(with_policy(node("a"), DataDeletionPolicy::Retain), &platform());
    let mut importer = node("b");
    let import = Some(VolumeImport { pvc_name: "data-a".into() });
    importer.spec.data_volume = Some(DataVolume { import, deletion_policy: None });
    importer.metadata.creation_timestamp = Some(time(5));
    let mut cluster = recreated(with_policy(node("a"), DataDeletionPolicy::Delete), &before);
    cluster.others = Candidates { nodes: vec![Arc::new(importer)], ..Candidates::default() };
    converge(&mut cluster, &platform());
    let waiting = status(&cluster).waiting_for.unwrap();
    assert_eq!(waiting.target, "PersistentVolumeClaim/data-a");
    let text = waiting.message.unwrap();
    assert!(text.contains("is used by SeiNode b (it was created first)"), "{text}");
    assert_eq!(ownership(&cluster), RETAINED, "it would be deleted with this node");
    cluster.others = Candidates::default();
    converge(&mut cluster, &platform());
    assert_eq!((reason(&cluster, "Ready").as_str(), ownership(&cluster)), ("NodeReady", DELETED));
}

/// An older seid must not run on newer data.
#[test]
fn data_that_was_set_up_is_not_bootstrapped_again() {
    let mut node = with_policy(node("a"), DataDeletionPolicy::Retain);
    let mut before = running(node.clone(), &platform());
    let snapshot = SnapshotSource {
        s3: Some(S3Snapshot { target_height: 5 }),
        bootstrap_image: Some("sei:old".into()),
        ..SnapshotSource::default()
    };
    node.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot), snapshot_generation: None });
    let mut cluster = recreated(node.clone(), &before);
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::Init));
    assert!(steps(&cluster).iter().any(|step| step == "snapshot-restore"), "the sidecar skips what is done");
    let labels = Arc::make_mut(before.observed.claim.as_mut().unwrap()).meta_mut().labels.as_mut().unwrap();
    labels.remove(SET_UP);
    let mut cluster = recreated(node, &before);
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::Bootstrap), "its setup was not complete");
}

#[test]
fn deletion_event_names_the_retained_claim() {
    let retained = running(validator("a"), &platform());
    let event = deletion_event(&retained.node, Some(claim(&retained))).unwrap();
    assert_eq!(event.reason, "DataVolumeRetained");
    assert!(event.message.contains("kubectl delete pvc data-a --namespace sei"), "{}", event.message);
    let deleted = running(node("a"), &platform());
    assert_eq!(deletion_event(&deleted.node, Some(claim(&deleted))), None);
    assert_eq!(deletion_event(&deleted.node, None), None);
}
