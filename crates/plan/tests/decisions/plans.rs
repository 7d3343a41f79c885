//! The setup plan of every kind of node.

use api::SeiNode;
use api::sei_node::{
    ArchiveSpec, FullNodeSpec, GenesisCeremony, LabelPeers, NodeKey, OperatorKeyring, PeerSource, Publish,
    ReplayerSpec, S3Snapshot, SecretKeySource, SidecarConfig, SidecarTls, SigningKey, SnapshotGeneration,
    SnapshotSource, StateSync, StaticPeers, TendermintSnapshotGeneration, ValidatorSpec,
};

use super::cluster::Cluster;
use super::fixture::{node, platform, status, steps};
use super::reconcile::{Fault, reconcile};

/// Returns the task types of the first plan of a node.
fn first_plan(change: impl FnOnce(&mut SeiNode)) -> String {
    let mut node = node("a");
    node.spec.full_node = None;
    change(&mut node);
    let mut cluster = Cluster::new(node);
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(cluster.writes, 1, "only the plan is stored");
    assert!(cluster.submissions.is_empty(), "no task is submitted");
    steps(&cluster).join(" ")
}

const OBJECTS: &str = "apply-network-policy apply-rbac-proxy-config apply-statefulset apply-service";
const VALIDATOR_OBJECTS: &str =
    "apply-network-policy apply-rbac-proxy-config apply-disruption-budget apply-statefulset apply-service";
const OBSERVE: &str = "observe-image observe-sidecar-tls";

fn s3(height: i64) -> SnapshotSource {
    SnapshotSource { s3: Some(S3Snapshot { target_height: height }), ..SnapshotSource::default() }
}

fn fixed_peers() -> Vec<PeerSource> {
    let addresses = vec!["0123456789abcdef0123456789abcdef01234567@host:26656".into()];
    vec![PeerSource { static_peers: Some(StaticPeers { addresses }), ..PeerSource::default() }]
}

#[test]
fn full_node_from_the_first_block() {
    let plan = first_plan(|node| node.spec.full_node = Some(FullNodeSpec::default()));
    assert_eq!(
        plan,
        format!(
            "ensure-data-pvc {OBJECTS} {OBSERVE} configure-genesis config-apply config-validate mark-ready"
        )
    );
}

#[test]
fn full_node_from_snapshot_with_peers_and_uploads() {
    let plan = first_plan(|node| {
        let tendermint = TendermintSnapshotGeneration { keep_recent: 2, publish: Some(Publish {}) };
        let snapshot_generation = Some(SnapshotGeneration { tendermint: Some(tendermint) });
        node.spec.full_node = Some(FullNodeSpec { snapshot: Some(s3(5)), snapshot_generation });
        node.spec.peers = fixed_peers();
    });
    assert_eq!(
        plan,
        format!(
            "ensure-data-pvc {OBJECTS} {OBSERVE} snapshot-restore configure-genesis config-apply discover-peers \
             configure-state-sync config-validate snapshot-upload mark-ready"
        )
    );
}

#[test]
fn genesis_hash_is_passed_to_the_sidecar() {
    for (hash, params) in [(None, None), (Some("0a".repeat(32)), Some("0a".repeat(32)))] {
        let mut node = node("a");
        node.spec.genesis_hash = hash;
        let mut cluster = Cluster::new(node);
        reconcile(&mut cluster, &platform(), Fault::None);
        let tasks = status(&cluster).plan.unwrap().tasks;
        let genesis = tasks.into_iter().find(|task| task.task_type == "configure-genesis").unwrap();
        assert_eq!(genesis.params, params.map(|hash| serde_json::json!({ "expectedGenesisHash": hash })));
    }
}

#[test]
fn full_node_with_state_sync() {
    let plan = first_plan(|node| {
        let snapshot = Some(SnapshotSource { state_sync: Some(StateSync {}), ..SnapshotSource::default() });
        node.spec.full_node = Some(FullNodeSpec { snapshot, snapshot_generation: None });
    });
    assert_eq!(
        plan,
        format!(
            "ensure-data-pvc {OBJECTS} {OBSERVE} configure-genesis config-apply configure-state-sync config-validate \
             mark-ready"
        )
    );
}

#[test]
fn archive() {
    let plan = first_plan(|node| {
        node.spec.archive = Some(ArchiveSpec::default());
        node.spec.peers = fixed_peers();
    });
    assert_eq!(
        plan,
        format!(
            "ensure-data-pvc {OBJECTS} {OBSERVE} configure-genesis config-apply discover-peers config-validate mark-ready"
        )
    );
}

#[test]
fn replayer() {
    let plan = first_plan(|node| {
        node.spec.replayer = Some(ReplayerSpec { snapshot: s3(7), result_export: None });
        node.spec.peers = fixed_peers();
    });
    assert_eq!(
        plan,
        format!(
            "ensure-data-pvc {OBJECTS} {OBSERVE} snapshot-restore configure-genesis config-apply discover-peers \
             configure-state-sync config-validate mark-ready"
        )
    );
}

#[test]
fn validator_with_all_keys() {
    let plan = first_plan(|node| node.spec.validator = Some(validator()));
    assert_eq!(
        plan,
        format!(
            "ensure-data-pvc validate-signing-key validate-node-key validate-operator-keyring {VALIDATOR_OBJECTS} {OBSERVE} \
             configure-genesis config-apply config-validate mark-ready"
        )
    );
}

#[test]
fn validator_of_a_new_chain() {
    let plan = first_plan(|node| {
        let ceremony = GenesisCeremony {
            chain_id: "new-1".into(),
            staking_amount: "1usei".into(),
            account_balance: "2usei".into(),
            ..GenesisCeremony::default()
        };
        let genesis_ceremony = Some(ceremony);
        node.spec.validator = Some(ValidatorSpec { genesis_ceremony, ..ValidatorSpec::default() });
    });
    assert_eq!(
        plan,
        format!(
            "ensure-data-pvc {VALIDATOR_OBJECTS} {OBSERVE} generate-identity generate-gentx upload-genesis-artifacts \
             configure-genesis config-apply set-genesis-peers config-validate mark-ready"
        )
    );
}

#[test]
fn bootstrapped_validator() {
    let plan = first_plan(|node| {
        let snapshot = SnapshotSource { bootstrap_image: Some("sei:old".into()), ..s3(9) };
        let validator = ValidatorSpec { snapshot: Some(snapshot), ..validator() };
        node.spec.validator = Some(validator);
        node.spec.peers = fixed_peers();
    });
    assert_eq!(
        plan,
        format!(
            "ensure-data-pvc apply-network-policy apply-rbac-proxy-config validate-signing-key validate-node-key \
             validate-operator-keyring deploy-bootstrap-service deploy-bootstrap-job snapshot-restore configure-genesis \
             config-apply discover-peers configure-state-sync config-validate mark-ready await-bootstrap-complete \
             teardown-bootstrap {VALIDATOR_OBJECTS} {OBSERVE} configure-genesis config-apply discover-peers config-validate mark-ready"
        )
    );
}

#[test]
fn certificate_precedes_the_bootstrap_pod() {
    let plan = first_plan(|node| {
        let snapshot = SnapshotSource { bootstrap_image: Some("sei:old".into()), ..s3(9) };
        node.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot), snapshot_generation: None });
        let tls = SidecarTls { issuer_name: Some("ca".into()), ..SidecarTls::default() };
        node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
    });
    let certificate = "apply-sidecar-cert wait-for-sidecar-tls-secret";
    assert!(
        plan.starts_with(&format!(
            "ensure-data-pvc apply-network-policy apply-rbac-proxy-config {certificate} deploy-bootstrap-service \
             deploy-bootstrap-job"
        )),
        "{plan}"
    );
    assert!(plan.contains(&format!("teardown-bootstrap {certificate} {OBJECTS} {OBSERVE}")), "{plan}");
}

#[test]
fn certificate_precedes_the_pod() {
    let plan = first_plan(|node| {
        node.spec.full_node = Some(FullNodeSpec::default());
        let tls = SidecarTls { issuer_name: Some("ca".into()), ..SidecarTls::default() };
        node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
    });
    assert!(
        plan.starts_with(&format!(
            "ensure-data-pvc apply-sidecar-cert wait-for-sidecar-tls-secret {OBJECTS} {OBSERVE}"
        )),
        "{plan}"
    );
    let plan = first_plan(|node| {
        node.spec.full_node = Some(FullNodeSpec::default());
        let tls = SidecarTls { secret_name: Some("mine".into()), ..SidecarTls::default() };
        node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
    });
    assert!(
        plan.starts_with(&format!("ensure-data-pvc wait-for-sidecar-tls-secret {OBJECTS} {OBSERVE}")),
        "{plan}"
    );
}

#[test]
fn label_source_without_nodes_adds_no_task() {
    let plan = first_plan(|node| {
        node.spec.full_node = Some(FullNodeSpec::default());
        let label = LabelPeers { selector: [("a".into(), "b".into())].into(), namespace: None };
        node.spec.peers = vec![PeerSource { label: Some(label), ..PeerSource::default() }];
    });
    assert!(!plan.contains("discover-peers"), "{plan}");
}

fn validator() -> ValidatorSpec {
    let secret = |name: &str| SecretKeySource { secret_name: name.into() };
    ValidatorSpec {
        signing_key: Some(SigningKey { secret: secret("signing") }),
        node_key: Some(NodeKey { secret: secret("node") }),
        operator_keyring: Some(OperatorKeyring::default()),
        ..ValidatorSpec::default()
    }
}
