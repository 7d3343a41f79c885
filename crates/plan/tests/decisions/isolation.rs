//! The isolation of the containers of a pod: upgrades, platform changes, edits, repairs, and who gets a token.

use std::sync::Arc;

use api::SeiNode;
use api::names::annotation::{APPLIED_HASH, SIDECAR_AUDIENCE};
use api::names::container::PROXY;
use api::sei_node::{
    FullNodeSpec, Publish, S3Snapshot, Scheme, SidecarConfig, SidecarIsolation, SidecarTls,
    SnapshotGeneration, SnapshotSource, TendermintSnapshotGeneration,
};
use api::sidecar_wire::TaskState;
use plan::Platform;
use plan::node::{Queued, UpdateSlot, required_observations};
use serde_json::{Value, json};

use super::cluster::{Cluster, to_observed, to_stateful_set};
use super::fixture::{
    converge, message, node, platform, pod_deletions, reason, run_once, running, size, status, steps,
};
use super::reconcile::{Fault, reconcile};

use SidecarIsolation::{Isolated, Shared};

fn shared() -> Platform {
    Platform { sidecar_isolation: Shared, ..platform() }
}

fn isolation(own: Option<SidecarIsolation>) -> impl FnOnce(&mut SeiNode) {
    move |node| {
        let sidecar = node.spec.sidecar.clone().unwrap_or_default();
        node.spec.sidecar = Some(SidecarConfig { isolation: own, ..sidecar });
    }
}

/// Returns a cluster with a node that the previous version has set up: it records no isolation, its hash of the proxy's
/// configuration covers an audience, and it has applied another template.
fn previous_version() -> Cluster {
    let mut cluster = running(node("a"), &shared());
    let mut older = status(&cluster);
    older.current_sidecar_isolation = None;
    older.current_proxy_config_hash = Some("with-audience".into());
    cluster.node.status = Some(older);
    let mut set = to_stateful_set(cluster.observed.stateful_set.as_ref().unwrap());
    let template = &mut set.spec.as_mut().unwrap().template;
    template.spec.as_mut().unwrap().automount_service_account_token = Some(true);
    template.metadata.as_mut().unwrap().annotations.as_mut().unwrap().remove(SIDECAR_AUDIENCE);
    let containers = template.spec.as_mut().unwrap().init_containers.as_mut().unwrap();
    let args = containers.iter_mut().find(|one| one.name == PROXY).unwrap().args.as_mut().unwrap();
    args.retain(|argument| !argument.starts_with("--auth-token-audiences"));
    let annotations = set.metadata.annotations.as_mut().unwrap();
    annotations.insert(APPLIED_HASH.into(), "of the previous version".into());
    *set.metadata.generation.as_mut().unwrap() += 1;
    cluster.observed.stateful_set = Some(to_observed(&set));
    cluster.run_stateful_set_controller();
    cluster.delete_pod();
    cluster.run_kubelet();
    cluster.run_stateful_set_controller();
    cluster.run_kubelet();
    cluster
}

/// Returns the isolation that the template and the configuration of its proxy have.
fn rendered(cluster: &Cluster) -> [SidecarIsolation; 2] {
    let set = to_stateful_set(cluster.observed.stateful_set.as_ref().unwrap());
    let pod = set.spec.unwrap().template.spec.unwrap();
    let isolation = if pod.share_process_namespace == Some(true) { Shared } else { Isolated };
    let proxy = pod.init_containers.unwrap().into_iter().find(|one| one.name == PROXY).unwrap();
    [isolation, authorization(cluster, &proxy.args.unwrap())]
}

/// Returns the isolation for which a proxy with these arguments authorizes, if it starts now.
fn authorization(cluster: &Cluster, args: &[String]) -> SidecarIsolation {
    let file = args.iter().find_map(|argument| argument.strip_prefix("--config-file=/etc/kube-rbac-proxy/"));
    let config = cluster.observed.proxy_config.as_ref().unwrap().data.as_ref().unwrap();
    let has_kinds = config[file.unwrap()].contains("subresourceFromHeader: X-Sei-Task-Kind");
    if has_kinds { Isolated } else { Shared }
}

/// Modifies the configuration of the proxy, not as the operator.
fn modify_proxy_config(cluster: &mut Cluster) {
    let mut config = cluster.observed.proxy_config.as_deref().unwrap().clone();
    config.data.as_mut().unwrap().insert("config.yaml".to_owned(), "authorization: {}".to_owned());
    config.metadata.resource_version = Some("modified".into());
    cluster.observed.proxy_config = Some(Arc::new(config));
}

#[test]
fn upgrade_replaces_no_pod_and_repairs_suit_the_running_one() {
    let mut cluster = previous_version();
    let uid = |cluster: &Cluster| cluster.observed.pods[0].metadata.uid.clone();
    let before = uid(&cluster);
    converge(&mut cluster, &platform());
    assert_eq!((uid(&cluster), pod_deletions(&cluster)), (before.clone(), 0));
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_eq!(status(&cluster).current_sidecar_isolation, None);
    assert_eq!(rendered(&cluster), [Shared; 2]);
    modify_proxy_config(&mut cluster);
    converge(&mut cluster, &platform());
    let config = cluster.observed.proxy_config.as_ref().unwrap().data.clone().unwrap();
    assert!(config["config.yaml"].contains("resourceAttributes"), "it is restored");
    assert_eq!((rendered(&cluster), uid(&cluster)), ([Shared; 2], before.clone()));
    // An edit that needs no pod does not replace it.
    cluster.bind_claim("10Gi");
    cluster.edit(|node| node.spec.storage = Some(size("20Gi")));
    converge(&mut cluster, &platform());
    assert_eq!((uid(&cluster), pod_deletions(&cluster)), (before, 0));
    // A lost StatefulSet comes back for the pod that was running.
    cluster.observed.stateful_set = None;
    cluster.observed.pods.clear();
    (cluster.sidecar.up, cluster.sidecar.ready) = (false, false);
    cluster.minutes += 1;
    converge(&mut cluster, &platform());
    assert_eq!((rendered(&cluster), pod_deletions(&cluster)), ([Shared; 2], 0));
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    // The next edit that needs a pod isolates it, in one replacement.
    cluster.edit(|node| node.spec.image = "sei:1".into());
    converge(&mut cluster, &platform());
    assert_eq!((rendered(&cluster), pod_deletions(&cluster)), ([Isolated; 2], 1));
    assert_eq!(status(&cluster).current_sidecar_isolation, Some(Isolated));
    let writes = cluster.writes;
    converge(&mut cluster, &platform());
    assert_eq!(cluster.writes, writes, "writes in steady state");
}

#[test]
fn unfinished_task_of_a_replaced_pod_is_submitted_again() {
    let is_running = |cluster: &Cluster, name: &str| {
        cluster.sidecar.tasks.values().any(|(task, state, _)| task == name && *state == TaskState::Running)
    };
    for task in ["config-apply", "config-validate", "mark-ready"] {
        let mut cluster = running(node("a"), &platform());
        cluster.edit(|node| drop(node.spec.overrides.insert("evm.http_port".into(), "1".into())));
        for _ in 0..100 {
            if is_running(&cluster, task) {
                break;
            }
            run_once(&mut cluster, &platform());
        }
        assert!(is_running(&cluster, task), "{task}: {:?}", status(&cluster).plan);
        let before = cluster.sidecar.tasks.len();
        cluster.delete_pod();
        cluster.run_kubelet();
        cluster.run_stateful_set_controller();
        cluster.run_kubelet();
        assert_eq!(cluster.sidecar.tasks.len(), before - 1, "{task}: a new pod does not resume it");
        converge(&mut cluster, &platform());
        assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied", "{task}");
        assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{task}");
        assert!(cluster.sidecar.ready, "{task}");
    }
}

/// Returns an edit that generates snapshots, and publishes them or not.
fn snapshots(publish: bool) -> impl FnOnce(&mut SeiNode) {
    move |node| {
        let publish = publish.then_some(Publish {});
        let tendermint = Some(TendermintSnapshotGeneration { keep_recent: 3, publish });
        let snapshot_generation = Some(SnapshotGeneration { tendermint });
        node.spec.full_node = Some(FullNodeSpec { snapshot: None, snapshot_generation });
    }
}

/// The sidecar of a new pod continues uploads only if the node publishes snapshots. They start again when it does so again.
#[test]
fn uploads_end_with_an_isolated_pod_and_start_again() {
    for isolation in [Isolated, Shared] {
        let platform = Platform { sidecar_isolation: isolation, ..platform() };
        let mut cluster = running(node("a"), &platform);
        let publishes = |cluster: &Cluster| status(cluster).current_snapshot_generation.unwrap().publish;
        cluster.edit(snapshots(true));
        converge(&mut cluster, &platform);
        assert!(publishes(&cluster));
        cluster.edit(snapshots(false));
        converge(&mut cluster, &platform);
        assert!(publishes(&cluster), "the running pod continues");
        assert_eq!(reason(&cluster, "SpecApplied"), "FieldsNotApplied");
        cluster.edit(|node| node.spec.image = "sei:1".into());
        converge(&mut cluster, &platform);
        let continues = isolation == Shared;
        assert_eq!(publishes(&cluster), continues, "{isolation:?}");
        let expected = if continues { "FieldsNotApplied" } else { "AllApplied" };
        assert_eq!(reason(&cluster, "SpecApplied"), expected, "{isolation:?}");
        cluster.edit(snapshots(true));
        converge(&mut cluster, &platform);
        assert!(publishes(&cluster));
        let is_submitted = steps(&cluster).contains(&"snapshot-upload".to_owned());
        assert_eq!(is_submitted, !continues, "{isolation:?}: {:?}", steps(&cluster));
    }
}

#[test]
fn explicit_isolation_replaces_an_old_pod_only_if_it_differs() {
    for (own, deletions) in [(Shared, 0), (Isolated, 1)] {
        let mut cluster = previous_version();
        cluster.edit(isolation(Some(own)));
        converge(&mut cluster, &platform());
        assert_eq!((rendered(&cluster), pod_deletions(&cluster)), ([own; 2], deletions), "{own:?}");
    }
}

/// The proxy of the old pod may restart at any time. The sidecar of a shared pod does not check the header with the kind of a task.
#[test]
fn proxy_that_restarts_before_its_pod_is_replaced_authorizes_for_its_own_sidecar() {
    for (from, to) in [(Shared, Isolated), (Isolated, Shared)] {
        let mut cluster = running(node("a"), &Platform { sidecar_isolation: from, ..platform() });
        let pod = cluster.observed.pods[0].clone();
        let containers = &pod.spec.as_ref().unwrap().init_containers;
        let args = &containers.iter().find(|one| one.name == PROXY).unwrap().args;
        cluster.edit(isolation(Some(to)));
        let is_old = |cluster: &Cluster| {
            let current =
                cluster.observed.pods.first().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            current.is_some_and(|current| current.metadata.uid == pod.metadata.uid)
        };
        for _ in 0..4 {
            if is_old(&cluster) {
                assert_eq!(authorization(&cluster, args), from, "{from:?} to {to:?}");
            }
            reconcile(&mut cluster, &platform(), Fault::None);
            cluster.run_stateful_set_controller();
        }
        assert!(!is_old(&cluster), "the pod was not replaced");
        converge(&mut cluster, &platform());
        assert_eq!(rendered(&cluster), [to; 2]);
    }
}

#[test]
fn tls_edit_of_an_old_node_records_its_isolation() {
    let mut cluster = previous_version();
    cluster.edit(|node| {
        let tls = Some(SidecarTls { issuer_name: Some("ca".into()), ..SidecarTls::default() });
        node.spec.sidecar = Some(SidecarConfig { tls, ..SidecarConfig::default() });
    });
    converge(&mut cluster, &platform());
    assert!(!steps(&cluster).contains(&"observe-image".to_owned()), "{:?}", steps(&cluster));
    assert_eq!((rendered(&cluster), pod_deletions(&cluster)), ([Isolated; 2], 1));
    assert_eq!(status(&cluster).current_sidecar_isolation, Some(Isolated));
}

#[test]
fn platform_change_of_the_isolation_is_paced_and_edits_are_not() {
    let mut cluster = running(node("a"), &platform());
    assert_eq!(status(&cluster).current_sidecar_isolation, Some(Isolated));
    cluster.update_slot = UpdateSlot::Queued(Queued { position: 1, reason: "others first".into() });
    converge(&mut cluster, &shared());
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateQueued");
    let text = message(&cluster, "NodeUpdateInProgress");
    assert!(text.contains("sidecar isolation Shared instead of Isolated; others first"), "{text}");
    // What is restored meanwhile suits the pod that runs.
    cluster.observed.proxy_config = None;
    converge(&mut cluster, &shared());
    assert_eq!((rendered(&cluster), pod_deletions(&cluster)), ([Isolated; 2], 0));
    cluster.edit(isolation(Some(Shared)));
    converge(&mut cluster, &shared());
    assert_eq!((rendered(&cluster), pod_deletions(&cluster)), ([Shared; 2], 1));
    assert_eq!(status(&cluster).current_sidecar_isolation, Some(Shared));
    // The spec overrides the platform.
    cluster.update_slot = UpdateSlot::Granted;
    converge(&mut cluster, &platform());
    assert_eq!((rendered(&cluster), pod_deletions(&cluster)), ([Shared; 2], 1));
    cluster.edit(isolation(None));
    converge(&mut cluster, &platform());
    assert_eq!((rendered(&cluster), pod_deletions(&cluster)), ([Isolated; 2], 2));
}

#[test]
fn transport_has_the_audience_that_the_pod_names() {
    let cluster = running(node("a"), &platform());
    let audience = |annotation: Option<&str>, argument: Option<&str>| {
        let mut observed = cluster.observed.clone();
        let pod = Arc::make_mut(&mut observed.pods[0]);
        pod.prune();
        let proxy = pod.spec.as_mut().unwrap().init_containers.iter_mut().find(|one| one.name == PROXY);
        let args = &mut proxy.unwrap().args;
        assert_eq!(args.len(), 1, "what else is kept? {args:?}");
        *args = argument.map(|audience| format!("--auth-token-audiences={audience}")).into_iter().collect();
        let annotations = pod.metadata.annotations.get_or_insert_default();
        match annotation {
            Some(value) => drop(annotations.insert(SIDECAR_AUDIENCE.into(), value.into())),
            None => drop(annotations.remove(SIDECAR_AUDIENCE)),
        }
        let required = required_observations(&cluster.node, &status(&cluster), &platform(), &observed);
        required.health.unwrap().audience
    };
    let required = required_observations(&cluster.node, &status(&cluster), &platform(), &cluster.observed);
    let own = format!("sidecar.sei.io/{}/a", cluster.node.metadata.namespace.as_ref().unwrap());
    assert_eq!(required.health.unwrap().audience, Some(own.clone()), "the template has it");
    assert_eq!(audience(Some(&own), Some(&own)), Some(own.clone()));
    let other = format!("{own}-b");
    assert_eq!(audience(Some(&other), Some(&own)), Some(other.clone()), "the audience of another node");
    // Without an audience, the client would send the token for pods of previous versions.
    assert_eq!(audience(None, Some(&own)), Some(own.clone()), "the annotation was removed");
    assert_eq!(audience(None, Some(&other)), Some(other.clone()), "a pod that its node did not create");
    assert_eq!(audience(None, None), None, "a pod of upstream");
    assert_eq!(audience(None, Some("sidecars.sei.io")), None, "a previous version with a shared audience");
}

#[test]
fn bootstrap_transport_follows_the_mounted_certificate() {
    let mut new = node("a");
    let snapshot = SnapshotSource {
        s3: Some(S3Snapshot { target_height: 5 }),
        bootstrap_image: Some("sei:old".into()),
        ..SnapshotSource::default()
    };
    new.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot), snapshot_generation: None });
    let tls = Some(SidecarTls { issuer_name: Some("ca".into()), ..SidecarTls::default() });
    new.spec.sidecar = Some(SidecarConfig { tls, ..SidecarConfig::default() });
    let mut cluster = Cluster::new(new);
    for _ in 0..3 {
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    let job = cluster.observed.job.as_ref().unwrap();
    let template = json!(job.spec.as_ref().unwrap().template);
    let transport = |volumes: &Value| {
        let pod = json!({
            "metadata": {
                "name": "a-bootstrap-x7",
                "labels": { "sei.io/node": "a", "sei.io/component": "bootstrap" },
                "annotations": template["metadata"]["annotations"],
                "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "a-bootstrap", "uid": job.metadata.uid }],
            },
            "spec": { "volumes": volumes },
        });
        let mut observed = cluster.observed.clone();
        observed.pods.push(Arc::new(serde_json::from_value(pod).unwrap()));
        let required = required_observations(&cluster.node, &status(&cluster), &platform(), &observed);
        let (transport, _) = required.task.unwrap();
        assert!(transport.secret.iter().all(|secret| required.secrets.contains(secret)));
        (transport.scheme, transport.secret, transport.audience)
    };
    let own = format!("sidecar.sei.io/{}/a", cluster.node.metadata.namespace.as_ref().unwrap());
    let secret = Some("a-sidecar-tls".to_owned());
    let rendered = &template["spec"]["volumes"];
    assert_eq!(transport(rendered), (Scheme::Https, secret, Some(own.clone())));
    // A pod of a previous version, and one with another certificate than the spec has now.
    assert_eq!(transport(&json!([])), (Scheme::Http, None, Some(own.clone())));
    let other = json!([{ "name": "sidecar-tls", "secret": { "secretName": "other" } }]);
    assert_eq!(transport(&other), (Scheme::Https, Some("other".to_owned()), Some(own)));
}
