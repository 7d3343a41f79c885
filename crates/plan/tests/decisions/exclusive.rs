//! Signing keys and claims that two nodes name: only one node uses them.

use std::sync::Arc;
use std::time::Duration;

use api::SeiNode;
use api::condition::Reason as _;
use api::sei_node::{
    DataVolume, NodeKey, ObservedKeys, SecretKeySource, SeiNodePhase, SeiNodeStatus, SigningKey, TaskStatus,
    ValidatorSpec, VolumeImport,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::node::{Candidates, VolumeObservation, transition_events};
use serde_json::json;

use super::cluster::Cluster;
use super::fixture::{converge, decide_once, message, node, platform, reason, running, status};
use super::reconcile::{Fault, reconcile, time};

const KEY: &str = "signing";

fn validator(name: &str, minutes: i64) -> SeiNode {
    let secret = |name: &str| SecretKeySource { secret_name: name.into() };
    let mut node = node(name);
    node.spec.full_node = None;
    node.spec.validator = Some(ValidatorSpec {
        signing_key: Some(SigningKey { secret: secret(KEY) }),
        node_key: Some(NodeKey { secret: secret("identity") }),
        ..ValidatorSpec::default()
    });
    node.metadata.creation_timestamp = Some(time(minutes));
    node
}

fn importer(name: &str, minutes: i64) -> SeiNode {
    let mut node = node(name);
    let import = Some(VolumeImport { pvc_name: "shared".into() });
    node.spec.data_volume = Some(DataVolume { import, deletion_policy: None });
    node.metadata.creation_timestamp = Some(time(minutes));
    node
}

/// Returns a cluster with a new node and valid inputs.
fn cluster(node: SeiNode) -> Cluster {
    let mut cluster = Cluster::new(node);
    let part = json!({ "type": "t", "value": "v" });
    let key = json!({ "address": "A", "pub_key": part, "priv_key": part }).to_string();
    for (secret, file) in [(KEY, "priv_validator_key.json"), ("identity", "node_key.json")] {
        let data = [(file.to_owned(), ByteString(key.clone().into_bytes()))];
        let secret_object = Secret { data: Some(data.into()), ..Secret::default() };
        cluster.secrets.insert(secret.into(), secret_object);
    }
    cluster
}

/// Returns a cluster with a running validator.
fn running_validator(name: &str, minutes: i64) -> Cluster {
    let mut cluster = cluster(validator(name, minutes));
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running), "{:#?}", status(&cluster));
    cluster
}

/// Returns what other nodes of the namespace observe of a cluster.
fn seen(cluster: &Cluster) -> Candidates {
    Candidates {
        nodes: vec![Arc::new(cluster.node.clone())],
        stateful_sets: cluster.observed.stateful_set.iter().cloned().collect(),
        pods: cluster.observed.pods.clone(),
        reserved_by: None,
    }
}

/// Runs a new validator `b` beside others, and asserts that it is refused because of `a`, before it has a pod.
#[track_caller]
fn assert_refused(second: &mut Cluster, evidence: &str) {
    converge(second, &platform());
    assert_eq!(reason(second, "SigningKeyReady"), "SigningKeyInUse", "{:#?}", status(second));
    let text = message(second, "SigningKeyReady");
    assert!(text.contains(&format!("is the signing key of SeiNode a ({evidence})")), "{text}");
    assert!(second.observed.stateful_set.is_none() && second.observed.pods.is_empty());
    let waiting = status(second).waiting_for.unwrap();
    assert_eq!(waiting.target, "Secret/signing");
    assert!(waiting.deadline.0 > waiting.since.0, "the normal deadline");
    assert!(message(second, "Ready").contains("SeiNode a"), "{}", message(second, "Ready"));
}

#[test]
fn signing_key_in_use_is_refused_until_its_node_is_gone() {
    let first = running_validator("a", 5);
    // Older than the first, and refused all the same: the first signs.
    let mut second = cluster(validator("b", 0));
    second.others = seen(&first);
    assert_refused(&mut second, "its pod a-0 mounts it");
    let before = SeiNodeStatus::default();
    let events = transition_events(&second.node, &before, &status(&second));
    assert!(events.iter().any(|event| event.reason == "SigningKeyInUse"), "{events:?}");
    // The first is being deleted, and then deleted, while its StatefulSet and its pod are not.
    let mut node = first.node.clone();
    node.metadata.deletion_timestamp = Some(Time(time(1).0));
    second.others.nodes = vec![Arc::new(node)];
    assert_refused(&mut second, "its pod a-0 mounts it");
    second.others.nodes.clear();
    assert_refused(&mut second, "its pod a-0 mounts it");
    let pods = std::mem::take(&mut second.others.pods);
    assert_refused(&mut second, "its StatefulSet mounts it");
    second.others.stateful_sets.clear();
    second.others.pods = pods;
    assert_refused(&mut second, "its pod a-0 mounts it");
    second.others.pods.clear();
    converge(&mut second, &platform());
    assert_eq!(reason(&second, "Ready"), "NodeReady");
    assert_eq!(reason(&second, "SigningKeyReady"), "SigningKeyValidated");
}

#[test]
fn status_of_a_node_keeps_its_signing_key() {
    let mut current = SeiNodeStatus::default();
    let keys = ObservedKeys { signing_key: Some(KEY.into()), ..ObservedKeys::default() };
    current.current_keys = Some(keys);
    let mut first = cluster(validator("a", 5));
    first.secrets.remove("identity");
    converge(&mut first, &platform());
    let validated = status(&first);
    let mut not_validated = validated.clone();
    not_validated.plan.as_mut().unwrap().tasks[1].status = TaskStatus::Pending;
    for (status, is_holder) in [(current, true), (validated, true), (not_validated, false)] {
        let mut node = validator("a", 5);
        node.status = Some(status);
        let mut second = cluster(validator("b", 0));
        second.others.nodes = vec![Arc::new(node)];
        if is_holder {
            assert_refused(&mut second, "it was set up with it");
        } else {
            converge(&mut second, &platform());
            assert_eq!(reason(&second, "Ready"), "NodeReady", "the older of two new nodes");
        }
    }
}

#[test]
fn older_node_gets_the_signing_key_and_then_the_name_decides() {
    for (name, minutes) in [("a", 0), ("a", 1)] {
        let mut second = cluster(validator("b", 1));
        second.others.nodes = vec![Arc::new(validator(name, minutes))];
        assert_refused(&mut second, "it was created first");
        let mut first = cluster(validator(name, minutes));
        first.others.nodes = vec![Arc::new(validator("b", 1))];
        converge(&mut first, &platform());
        assert_eq!(reason(&first, "Ready"), "NodeReady");
    }
}

/// Another worker of the same process has decided a moment ago, and nothing of it is stored yet.
#[test]
fn reserved_signing_key_is_refused() {
    let mut second = cluster(validator("b", 0));
    second.others.reserved_by = Some("a".into());
    assert_refused(&mut second, "it is being set up with it");
    second.others.reserved_by = Some("b".into());
    converge(&mut second, &platform());
    assert_eq!(reason(&second, "Ready"), "NodeReady", "its own reservation");
}

#[test]
fn nodes_with_other_keys_are_not_refused() {
    let mut other = running_validator("a", 0);
    let validator_spec = other.node.spec.validator.as_mut().unwrap();
    validator_spec.signing_key.as_mut().unwrap().secret.secret_name = "other".into();
    let mut second = cluster(validator("b", 1));
    second.others.nodes = vec![Arc::new(other.node)];
    converge(&mut second, &platform());
    assert_eq!(reason(&second, "Ready"), "NodeReady");
}

#[test]
fn edit_to_a_key_in_use_replaces_no_pod() {
    let first = running_validator("a", 0);
    let mut plain = validator("b", 1);
    plain.spec.validator = Some(ValidatorSpec::default());
    let mut second = cluster(plain);
    converge(&mut second, &platform());
    second.others = seen(&first);
    let pod = second.observed.pods[0].metadata.uid.clone();
    second.edit(|node| node.spec.validator = validator("b", 1).spec.validator);
    converge(&mut second, &platform());
    assert_eq!(reason(&second, "SigningKeyReady"), "SigningKeyInUse");
    assert_eq!(second.observed.pods[0].metadata.uid, pod);
    assert!(second.pod_deletions.is_empty());
    second.others = Candidates::default();
    converge(&mut second, &platform());
    assert_eq!(reason(&second, "SigningKeyReady"), "SigningKeyValidated");
    assert_eq!(second.pod_deletions.values().sum::<u32>(), 1);
}

/// A node that signs keeps its key when others ask for it.
#[test]
fn refused_nodes_do_not_block_the_holder() {
    let mut first = running_validator("a", 5);
    first.others.nodes = vec![Arc::new(validator("b", 0))];
    first.edit(|node| node.spec.image = "sei:1".into());
    first.edit(|node| {
        let keys = node.spec.validator.as_mut().unwrap();
        keys.node_key.as_mut().unwrap().secret.secret_name = KEY.into();
    });
    first.secrets.get_mut(KEY).unwrap().data.as_mut().unwrap().insert(
        "node_key.json".into(),
        ByteString(json!({ "priv_key": { "type": "t", "value": "v" } }).to_string().into_bytes()),
    );
    converge(&mut first, &platform());
    assert_eq!(reason(&first, "Ready"), "NodeReady", "{:#?}", status(&first));
    assert_eq!(reason(&first, "SigningKeyReady"), "SigningKeyValidated");
}

#[test]
fn failed_setup_continues_when_the_key_is_free() {
    let mut second = cluster(validator("b", 1));
    second.others.nodes = vec![Arc::new(validator("a", 0))];
    converge(&mut second, &platform());
    second.minutes += 61;
    reconcile(&mut second, &platform(), Fault::None);
    assert_eq!(status(&second).phase, Some(SeiNodePhase::Failed), "the deadline is exceeded");
    assert_eq!(reason(&second, "SigningKeyReady"), "SigningKeyInUse");
    second.others.nodes.clear();
    converge(&mut second, &platform());
    assert_eq!(reason(&second, "Ready"), "NodeReady");
}

/// No event announces that a Secret was created.
#[test]
fn failed_setup_checks_its_input_every_ten_seconds() {
    let mut cluster = cluster(validator("a", 0));
    let key = cluster.secrets.remove(KEY).unwrap();
    converge(&mut cluster, &platform());
    let (required, decision) = decide_once(&cluster);
    assert!(required.awaited_secrets.contains(KEY), "{required:?}");
    assert!(decision.requeue_after.unwrap() <= Duration::from_secs(5), "{:?}", decision.requeue_after);
    cluster.minutes += 61;
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Failed), "the deadline is exceeded");
    let (required, decision) = decide_once(&cluster);
    assert!(required.awaited_secrets.contains(KEY), "{required:?}");
    assert!(decision.requeue_after.unwrap() <= Duration::from_secs(10), "{:?}", decision.requeue_after);
    cluster.secrets.insert(KEY.into(), key);
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

#[test]
fn imported_claim_of_another_node_is_refused() {
    let bound = json!({
        "metadata": { "name": "shared", "namespace": "sei" },
        "spec": { "accessModes": ["ReadWriteOnce"], "volumeName": "v" },
        "status": { "phase": "Bound", "capacity": { "storage": "10Gi" } },
    });
    let volume = json!({ "metadata": { "name": "v" }, "spec": { "capacity": { "storage": "10Gi" } } });
    let imports = |name: &str, minutes| {
        let mut cluster = cluster(importer(name, minutes));
        cluster.observed.claim = serde_json::from_value(bound.clone()).ok().map(Arc::new);
        let volume = serde_json::from_value(volume.clone()).map(Arc::new);
        cluster.observed.volume = volume.map_or(VolumeObservation::Missing, VolumeObservation::Found);
        cluster
    };
    let mut first = imports("a", 5);
    converge(&mut first, &platform());
    assert_eq!(reason(&first, "Ready"), "NodeReady", "{:#?}", status(&first));
    // A node whose own claim is imported by another one.
    let mut owner = running(node("a"), &platform());
    owner.node.metadata.creation_timestamp = Some(time(5));
    let mut of_owner = imports("b", 0);
    let import = Some(VolumeImport { pvc_name: "data-a".into() });
    of_owner.node.spec.data_volume = Some(DataVolume { import, deletion_policy: None });
    for (mut second, others) in [(imports("b", 0), seen(&first)), (of_owner, seen(&owner))] {
        let (nodes, rest) = (others.nodes.clone(), others);
        for (candidates, evidence) in [
            (rest.clone(), "its pod a-0 mounts it"),
            (Candidates { pods: Vec::new(), ..rest.clone() }, "its StatefulSet mounts it"),
            (Candidates { nodes, ..Candidates::default() }, "it was set up with it"),
        ] {
            second.others = candidates;
            converge(&mut second, &platform());
            assert_eq!(reason(&second, "ImportPVCReady"), "PVCInUse", "{:#?}", status(&second));
            let text = message(&second, "ImportPVCReady");
            assert!(text.contains(&format!("is used by SeiNode a ({evidence})")), "{text}");
            assert!(second.observed.stateful_set.is_none());
        }
        second.others = Candidates::default();
        converge(&mut second, &platform());
        assert_eq!(reason(&second, "ImportPVCReady"), api::condition::ImportPVCReady::PVCValidated.as_str());
    }
}
