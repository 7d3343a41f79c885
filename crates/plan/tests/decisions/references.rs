//! Strict references: a node uses only Secrets and claims that are labeled with its name.

use std::sync::Arc;

use api::SeiNode;
use api::names::label;
use api::sei_node::{
    DataVolume, KeyringSecret, NodeKey, OperatorKeyring, PassphraseSecretRef, SecretKeySource, SeiNodePhase,
    SidecarConfig, SidecarTls, SigningKey, ValidatorSpec, VolumeImport,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use plan::Platform;
use serde_json::json;

use super::certificate;
use super::cluster::Cluster;
use super::fixture::{converge, message, node, platform, pod_deletions, reason, running, status};
use super::reconcile::{Fault, reconcile};

fn strict() -> Platform {
    Platform { strict_references: true, ..platform() }
}

/// Returns a validator that names four Secrets.
fn validator() -> SeiNode {
    let secret = |name: &str| SecretKeySource { secret_name: name.into() };
    let keyring = KeyringSecret {
        secret_name: "ring".into(),
        passphrase_secret_ref: PassphraseSecretRef { secret_name: "phrase".into(), key: "word".into() },
        ..KeyringSecret::default()
    };
    let mut node = node("a");
    node.spec.full_node = None;
    node.spec.validator = Some(ValidatorSpec {
        signing_key: Some(SigningKey { secret: secret("signing") }),
        node_key: Some(NodeKey { secret: secret("identity") }),
        operator_keyring: Some(OperatorKeyring { secret: keyring }),
        ..ValidatorSpec::default()
    });
    node
}

const SECRETS: [&str; 4] = ["signing", "identity", "ring", "phrase"];

/// Returns a cluster with the valid Secrets of a validator, without labels.
fn cluster(node: SeiNode) -> Cluster {
    let mut cluster = Cluster::new(node);
    let part = json!({ "type": "t", "value": "v" });
    let key = json!({ "address": "A", "pub_key": part, "priv_key": part }).to_string();
    let contents = [
        vec![("priv_validator_key.json", key.clone())],
        vec![("node_key.json", key)],
        vec![("node_admin.info", "x".into()), ("a.address", "x".into())],
        vec![("word", "x".into())],
    ];
    for (name, data) in SECRETS.into_iter().zip(contents) {
        let data = data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
        let secret = Secret { data: Some(data.collect()), ..Secret::default() };
        cluster.secrets.insert(name.into(), secret);
    }
    cluster
}

fn label(cluster: &mut Cluster, secret: &str, node: Option<&str>) {
    let labels = &mut cluster.secrets.get_mut(secret).unwrap().metadata.labels;
    *labels = node.map(|node| [(label::NODE.to_owned(), node.to_owned())].into());
}

fn label_all(cluster: &mut Cluster) {
    for secret in SECRETS {
        label(cluster, secret, Some("a"));
    }
}

fn refusal(kind: &str, name: &str) -> String {
    format!(
        "{kind} {name} is not labeled sei.io/node=a, which --strict-references requires: label it, or use another one"
    )
}

#[test]
fn unlabeled_secret_is_refused_before_anything_is_applied() {
    for refused in SECRETS {
        for owner in [None, Some("b")] {
            let mut cluster = cluster(validator());
            label_all(&mut cluster);
            label(&mut cluster, refused, owner);
            converge(&mut cluster, &strict());
            assert_eq!(reason(&cluster, "SpecApplied"), "ReferenceRefused", "{refused}");
            assert_eq!(message(&cluster, "SpecApplied"), refusal("Secret", refused));
            assert_eq!(reason(&cluster, "Ready"), "SpecNotApplied");
            assert_eq!(status(&cluster).plan, None);
            let observed = &cluster.observed;
            assert!(observed.claim.is_none() && observed.network_policy.is_none(), "nothing is applied");
            // It continues as soon as the label is there.
            label(&mut cluster, refused, Some("a"));
            converge(&mut cluster, &strict());
            assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running), "{:#?}", status(&cluster));
            assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
        }
    }
}

#[test]
fn labels_do_not_matter_without_strict_references() {
    let mut cluster = cluster(validator());
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running), "{:#?}", status(&cluster));
}

#[test]
fn secret_that_appears_during_the_setup_is_judged_as_well() {
    let mut cluster = cluster(validator());
    label_all(&mut cluster);
    let late = cluster.secrets.remove("signing").unwrap();
    for _ in 0..3 {
        reconcile(&mut cluster, &strict(), Fault::None);
    }
    assert_eq!(status(&cluster).waiting_for.unwrap().target, "Secret/signing");
    cluster.secrets.insert("signing".into(), late);
    label(&mut cluster, "signing", None);
    converge(&mut cluster, &strict());
    assert_eq!(message(&cluster, "SigningKeyReady"), refusal("Secret", "signing"));
    assert!(cluster.observed.stateful_set.is_none());
}

#[test]
fn running_node_is_untouched_and_its_edits_are_refused() {
    let mut cluster = cluster(validator());
    converge(&mut cluster, &platform());
    let writes = cluster.writes;
    converge(&mut cluster, &strict());
    assert_eq!((cluster.writes, pod_deletions(&cluster)), (writes, 0), "it keeps running as it is");
    cluster.edit(|node| node.spec.image = "sei:1".into());
    converge(&mut cluster, &strict());
    assert_eq!(reason(&cluster, "SpecApplied"), "ReferenceRefused");
    let expected = SECRETS.map(|secret| refusal("Secret", secret)).join("; ");
    assert_eq!(message(&cluster, "SpecApplied"), expected);
    assert_eq!(pod_deletions(&cluster), 0);
    // What the node runs with is restored, although it may not use its Secrets any more.
    cluster.delete_objects();
    cluster.delete_stateful_set();
    cluster.minutes += 1;
    converge(&mut cluster, &strict());
    assert_eq!(cluster.pod_image("seid").as_deref(), Some("sei:0"), "{:#?}", status(&cluster));
    assert!(cluster.sidecar.ready && cluster.observed.service.is_some());
    assert_eq!((reason(&cluster, "SpecApplied"), pod_deletions(&cluster)), ("ReferenceRefused".into(), 0));
    label_all(&mut cluster);
    let secret = cluster.secrets.remove("signing").unwrap();
    converge(&mut cluster, &strict());
    assert_eq!(
        message(&cluster, "SpecApplied"),
        "Secret signing not found, and --strict-references requires its label sei.io/node=a: create it"
    );
    cluster.secrets.insert("signing".into(), secret);
    converge(&mut cluster, &strict());
    assert_eq!((reason(&cluster, "SpecApplied").as_str(), pod_deletions(&cluster)), ("AllApplied", 1));
}

#[test]
fn named_certificate_needs_a_label_and_an_issued_one_does_not() {
    let tls = |tls: SidecarTls| {
        move |node: &mut SeiNode| {
            node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
        }
    };
    let mut cluster = running(node("a"), &strict());
    let issuer = Some("ca".into());
    cluster.edit(tls(SidecarTls { issuer_name: issuer, ..SidecarTls::default() }));
    converge(&mut cluster, &strict());
    assert_eq!((reason(&cluster, "SpecApplied").as_str(), pod_deletions(&cluster)), ("AllApplied", 1));
    cluster.secrets.insert("mine".into(), certificate::named("mine", certificate::params("a")));
    cluster.edit(tls(SidecarTls { secret_name: Some("mine".into()), ..SidecarTls::default() }));
    converge(&mut cluster, &strict());
    assert_eq!(message(&cluster, "SpecApplied"), refusal("Secret", "mine"));
    assert_eq!(pod_deletions(&cluster), 1);
    label(&mut cluster, "mine", Some("a"));
    converge(&mut cluster, &strict());
    assert_eq!((reason(&cluster, "SpecApplied").as_str(), pod_deletions(&cluster)), ("AllApplied", 2));
}

#[test]
fn imported_claim_needs_a_label() {
    let mut new = node("a");
    let import = Some(VolumeImport { pvc_name: "old".into() });
    new.spec.data_volume = Some(DataVolume { import, deletion_policy: None });
    let mut cluster = Cluster::new(new);
    let claim = json!({ "metadata": { "name": "old", "labels": { "sei.io/node": "b" } }, "spec": {} });
    cluster.observed.claim = Some(Arc::new(serde_json::from_value(claim).unwrap()));
    converge(&mut cluster, &strict());
    assert_eq!(reason(&cluster, "SpecApplied"), "ReferenceRefused");
    assert_eq!(message(&cluster, "SpecApplied"), refusal("PersistentVolumeClaim", "old"));
    assert_eq!(status(&cluster).plan, None);
}
