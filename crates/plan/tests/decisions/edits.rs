//! Edits of a running node: each is one plan and at most one pod replacement.

use api::SeiNode;
use api::names::annotation::{APPLIED_HASH, EKS_SKIP_CONTAINERS};
use api::sei_node::{
    FullNodeSpec, IssuerKind, LabelPeers, PeerSource, PlanKind, Publish, S3Snapshot, Scheduling,
    SeiNodeStatus, SidecarConfig, SidecarIsolation, SidecarTls, SnapshotGeneration, SnapshotSource,
    StaticPeers, TendermintSnapshotGeneration,
};
use api::sidecar_wire::TaskState;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;

use super::cluster::{Cluster, to_observed, to_stateful_set};
use super::fixture::{
    converge, message, node, platform, pod_deletions, reason, running, size, status, steps, validator,
};
use super::reconcile::{Fault, reconcile};

/// Edits a running node and lets it converge. Returns the tasks of the plan, and the reason and message of
/// NodeUpdateInProgress.
fn edit(cluster: &mut Cluster, change: impl FnOnce(&mut SeiNode)) -> (String, String, String) {
    cluster.edit(change);
    reconcile(cluster, &platform(), Fault::None);
    let plan = steps(cluster).join(" ");
    let condition = (reason(cluster, "NodeUpdateInProgress"), message(cluster, "NodeUpdateInProgress"));
    converge(cluster, &platform());
    (plan, condition.0, condition.1)
}

/// Asserts that the node is in sync with its spec, and that nothing is written in steady state.
fn assert_in_sync(cluster: &mut Cluster) {
    let status = status(cluster);
    assert_eq!(status.reconciled_generation, cluster.node.metadata.generation, "{status:#?}");
    assert_eq!(reason(cluster, "Ready"), "NodeReady", "{status:#?}");
    assert_eq!(reason(cluster, "NodeUpdateInProgress"), "UpdateComplete");
    let writes = cluster.writes;
    converge(cluster, &platform());
    assert_eq!(cluster.writes, writes, "writes in steady state");
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
fn new_running_node_gets_no_second_plan() {
    let mut cluster = running(node("a"), &platform());
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::Init));
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:0"));
    let writes = cluster.writes;
    converge(&mut cluster, &platform());
    assert_eq!(cluster.writes, writes);
}

#[test]
fn setup_takes_five_objects_and_few_status_writes() {
    let cluster = running(node("a"), &platform());
    let status_writes = cluster.writes - 5;
    assert!(status_writes <= 8, "{status_writes} status writes");
    assert_eq!(pod_deletions(&cluster), 0);
}

#[test]
fn image_edit_replaces_the_pod_once() {
    let mut cluster = running(node("a"), &platform());
    let (plan, reason, message) = edit(&mut cluster, |node| node.spec.image = "sei:1".into());
    assert_eq!(
        plan,
        "apply-network-policy apply-rbac-proxy-config apply-statefulset apply-service replace-pod observe-image mark-ready"
    );
    assert_eq!(reason, "UpdateStarted");
    assert!(message.ends_with(": image sei:1 instead of sei:0"), "{message}");
    assert_in_sync(&mut cluster);
    assert_eq!(pod_deletions(&cluster), 1);
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
}

#[test]
fn image_and_tls_edit_is_one_plan_and_one_pod_replacement() {
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
    assert_in_sync(&mut cluster);
    assert_eq!(pod_deletions(&cluster), 1);
    let tls = status(&cluster).current_sidecar_tls.unwrap();
    assert_eq!((tls.issuer_name.as_deref(), tls.issuer_kind), (Some("ca"), Some(IssuerKind::ClusterIssuer)));
}

#[test]
fn tls_toggles_without_waiting_for_pod_readiness() {
    let mut cluster = running(node("a"), &platform());
    let (plan, reason, _) = edit(&mut cluster, sidecar(|config| config.tls = issuer("ca")));
    assert_eq!(reason, "TLSToggleStarted");
    assert!(!plan.contains("observe-image") && plan.contains("observe-sidecar-tls"), "{plan}");
    assert_in_sync(&mut cluster);
    assert!(cluster.observed.certificate.is_some());
    let (plan, reason, message) = edit(&mut cluster, sidecar(|config| config.tls = None));
    assert_eq!(reason, "TLSToggleStarted");
    assert!(message.ends_with("sidecar TLS none instead of ca/ClusterIssuer"), "{message}");
    assert!(plan.ends_with("observe-sidecar-tls mark-ready remove-sidecar-cert"), "{plan}");
    assert_in_sync(&mut cluster);
    assert_eq!(pod_deletions(&cluster), 2);
    assert!(cluster.observed.certificate.is_none(), "the Certificate is deleted");
    assert_eq!(status(&cluster).current_sidecar_tls.unwrap().issuer_name, None);
}

#[test]
fn issuer_change_replaces_the_pod_once() {
    let mut cluster = running(node("a"), &platform());
    edit(&mut cluster, sidecar(|config| config.tls = issuer("ca")));
    let before = pod_deletions(&cluster);
    let (plan, reason, message) = edit(&mut cluster, sidecar(|config| config.tls = issuer("other")));
    assert_eq!(reason, "TLSToggleStarted");
    assert!(message.ends_with("sidecar TLS other/ClusterIssuer instead of ca/ClusterIssuer"), "{message}");
    assert!(plan.contains("apply-sidecar-cert wait-for-sidecar-tls-secret"), "{plan}");
    assert_in_sync(&mut cluster);
    assert_eq!(pod_deletions(&cluster), before + 1);
    assert_eq!(cluster.observed.certificate.as_ref().unwrap().spec.issuer_ref.name, "other");
}

#[test]
fn each_pod_field_edit_is_one_plan_and_one_pod_replacement() {
    type Change = fn(&mut SeiNode);
    let changes: [(&str, Change); 8] = [
        ("sidecar image", |node| sidecar(|config| config.image = Some("sidecar:2".into()))(node)),
        ("sidecar isolation Shared instead of Isolated", |node| {
            sidecar(|config| config.isolation = Some(SidecarIsolation::Shared))(node);
        }),
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
        ("seid resources", |node| node.spec.resources = Some(memory_limit("64Gi"))),
        ("scheduling", |node| node.spec.scheduling = Some(zone("a"))),
    ];
    for (what, change) in changes {
        let mut cluster = running(node("a"), &platform());
        let (plan, reason, message) = edit(&mut cluster, change);
        assert_eq!(reason, "UpdateStarted", "{what}");
        assert!(message.contains(what), "{what}: {message}");
        assert!(plan.contains("replace-pod observe-image mark-ready"), "{what}: {plan}");
        assert_in_sync(&mut cluster);
        assert_eq!(pod_deletions(&cluster), 1, "{what}");
    }
}

fn memory_limit(size: &str) -> ResourceRequirements {
    let limits = [("memory".to_owned(), Quantity(size.into()))];
    ResourceRequirements { limits: Some(limits.into()), ..ResourceRequirements::default() }
}

fn zone(name: &str) -> Scheduling {
    let selector = [("topology.kubernetes.io/zone".to_owned(), name.to_owned())];
    Scheduling { node_selector: selector.into(), ..Scheduling::default() }
}

#[test]
fn resources_and_scheduling_edits_replace_the_pod_once_each() {
    let mut cluster = running(node("a"), &platform());
    assert_eq!(status(&cluster).current_resources, Some(ResourceRequirements::default()));
    let (_, _, message) = edit(&mut cluster, |node| {
        node.spec.resources = Some(memory_limit("64Gi"));
        node.spec.scheduling = Some(zone("a"));
    });
    assert!(message.ends_with(": seid resources; scheduling"), "{message}");
    assert_in_sync(&mut cluster);
    assert_eq!(pod_deletions(&cluster), 1);
    let current = status(&cluster);
    assert_eq!(current.current_resources, Some(memory_limit("64Gi")));
    assert_eq!(current.current_scheduling, Some(zone("a")));
    let (_, _, message) = edit(&mut cluster, |node| {
        node.spec.resources = None;
        node.spec.scheduling = None;
    });
    assert!(message.ends_with(": seid resources; scheduling"), "{message}");
    assert_in_sync(&mut cluster);
    assert_eq!(pod_deletions(&cluster), 2);
}

/// The status of the previous version has no `currentResources` and `currentScheduling`, and its template has neither anti-affinity nor
/// all annotations.
#[test]
fn node_of_the_previous_version_is_not_replaced_for_new_fields() {
    let mut cluster = running(validator("a"), &platform());
    let mut older = status(&cluster);
    older.current_resources = None;
    older.current_scheduling = None;
    older.current_sidecar_isolation = None;
    older.conditions.retain(|condition| condition.type_ != "StorageReady");
    cluster.node.status = Some(older);
    let mut set = to_stateful_set(cluster.observed.stateful_set.as_ref().unwrap());
    let template = &mut set.spec.as_mut().unwrap().template;
    template.spec.as_mut().unwrap().affinity.as_mut().unwrap().pod_anti_affinity = None;
    let removed =
        template.metadata.as_mut().unwrap().annotations.as_mut().unwrap().remove(EKS_SKIP_CONTAINERS);
    assert!(removed.is_some());
    let annotations = set.metadata.annotations.as_mut().unwrap();
    annotations.insert(APPLIED_HASH.into(), "of the previous version".into());
    *set.metadata.generation.as_mut().unwrap() += 1;
    cluster.observed.stateful_set = Some(to_observed(&set));
    cluster.observed.disruption_budget = None;
    cluster.run_stateful_set_controller();
    cluster.delete_pod();
    cluster.run_kubelet();
    converge(&mut cluster, &platform());
    assert_eq!(pod_deletions(&cluster), 0);
    assert!(cluster.observed.disruption_budget.is_some(), "the budget needs no new pod");
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_eq!(reason(&cluster, "StorageReady"), "VolumeSized");
    // An edit that needs no pod does not replace it.
    cluster.bind_claim("10Gi");
    cluster.edit(|node| node.spec.storage = Some(size("20Gi")));
    converge(&mut cluster, &platform());
    assert_eq!(pod_deletions(&cluster), 0);
    // The next edit that does brings everything up to date, in one replacement.
    cluster.edit(|node| node.spec.resources = Some(memory_limit("64Gi")));
    converge(&mut cluster, &platform());
    assert_eq!(pod_deletions(&cluster), 1);
    let set = to_stateful_set(cluster.observed.stateful_set.as_ref().unwrap());
    let template = set.spec.unwrap().template;
    assert!(template.spec.unwrap().affinity.unwrap().pod_anti_affinity.is_some());
    assert!(template.metadata.unwrap().annotations.unwrap().contains_key(EKS_SKIP_CONTAINERS));
    assert_steady(&mut cluster, &platform());
}

#[test]
fn request_above_its_limit_replaces_no_pod() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        let requests = memory_limit("33Gi").limits;
        node.spec.resources = Some(ResourceRequirements { requests, ..memory_limit("32Gi") });
    });
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "SpecInvalid");
    assert_eq!(
        message(&cluster, "SpecApplied"),
        "spec.resources.requests[memory]: 33Gi is more than its limit of 32Gi: lower it, or raise the limit"
    );
    assert_eq!(pod_deletions(&cluster), 0);
}

#[test]
fn affinity_with_unknown_fields_replaces_no_pod() {
    let mut cluster = running(node("a"), &platform());
    let cases = [
        (
            json!({ "podAffinity": { "preferredDuringScheduling": [] } }),
            "spec.scheduling.affinity.podAffinity.preferredDuringScheduling: unknown field",
        ),
        (
            json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "a", "x": 1 }] } }),
            "spec.scheduling.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].x: unknown field",
        ),
        (json!({ "nodeAffinity": 5 }), "spec.scheduling.affinity: not a valid affinity"),
    ];
    for (affinity, expected) in cases {
        cluster.edit(|node| {
            node.spec.scheduling = Some(Scheduling { affinity: Some(affinity), ..Scheduling::default() });
        });
        converge(&mut cluster, &platform());
        assert_eq!(reason(&cluster, "SpecApplied"), "SpecInvalid");
        let text = message(&cluster, "SpecApplied");
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(pod_deletions(&cluster), 0);
    }
    cluster.edit(|node| node.spec.scheduling = None);
    converge(&mut cluster, &platform());
    assert_eq!((reason(&cluster, "SpecApplied"), pod_deletions(&cluster)), ("AllApplied".into(), 0));
}

#[test]
fn settings_are_written_before_seid_starts() {
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
                let addresses = vec!["0123456789abcdef0123456789abcdef01234567@host:26656".into()];
                node.spec.peers = vec![PeerSource {
                    static_peers: Some(StaticPeers { addresses }),
                    ..PeerSource::default()
                }];
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
        assert_in_sync(&mut cluster);
        assert_eq!(pod_deletions(&cluster), 1, "{what}");
    }
}

#[test]
fn removed_override_is_removed_by_a_full_write() {
    let mut node = node("a");
    node.spec.overrides.insert("evm.http_port".into(), "8545".into());
    let mut cluster = running(node, &platform());
    cluster.edit(|node| node.spec.overrides.clear());
    reconcile(&mut cluster, &platform(), Fault::None);
    let plan = status(&cluster).plan.unwrap();
    let apply = plan.tasks.iter().find(|task| task.task_type == "config-apply").unwrap();
    assert_eq!(apply.params.as_ref().unwrap()["incremental"], false, "full write from the defaults");
    converge(&mut cluster, &platform());
    assert_in_sync(&mut cluster);
    assert_eq!(status(&cluster).current_overrides, Some([].into()));
}

#[test]
fn takeover_replaces_no_pod_until_the_spec_is_edited() {
    let mut cluster = running(node("a"), &platform());
    // The status of the upstream controller.
    let before = status(&cluster);
    cluster.node.status = Some(SeiNodeStatus {
        phase: before.phase,
        current_image: before.current_image,
        ..SeiNodeStatus::default()
    });
    let mut newer = platform();
    newer.sidecar_image = "sidecar:99".into();
    newer.proxy_image = "proxy:99".into();
    converge(&mut cluster, &newer);
    assert_eq!(pod_deletions(&cluster), 0, "a field that was never observed is not drift");
    cluster.edit(|node| node.spec.pod_labels.extend([("a".into(), "b".into())]));
    converge(&mut cluster, &newer);
    assert_eq!(pod_deletions(&cluster), 1);
    assert_eq!(status(&cluster).current_sidecar_image.as_deref(), Some("sidecar:99"));
    assert_steady(&mut cluster, &newer);
}

fn assert_steady(cluster: &mut Cluster, platform: &plan::Platform) {
    let writes = cluster.writes;
    converge(cluster, platform);
    assert_eq!(cluster.writes, writes, "writes in steady state");
}

#[test]
fn new_default_sidecar_image_updates_nodes() {
    let mut cluster = running(node("a"), &platform());
    let mut newer = platform();
    newer.sidecar_image = "sidecar:2".into();
    converge(&mut cluster, &newer);
    assert_eq!(pod_deletions(&cluster), 1);
    assert_eq!(status(&cluster).current_sidecar_image.as_deref(), Some("sidecar:2"));
}

#[test]
fn edit_of_the_initial_snapshot_is_reported() {
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
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "FieldsNotApplied");
    let text = message(&cluster, "SpecApplied");
    assert!(text.starts_with("spec.fullNode.snapshot.s3.targetHeight: "), "{text}");
    assert_eq!(pod_deletions(&cluster), 0);
    cluster.edit(|node| {
        node.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot(5)), snapshot_generation: None });
    });
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
}

#[test]
fn label_source_without_nodes_is_reported() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        let label = LabelPeers { selector: [("a".into(), "b".into())].into(), namespace: None };
        node.spec.peers = vec![PeerSource { label: Some(label), ..PeerSource::default() }];
    });
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "FieldsNotApplied");
    let text = message(&cluster, "SpecApplied");
    assert!(text.starts_with("spec.peers[0].label: selects no node"), "{text}");
    assert_eq!(pod_deletions(&cluster), 0);
    cluster.observed.label_peers = [(0, vec!["b-0.b".to_owned()])].into();
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
    assert_eq!(pod_deletions(&cluster), 1);
}

#[test]
fn paused_node_reports_pending_changes() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        node.spec.paused = true;
        node.spec.image = "sei:1".into();
    });
    let (uids, submissions) = (cluster.uids, cluster.submissions.clone());
    converge(&mut cluster, &platform());
    assert_eq!((cluster.uids, &cluster.submissions), (uids, &submissions), "nothing is executed");
    assert_eq!(reason(&cluster, "Paused"), "Paused");
    let text = message(&cluster, "Paused");
    assert!(text.contains("image sei:1 instead of sei:0"), "{text}");
    cluster.edit(|node| node.spec.paused = false);
    converge(&mut cluster, &platform());
    assert_eq!(pod_deletions(&cluster), 1);
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
}

/// A running task cannot be undone. The edit waits for it, and says so.
#[test]
fn edit_during_a_sidecar_task_is_queued_and_then_applied() {
    edit_during_a_task(false);
}

/// A sidecar that has not answered yet may be running the task.
#[test]
fn edit_is_queued_while_the_answer_of_the_sidecar_is_pending() {
    edit_during_a_task(true);
}

fn edit_during_a_task(is_answer_pending: bool) {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        node.spec.overrides.insert("evm.http_port".into(), "8545".into());
    });
    let is_running = |cluster: &Cluster| {
        cluster
            .sidecar
            .tasks
            .values()
            .any(|(type_, state, _)| type_ == "config-apply" && *state == TaskState::Running)
    };
    for _ in 0..20 {
        if is_running(&cluster) {
            break;
        }
        cluster.run_stateful_set_controller();
        cluster.run_kubelet();
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    assert!(is_running(&cluster));
    let plan = status(&cluster).plan.unwrap().id;
    cluster.is_answer_pending = is_answer_pending;
    cluster.edit(|node| node.spec.image = "sei:1".into());
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(status(&cluster).plan.unwrap().id, plan);
    assert_eq!(reason(&cluster, "SpecApplied"), "EditQueued");
    assert!(
        message(&cluster, "SpecApplied").contains("task config-apply of the sidecar"),
        "{}",
        message(&cluster, "SpecApplied")
    );
    cluster.is_answer_pending = false;
    converge(&mut cluster, &platform());
    assert_eq!(
        (reason(&cluster, "SpecApplied"), reason(&cluster, "Ready")),
        ("AllApplied".into(), "NodeReady".into())
    );
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
}
