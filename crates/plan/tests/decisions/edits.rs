//! Every edit of a running node is one plan and at most one pod cycle, and then rest.

use api::SeiNode;
use api::sei_node::{
    FullNodeSpec, IssuerKind, LabelPeers, PeerSource, PlanKind, Publish, S3Snapshot, SeiNodeStatus,
    SidecarConfig, SidecarTls, SnapshotGeneration, SnapshotSource, StaticPeers, TendermintSnapshotGeneration,
};

use super::cluster::Cluster;
use super::operator::{Disturbance, pass};
use super::specimen::{message, node, platform, reason, running, settle, status, steps};

/// Edits a running node, and lets the world settle. Returns the steps of the plan and what the condition said of it.
fn edit(cluster: &mut Cluster, change: impl FnOnce(&mut SeiNode)) -> (String, String, String) {
    cluster.edit(change);
    pass(cluster, &platform(), Disturbance::None);
    let plan = steps(cluster).join(" ");
    let said = (reason(cluster, "NodeUpdateInProgress"), message(cluster, "NodeUpdateInProgress"));
    settle(cluster, &platform());
    (plan, said.0, said.1)
}

/// The node is as its spec says, and nothing is written any more.
fn assert_reached(cluster: &mut Cluster) {
    let status = status(cluster);
    assert_eq!(status.reconciled_generation, cluster.node.metadata.generation, "{status:#?}");
    assert_eq!(reason(cluster, "Ready"), "NodeReady", "{status:#?}");
    assert_eq!(reason(cluster, "NodeUpdateInProgress"), "UpdateComplete");
    let writes = cluster.writes;
    settle(cluster, &platform());
    assert_eq!(cluster.writes, writes, "writes at rest");
}

fn cycles(cluster: &Cluster) -> u32 {
    cluster.cycles.values().sum()
}

fn sidecar(change: impl FnOnce(&mut SidecarConfig)) -> impl FnOnce(&mut SeiNode) {
    move |node| {
        let mut config = node.spec.sidecar.clone().unwrap_or_default();
        change(&mut config);
        node.spec.sidecar = Some(config);
    }
}

fn issuer(name: &str) -> Option<SidecarTls> {
    Some(SidecarTls { issuer_name: Some(name.into()), ..SidecarTls::default() })
}

#[test]
fn a_node_that_has_just_become_running_gets_no_second_plan() {
    let mut cluster = running(node("a"), &platform());
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::Init));
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:0"));
    let writes = cluster.writes;
    settle(&mut cluster, &platform());
    assert_eq!(cluster.writes, writes);
}

#[test]
fn from_nothing_to_running_is_five_objects_and_few_status_writes() {
    let cluster = running(node("a"), &platform());
    let statuses = cluster.writes - 5;
    assert!(statuses <= 8, "{statuses} status writes with a sidecar that takes a round for each task");
    assert_eq!(cycles(&cluster), 0);
}

#[test]
fn an_image() {
    let mut cluster = running(node("a"), &platform());
    let (plan, reason, message) = edit(&mut cluster, |node| node.spec.image = "sei:1".into());
    assert_eq!(
        plan,
        "apply-network-policy apply-rbac-proxy-config apply-statefulset apply-service replace-pod observe-image mark-ready"
    );
    assert_eq!(reason, "UpdateStarted");
    assert!(message.ends_with(": image sei:1 instead of sei:0"), "{message}");
    assert_reached(&mut cluster);
    assert_eq!(cycles(&cluster), 1);
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
}

#[test]
fn image_and_tls_in_one_edit_are_one_plan_and_one_pod_cycle() {
    let mut cluster = running(node("a"), &platform());
    let (plan, reason, message) = edit(&mut cluster, |node| {
        node.spec.image = "sei:1".into();
        sidecar(|config| config.tls = issuer("ca"))(node);
    });
    assert_eq!(
        plan,
        "apply-sidecar-cert wait-for-sidecar-tls-secret apply-network-policy apply-rbac-proxy-config apply-statefulset \
         apply-service replace-pod observe-image observe-sidecar-tls mark-ready"
    );
    assert_eq!(reason, "UpdateAndTLSToggleStarted");
    assert!(
        message.contains("image sei:1 instead of sei:0; sidecar TLS ca/ClusterIssuer instead of none"),
        "{message}"
    );
    assert_reached(&mut cluster);
    assert_eq!(cycles(&cluster), 1);
    let tls = status(&cluster).current_sidecar_tls.unwrap();
    assert_eq!((tls.issuer_name.as_deref(), tls.issuer_kind), (Some("ca"), Some(IssuerKind::ClusterIssuer)));
}

#[test]
fn defect_21_tls_is_switched_on_and_off_although_no_pod_is_ready_before_its_sidecar_lets_it() {
    let mut cluster = running(node("a"), &platform());
    let (plan, reason, _) = edit(&mut cluster, sidecar(|config| config.tls = issuer("ca")));
    assert_eq!(reason, "TLSToggleStarted");
    assert!(!plan.contains("observe-image") && plan.contains("observe-sidecar-tls"), "{plan}");
    assert_reached(&mut cluster);
    assert!(cluster.world.certificate.is_some());
    let (plan, reason, message) = edit(&mut cluster, sidecar(|config| config.tls = None));
    assert_eq!(reason, "TLSToggleStarted");
    assert!(message.ends_with("sidecar TLS none instead of ca/ClusterIssuer"), "{message}");
    assert!(plan.ends_with("observe-sidecar-tls mark-ready remove-sidecar-cert"), "{plan}");
    assert_reached(&mut cluster);
    assert_eq!(cycles(&cluster), 2);
    assert!(cluster.world.certificate.is_none(), "the certificate is removed");
    assert_eq!(status(&cluster).current_sidecar_tls.unwrap().issuer_name, None);
}

#[test]
fn an_issuer_swap_replaces_the_pod_once() {
    let mut cluster = running(node("a"), &platform());
    edit(&mut cluster, sidecar(|config| config.tls = issuer("ca")));
    let before = cycles(&cluster);
    let (plan, reason, message) = edit(&mut cluster, sidecar(|config| config.tls = issuer("other")));
    assert_eq!(reason, "TLSToggleStarted");
    assert!(message.ends_with("sidecar TLS other/ClusterIssuer instead of ca/ClusterIssuer"), "{message}");
    assert!(plan.contains("apply-sidecar-cert wait-for-sidecar-tls-secret"), "{plan}");
    assert_reached(&mut cluster);
    assert_eq!(cycles(&cluster), before + 1);
    assert_eq!(cluster.world.certificate.as_ref().unwrap().spec.issuer_ref.name, "other");
}

#[test]
fn every_other_part_of_the_pod() {
    type Change = fn(&mut SeiNode);
    let changes: [(&str, Change); 5] = [
        ("sidecar image", |node| sidecar(|config| config.image = Some("sidecar:2".into()))(node)),
        ("sidecar port", |node| sidecar(|config| config.port = 7000)(node)),
        ("sidecar resources", |node| {
            let limits = [(
                "memory".to_owned(),
                k8s_openapi::apimachinery::pkg::api::resource::Quantity("1Gi".into()),
            )];
            let resources = k8s_openapi::api::core::v1::ResourceRequirements {
                limits: Some(limits.into()),
                ..Default::default()
            };
            sidecar(|config| config.resources = Some(resources))(node);
        }),
        ("pod labels", |node| {
            node.spec.pod_labels.insert("team".into(), "infra".into());
        }),
        ("image", |node| node.spec.image = "sei:9".into()),
    ];
    for (what, change) in changes {
        let mut cluster = running(node("a"), &platform());
        let (plan, reason, message) = edit(&mut cluster, change);
        assert_eq!(reason, "UpdateStarted", "{what}");
        assert!(message.contains(what), "{what}: {message}");
        assert!(plan.contains("replace-pod observe-image mark-ready"), "{what}: {plan}");
        assert_reached(&mut cluster);
        assert_eq!(cycles(&cluster), 1, "{what}");
    }
}

#[test]
fn settings_are_written_by_the_new_pod_before_seid_starts() {
    type Change = fn(&mut SeiNode);
    let changes: [(&str, Change, &str); 4] = [
        (
            "overrides",
            |node| {
                node.spec.overrides.insert("evm.http_port".into(), "1".into());
            },
            "config-apply config-validate",
        ),
        (
            "peers",
            |node| {
                let addresses = vec!["id@host:26656".into()];
                node.spec.peers =
                    vec![PeerSource { fixed: Some(StaticPeers { addresses }), ..PeerSource::default() }];
            },
            "config-apply discover-peers config-validate",
        ),
        (
            "external address",
            |node| node.spec.external_address = Some("node.example.com:26656".into()),
            "config-apply config-validate",
        ),
        (
            "snapshot generation",
            |node| {
                let tendermint = TendermintSnapshotGeneration { keep_recent: 3, publish: Some(Publish {}) };
                let snapshot_generation = Some(SnapshotGeneration { tendermint: Some(tendermint) });
                node.spec.full_node = Some(FullNodeSpec { snapshot: None, snapshot_generation });
            },
            "config-apply config-validate snapshot-upload",
        ),
    ];
    for (what, change, tasks) in changes {
        let mut cluster = running(node("a"), &platform());
        let (plan, reason, message) = edit(&mut cluster, change);
        assert_eq!(reason, "UpdateStarted", "{what}");
        assert!(message.contains(what), "{what}: {message}");
        assert!(plan.ends_with(&format!("replace-pod observe-image {tasks} mark-ready")), "{what}: {plan}");
        assert_reached(&mut cluster);
        assert_eq!(cycles(&cluster), 1, "{what}");
    }
}

#[test]
fn a_setting_that_is_no_longer_wanted_is_taken_away() {
    let mut node = node("a");
    node.spec.overrides.insert("a.b".into(), "1".into());
    let mut cluster = running(node, &platform());
    cluster.edit(|node| node.spec.overrides.clear());
    pass(&mut cluster, &platform(), Disturbance::None);
    let plan = status(&cluster).plan.unwrap();
    let apply = plan.tasks.iter().find(|task| task.task_type == "config-apply").unwrap();
    assert_eq!(apply.params.as_ref().unwrap()["incremental"], false, "written anew, from the defaults");
    settle(&mut cluster, &platform());
    assert_reached(&mut cluster);
    assert_eq!(status(&cluster).current_overrides, Some([].into()));
}

#[test]
fn an_operator_after_another_one_replaces_no_pod_until_the_spec_is_edited() {
    let mut cluster = running(node("a"), &platform());
    // What the operator before us had written.
    let before = status(&cluster);
    cluster.node.status = Some(SeiNodeStatus {
        phase: before.phase,
        current_image: before.current_image,
        ..SeiNodeStatus::default()
    });
    let mut newer = platform();
    newer.sidecar_image = "sidecar:99".into();
    newer.proxy_image = "proxy:99".into();
    settle(&mut cluster, &newer);
    assert_eq!(cycles(&cluster), 0, "never observed is no drift");
    cluster.edit(|node| node.spec.pod_labels.extend([("a".into(), "b".into())]));
    settle(&mut cluster, &newer);
    assert_eq!(cycles(&cluster), 1);
    assert_eq!(status(&cluster).current_sidecar_image.as_deref(), Some("sidecar:99"));
    assert_reached_by(&mut cluster, &newer);
}

fn assert_reached_by(cluster: &mut Cluster, platform: &plan::Platform) {
    let writes = cluster.writes;
    settle(cluster, platform);
    assert_eq!(cluster.writes, writes, "writes at rest");
}

#[test]
fn a_new_default_image_of_sidecars_reaches_nodes_that_were_observed() {
    let mut cluster = running(node("a"), &platform());
    let mut newer = platform();
    newer.sidecar_image = "sidecar:2".into();
    settle(&mut cluster, &newer);
    assert_eq!(cycles(&cluster), 1);
    assert_eq!(status(&cluster).current_sidecar_image.as_deref(), Some("sidecar:2"));
}

/// W12.
#[test]
fn an_audience_of_the_proxy_reaches_nodes_that_were_observed() {
    let mut cluster = running(node("a"), &platform());
    let own = plan::Platform { proxy_token_audience: Some("sidecars.sei.io".into()), ..platform() };
    settle(&mut cluster, &own);
    assert_eq!(cycles(&cluster), 1);
    assert_reached_by(&mut cluster, &own);
}

#[test]
fn what_a_node_began_with_is_named_when_it_is_edited() {
    let mut node = node("a");
    let snapshot = |height| SnapshotSource {
        s3: Some(S3Snapshot { target_height: height }),
        ..SnapshotSource::default()
    };
    node.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot(5)), snapshot_generation: None });
    let mut cluster = running(node, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
    cluster.edit(|node| {
        node.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot(6)), snapshot_generation: None });
    });
    settle(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "FieldsNotApplied");
    let said = message(&cluster, "SpecApplied");
    assert!(said.starts_with("spec.fullNode.snapshot.s3.targetHeight: "), "{said}");
    assert_eq!(cycles(&cluster), 0);
    cluster.edit(|node| {
        node.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot(5)), snapshot_generation: None });
    });
    settle(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
}

#[test]
fn a_label_that_selects_nobody_is_named_until_it_selects_somebody() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        let label = LabelPeers { selector: [("a".into(), "b".into())].into(), namespace: None };
        node.spec.peers = vec![PeerSource { label: Some(label), ..PeerSource::default() }];
    });
    settle(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "FieldsNotApplied");
    let said = message(&cluster, "SpecApplied");
    assert!(said.starts_with("spec.peers[0].label: it selects no node"), "{said}");
    assert_eq!(cycles(&cluster), 0);
    cluster.world.label_peers = [(0, vec!["b-0.b".to_owned()])].into();
    settle(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
    assert_eq!(cycles(&cluster), 1);
}

#[test]
fn a_paused_node_is_left_alone_and_says_what_would_be_done() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        node.spec.paused = true;
        node.spec.image = "sei:1".into();
    });
    let (uids, given) = (cluster.uids, cluster.given.clone());
    settle(&mut cluster, &platform());
    assert_eq!((cluster.uids, &cluster.given), (uids, &given), "nothing was done");
    assert_eq!(reason(&cluster, "Paused"), "Paused");
    let said = message(&cluster, "Paused");
    assert!(said.contains("image sei:1 instead of sei:0"), "{said}");
    cluster.edit(|node| node.spec.paused = false);
    settle(&mut cluster, &platform());
    assert_eq!(cycles(&cluster), 1);
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
}
