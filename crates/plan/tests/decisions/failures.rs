//! Failures: reported in the status, and resolved by the next edit.

use std::sync::Arc;

use api::SeiNode;
use api::sei_node::{
    ConfigChange, PeerSource, PlanChanges, PlanKind, PlanPhase, SeiNodePhase, SidecarConfig, SidecarTls,
    StaticPeers, TaskStatus,
};
use plan::node::Observed;
use serde_json::{Value, json};

use super::certificate;
use super::cluster::{Cluster, to_observed, to_stateful_set};
use super::fixture::{
    converge, message, node, platform, pod_deletions, reason, run_once, run_until_failed, running, status,
};
use super::reconcile::{Fault, REFUSAL, reconcile};

#[test]
fn failed_task_fails_the_plan_and_nothing_is_submitted_after() {
    let mut cluster = Cluster::new(node("a"));
    run_until_failed(&mut cluster, "config-apply");
    let failed = status(&cluster);
    assert_eq!(failed.phase, Some(SeiNodePhase::Failed));
    let plan = failed.plan.clone().unwrap();
    let detail = plan.failed_task_detail.unwrap();
    assert_eq!((detail.task_type.as_str(), detail.error.as_str()), ("config-apply", "task failed"));
    assert_eq!(failed.last_failed_plan.unwrap().task.error, "task failed");
    assert_eq!(reason(&cluster, "Ready"), "PlanFailed");
    let (writes, submissions) = (cluster.writes, cluster.submissions.clone());
    for _ in 0..20 {
        run_once(&mut cluster, &platform());
    }
    assert_eq!((cluster.writes, &cluster.submissions), (writes, &submissions));
}

/// A cause outside of the spec may go away without an edit.
#[test]
fn failed_setup_is_retried_with_backoff_without_an_edit() {
    let mut cluster = Cluster::new(node("a"));
    for (attempt, wait) in [(1, 30), (2, 60), (3, 120)] {
        run_until_failed(&mut cluster, "config-apply");
        let failed = status(&cluster).last_failed_plan.unwrap();
        let next = failed.next_retry_at.unwrap();
        let waits = next.0.duration_since(failed.failed_at.0).as_secs();
        assert_eq!((failed.attempts, waits), (attempt, wait));
        assert!(
            message(&cluster, "Ready").contains("next attempt at 2026-"),
            "{}",
            message(&cluster, "Ready")
        );
        cluster.minutes += 2;
    }
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running));
    assert_eq!(status(&cluster).last_failed_plan, None);
}

/// Marks the failure of the stored plan as one that an edit must fix.
fn require_edit(cluster: &mut Cluster) {
    let status = cluster.node.status.as_mut().unwrap();
    status.last_failed_plan.as_mut().unwrap().next_retry_at = None;
}

/// Sets the annotation that asks for a retry.
fn request_retry(cluster: &mut Cluster, value: &str) {
    let annotations = cluster.node.metadata.annotations.get_or_insert_default();
    annotations.insert("outrigger.dev/retry".into(), value.into());
}

#[test]
fn failure_of_the_spec_waits_for_an_edit_or_a_retry_request() {
    let mut cluster = Cluster::new(node("a"));
    request_retry(&mut cluster, "before");
    run_until_failed(&mut cluster, "config-apply");
    require_edit(&mut cluster);
    for _ in 0..20 {
        cluster.minutes += 10;
        run_once(&mut cluster, &platform());
    }
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Failed), "also with an old request");
    assert!(
        message(&cluster, "Ready").ends_with("edit the spec to try again"),
        "{}",
        message(&cluster, "Ready")
    );
    request_retry(&mut cluster, "now");
    cluster.edit(|node| node.spec.paused = true);
    run_once(&mut cluster, &platform());
    assert_eq!(status(&cluster).retry_requested.as_deref(), Some("before"), "kept until it resumes");
    cluster.edit(|node| node.spec.paused = false);
    let plan = cluster.node.status.as_mut().unwrap().plan.as_mut().unwrap();
    plan.generation = cluster.node.metadata.generation;
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running));
}

/// Returns a running node of a previous version, which did not store what an update can return to.
fn running_without_applied_spec() -> Cluster {
    let mut cluster = running(node("a"), &platform());
    cluster.node.status.as_mut().unwrap().applied_spec = None;
    cluster
}

#[test]
fn retry_request_ends_the_backoff_of_an_update_once() {
    let mut cluster = running_without_applied_spec();
    cluster.edit(|node| {
        node.spec.overrides.insert("evm.http_port".into(), "8545".into());
    });
    run_until_failed(&mut cluster, "config-apply");
    let failed = status(&cluster).plan.unwrap().id;
    run_once(&mut cluster, &platform());
    assert_eq!(status(&cluster).plan.unwrap().id, failed, "within the backoff");
    request_retry(&mut cluster, "1");
    run_until_failed(&mut cluster, "config-apply");
    let retried = status(&cluster).plan.unwrap().id;
    assert_ne!(retried, failed);
    run_once(&mut cluster, &platform());
    assert_eq!(status(&cluster).plan.unwrap().id, retried, "one request is one attempt");
}

#[test]
fn failed_setup_restarts_after_an_edit() {
    let mut cluster = Cluster::new(node("a"));
    run_until_failed(&mut cluster, "config-apply");
    cluster.edit(|node| node.spec.image = "sei:1".into());
    converge(&mut cluster, &platform());
    let now = status(&cluster);
    assert_eq!(now.phase, Some(SeiNodePhase::Running));
    assert_eq!(now.current_image.as_deref(), Some("sei:1"));
    assert_eq!(now.last_failed_plan, None, "resolved");
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

#[test]
fn failed_update_keeps_node_running_and_retries_with_backoff() {
    let mut cluster = running_without_applied_spec();
    cluster.edit(|node| {
        node.spec.overrides.insert("evm.http_port".into(), "8545".into());
    });
    run_until_failed(&mut cluster, "config-apply");
    let failed = status(&cluster);
    assert_eq!(failed.phase, Some(SeiNodePhase::Running));
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateFailed");
    assert!(message(&cluster, "NodeUpdateInProgress").contains("config-apply: task failed"));
    assert_eq!(reason(&cluster, "Ready"), "PlanFailed");
    assert_eq!(failed.last_failed_plan.as_ref().unwrap().attempts, 1);
    // Within the backoff the failure stays in the status.
    run_once(&mut cluster, &platform());
    assert_eq!(status(&cluster).plan.unwrap().phase, PlanPhase::Failed);
    cluster.minutes += 1;
    run_until_failed(&mut cluster, "config-apply");
    assert_eq!(status(&cluster).last_failed_plan.unwrap().attempts, 2);
    assert!(message(&cluster, "Ready").contains("failed 2 times: "), "{}", message(&cluster, "Ready"));
    cluster.minutes += 1;
    converge(&mut cluster, &platform());
    let now = status(&cluster);
    assert_eq!(now.last_failed_plan, None);
    assert_eq!(now.current_overrides.unwrap().len(), 1);
    assert_eq!(cluster.pod_deletions.values().sum::<u32>(), 1, "the pod already has the new template");
}

/// Returns a running node with an edit that waits for a certificate, which is not issued.
fn waiting_for_certificate() -> Cluster {
    let mut cluster = running(node("a"), &platform());
    cluster.is_issuer_down = true;
    cluster.edit(|node| {
        let tls = SidecarTls { issuer_name: Some("ca".into()), ..SidecarTls::default() };
        node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
        node.spec.image = "sei:1".into();
    });
    run_times(&mut cluster, 3);
    assert_eq!(status(&cluster).waiting_for.unwrap().what, "Secret");
    cluster
}

fn run_times(cluster: &mut Cluster, times: usize) {
    for _ in 0..times {
        run_once(cluster, &platform());
    }
}

fn last_plan(cluster: &Cluster) -> (PlanKind, PlanPhase) {
    let plan = status(cluster).plan.unwrap();
    (plan.kind.unwrap(), plan.phase)
}

/// Runs every component for some minutes.
fn run_minutes(cluster: &mut Cluster, minutes: i64) {
    for _ in 0..minutes {
        cluster.minutes += 1;
        run_times(cluster, 5);
    }
}

/// Nothing that the pod runs with has changed yet, and it may take hours until the update continues or the edit is corrected.
#[test]
fn pending_update_does_not_hold_seid_back() {
    for has_failed in [false, true] {
        let mut cluster = waiting_for_certificate();
        cluster.minutes += if has_failed { 16 } else { 2 };
        run_times(&mut cluster, 1);
        let phase = if has_failed { PlanPhase::Failed } else { PlanPhase::Active };
        assert_eq!(last_plan(&cluster), (PlanKind::NodeUpdate, phase));
        let failed = status(&cluster).last_failed_plan;
        // The process of the sidecar restarts.
        cluster.restart_sidecar();
        cluster.observed.service = None;
        run_times(&mut cluster, 6);
        assert!(cluster.sidecar.ready, "seid runs again, failed: {has_failed}: {:#?}", status(&cluster));
        assert!(cluster.observed.service.is_some(), "failed: {has_failed}");
        assert_eq!(status(&cluster).last_failed_plan, failed);
        if has_failed {
            assert_eq!(last_plan(&cluster), (PlanKind::MarkReady, PlanPhase::Complete), "within the backoff");
            assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateFailed");
            assert_eq!(reason(&cluster, "Ready"), "PlanFailed");
        } else {
            assert_eq!(last_plan(&cluster), (PlanKind::NodeUpdate, PlanPhase::Active), "it waits again");
        }
        // The pod and objects are deleted, and then the StatefulSet.
        run_minutes(&mut cluster, 1);
        cluster.delete_pod();
        cluster.delete_objects();
        run_minutes(&mut cluster, 2);
        assert!(cluster.sidecar.ready, "seid runs in the new pod, failed: {has_failed}");
        let Observed { service, proxy_config, network_policy, .. } = &cluster.observed;
        let restored = [service.is_some(), proxy_config.is_some(), network_policy.is_some()];
        assert_eq!(restored, [true; 3], "failed: {has_failed}");
        cluster.delete_stateful_set();
        run_minutes(&mut cluster, 2);
        assert!(
            cluster.sidecar.ready,
            "seid runs in the pod of a restored StatefulSet, failed: {has_failed}"
        );
        assert_eq!((status(&cluster).current_image.as_deref(), pod_deletions(&cluster)), (Some("sei:0"), 0));
        assert_eq!(cluster.pod_image("seid").as_deref(), Some("sei:0"));
        cluster.is_issuer_down = false;
        cluster.minutes += 11;
        converge(&mut cluster, &platform());
        assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{:#?}", status(&cluster));
        assert_eq!((status(&cluster).current_image.as_deref(), pod_deletions(&cluster)), (Some("sei:1"), 1));
        assert_eq!(status(&cluster).last_failed_plan, None);
    }
}

/// What it has applied so far is undone with the edit.
#[test]
fn interrupted_update_is_completed_or_undone() {
    for is_withdrawn in [false, true] {
        let mut cluster = waiting_for_certificate();
        cluster.minutes += 2;
        cluster.restart_sidecar();
        run_times(&mut cluster, 1);
        assert_eq!(last_plan(&cluster), (PlanKind::MarkReady, PlanPhase::Active));
        assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateAndTLSToggleStarted", "it continues");
        if is_withdrawn {
            run_until_released(&mut cluster);
            cluster.edit(|live| live.spec = node("a").spec);
        }
        cluster.is_issuer_down = is_withdrawn;
        converge(&mut cluster, &platform());
        assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{:#?}", status(&cluster));
        assert_eq!(cluster.observed.certificate.is_some(), !is_withdrawn);
        assert_eq!(pod_deletions(&cluster), u32::from(!is_withdrawn));
        assert_eq!(status(&cluster).reconciled_generation, cluster.node.metadata.generation);
    }
}

/// Runs every component until a plan that lets seid run is complete.
fn run_until_released(cluster: &mut Cluster) {
    for _ in 0..10 {
        run_once(cluster, &platform());
        if last_plan(cluster) == (PlanKind::MarkReady, PlanPhase::Complete) {
            return;
        }
    }
    panic!("seid does not run: {:#?}", status(cluster));
}

/// The configuration of the new pod is not written, or only in part.
#[test]
fn pod_of_an_unfinished_update_is_not_marked_ready() {
    // A task of the sidecar fails, and the previous configuration is not known.
    let mut cluster = running_without_applied_spec();
    cluster.edit(|node| {
        node.spec.image = "sei:1".into();
        node.spec.overrides.insert("evm.http_port".into(), "8545".into());
    });
    run_until_failed(&mut cluster, "config-apply");
    let failed = status(&cluster).plan.unwrap().id;
    cluster.minutes += 1;
    // The next attempt waits for a certificate, and so does the one after it.
    cluster.is_issuer_down = true;
    cluster.edit(|node| {
        let tls = SidecarTls { issuer_name: Some("ca".into()), ..SidecarTls::default() };
        node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
    });
    for minutes in [0, 2, 15, 1, 15] {
        cluster.minutes += minutes;
        run_times(&mut cluster, 3);
        assert!(!cluster.sidecar.ready, "{:#?}", status(&cluster));
    }
    assert_ne!(status(&cluster).plan.unwrap().id, failed);
    // An edit that is held back does not change that.
    cluster.edit(|node| node.spec.image = "Sei:1".into());
    run_times(&mut cluster, 3);
    assert!(!cluster.sidecar.ready && reason(&cluster, "SpecApplied") == "SpecInvalid");
    cluster.edit(|node| node.spec.image = "sei:1".into());
    cluster.is_issuer_down = false;
    cluster.minutes += 11;
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{:#?}", status(&cluster));

    // An operator is killed after it has applied the StatefulSet, and the certificate is lost.
    let mut cluster = waiting_for_certificate();
    cluster.is_issuer_down = false;
    let actions = reconcile(&mut cluster.clone(), &platform(), Fault::None);
    reconcile(&mut cluster, &platform(), Fault::KilledAfter(actions));
    cluster.is_issuer_down = true;
    cluster.secrets.clear();
    cluster.delete_pod();
    run_minutes(&mut cluster, 3);
    assert_eq!(cluster.pod_image("seid").as_deref(), Some("sei:1"), "{:#?}", status(&cluster));
    assert!(!cluster.sidecar.ready);
}

#[test]
fn edit_resolves_a_failed_update_at_once() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        node.spec.overrides.insert("evm.http_port".into(), "8545".into());
    });
    run_until_failed(&mut cluster, "config-apply");
    cluster.edit(|node| node.spec.overrides.clear());
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateComplete");
    assert!(cluster.sidecar.ready, "seid may run again");
}

/// Removes what previous versions did not store in plans.
fn make_plan_legacy(cluster: &mut Cluster) {
    let plan = cluster.node.status.as_mut().unwrap().plan.as_mut().unwrap();
    plan.changes = None;
    plan.peers = None;
}

#[test]
fn changes_of_a_failed_update_are_kept_also_for_legacy_plans() {
    for is_legacy in [false, true] {
        let mut cluster = running(node("a"), &platform());
        cluster.edit(|node| {
            node.spec.overrides.insert("evm.http_port".into(), "8545".into());
        });
        run_until_failed(&mut cluster, "config-apply");
        let failed = status(&cluster).plan.unwrap();
        let changes = PlanChanges { pod: true, config: ConfigChange::Incremental, ..PlanChanges::default() };
        assert_eq!((failed.changes, failed.peers), (Some(changes), Some(Vec::new())));
        if is_legacy {
            make_plan_legacy(&mut cluster);
        }
        // There is no drift any more, but the configuration may be half written.
        cluster.edit(|node| node.spec.overrides.clear());
        reconcile(&mut cluster, &platform(), Fault::None);
        let next = status(&cluster).plan.unwrap();
        assert_ne!(next.id, failed.id);
        assert_eq!(next.changes, Some(changes), "legacy: {is_legacy}");
        assert!(next.tasks.iter().any(|task| task.task_type == "config-apply"));
        converge(&mut cluster, &platform());
        assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    }
}

#[test]
fn legacy_plan_in_progress_completes() {
    for is_legacy in [false, true] {
        let mut cluster = running(node("a"), &platform());
        let addresses = vec!["0123456789abcdef0123456789abcdef01234567@host:26656".to_owned()];
        let peers =
            vec![PeerSource { static_peers: Some(StaticPeers { addresses }), ..PeerSource::default() }];
        cluster.edit(|node| node.spec.peers = peers.clone());
        reconcile(&mut cluster, &platform(), Fault::None);
        let plan = status(&cluster).plan.unwrap();
        assert_eq!(plan.peers.as_ref(), Some(&peers));
        if is_legacy {
            make_plan_legacy(&mut cluster);
        }
        converge(&mut cluster, &platform());
        let now = status(&cluster);
        assert_eq!(now.plan.unwrap().id, plan.id, "one plan, legacy: {is_legacy}");
        assert_eq!(now.current_peers.as_ref(), Some(&peers), "legacy: {is_legacy}");
        assert_eq!(now.reconciled_generation, cluster.node.metadata.generation);
    }
}

#[test]
fn image_reverted_during_an_update_is_reverted() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:broken".into());
    reconcile(&mut cluster, &platform(), Fault::None);
    reconcile(&mut cluster, &platform(), Fault::None);
    cluster.run_stateful_set_controller();
    reconcile(&mut cluster, &platform(), Fault::None);
    cluster.run_kubelet();
    cluster.run_stateful_set_controller();
    // The pod with the broken image does not start.
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(status(&cluster).waiting_for.unwrap().target, "Pod/a-0");
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:0"), "recorded only once it runs");
    cluster.edit(|node| node.spec.image = "sei:0".into());
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    let pod = cluster.observed.pods[0].spec.clone().unwrap();
    let seid = pod.containers.iter().find(|one| one.name == "seid").unwrap();
    assert_eq!(seid.image.as_deref(), Some("sei:0"));
}

#[test]
fn waits_of_a_task_share_one_deadline() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    reconcile(&mut cluster, &platform(), Fault::None);
    reconcile(&mut cluster, &platform(), Fault::None);
    let first = status(&cluster).waiting_for.unwrap();
    cluster.minutes += 5;
    reconcile(&mut cluster, &platform(), Fault::None);
    let second = status(&cluster).waiting_for.unwrap();
    assert_eq!((first.deadline, first.since), (second.deadline, second.since));
    cluster.minutes += 60;
    reconcile(&mut cluster, &platform(), Fault::None);
    let failed = status(&cluster);
    assert_eq!(failed.plan.unwrap().phase, PlanPhase::Failed);
    let error = failed.last_failed_plan.unwrap().task.error;
    assert!(error.starts_with("deadline exceeded while waiting for StatefulSet a: "), "{error}");
}

/// Without an error of the pod, the message says after a while where the pod hangs. Until then it does not change.
#[test]
fn late_pod_start_reports_what_to_check() {
    let waiting_message = |cluster: &Cluster| status(cluster).waiting_for.unwrap().message.unwrap();
    let late_message = |cluster: &mut Cluster| {
        reconcile(cluster, &platform(), Fault::None);
        assert_eq!(waiting_message(cluster), "the pod is starting");
        cluster.minutes += 2;
        reconcile(cluster, &platform(), Fault::None);
        waiting_message(cluster)
    };
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    for _ in 0..4 {
        reconcile(&mut cluster, &platform(), Fault::None);
        cluster.run_stateful_set_controller();
    }
    cluster.run_kubelet();
    let no_pod = cluster.clone();
    let text = late_message(&mut cluster);
    assert!(text.contains("kube-controller-manager"), "{text}");

    let mut cluster = no_pod;
    cluster.run_stateful_set_controller();
    let unscheduled = cluster.clone();
    let text = late_message(&mut cluster);
    assert!(text.contains("kube-scheduler"), "{text}");

    let mut cluster = unscheduled;
    let mut pod = (*cluster.observed.pods[0]).clone();
    let scheduled = json!({ "conditions": [{ "type": "PodScheduled", "status": "True", "reason": null, "message": null }] });
    pod.status = Some(serde_json::from_value(scheduled).unwrap());
    cluster.observed.pods[0] = Arc::new(pod);
    let text = late_message(&mut cluster);
    assert!(text.contains("kubectl describe pod a-0"), "{text}");
}

#[test]
fn failed_setup_restarts_with_another_tls_secret() {
    let mut node = node("a");
    let tls = SidecarTls { secret_name: Some("late".into()), ..SidecarTls::default() };
    node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
    let mut cluster = Cluster::new(node);
    for _ in 0..4 {
        run_once(&mut cluster, &platform());
    }
    let waiting = status(&cluster).waiting_for.unwrap();
    assert_eq!(waiting.target, "Secret/late");
    assert_eq!(reason(&cluster, "SidecarTLSSecretReady"), "TLSSecretNotFound");
    cluster.minutes += 60;
    run_once(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Failed));
    cluster.secrets.insert("other".into(), certificate::named("other", certificate::params("a")));
    cluster.edit(|node| {
        let tls = SidecarTls { secret_name: Some("other".into()), ..SidecarTls::default() };
        node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
    });
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

#[test]
fn retry_is_counted_before_it_is_submitted() {
    let mut cluster = Cluster::new(node("a"));
    cluster.sidecar.failures = 1;
    let mut is_counted = false;
    for _ in 0..40 {
        run_once(&mut cluster, &platform());
        let plan = status(&cluster).plan.unwrap();
        let task = plan.tasks.iter().find(|task| task.task_type == "configure-genesis").unwrap();
        if task.retry_count == Some(1) && !is_counted {
            is_counted = true;
            assert_eq!(cluster.submissions[&task.id], 1, "not submitted again in the reconcile that counts");
            assert_eq!(task.status, TaskStatus::Pending);
            let waiting = status(&cluster).waiting_for.unwrap();
            assert_eq!(waiting.target, "Retry/configure-genesis");
        }
        cluster.minutes += 1;
    }
    assert!(is_counted);
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running));
}

/// A refused repair is attempted once per reconcile, and reported. The status changes once, however often it is refused.
#[test]
fn refused_repair_is_reported_and_not_repeated() {
    let mut cluster = running(node("a"), &platform());
    cluster.delete_objects();
    assert_eq!(reconcile(&mut cluster, &platform(), Fault::Refused), 3, "one attempt for each object");
    assert_eq!(reason(&cluster, "SpecApplied"), "WriteRefused");
    assert!(message(&cluster, "SpecApplied").contains(REFUSAL), "{}", message(&cluster, "SpecApplied"));
    assert_eq!(reason(&cluster, "Ready"), "SpecNotApplied");
    assert!(message(&cluster, "Ready").contains(REFUSAL), "{}", message(&cluster, "Ready"));
    let refused = status(&cluster);
    for _ in 0..3 {
        cluster.minutes += 1;
        reconcile(&mut cluster, &platform(), Fault::Refused);
        assert_eq!(status(&cluster), refused);
    }
    converge(&mut cluster, &platform());
    assert_eq!(
        (reason(&cluster, "SpecApplied"), reason(&cluster, "Ready")),
        ("AllApplied".into(), "NodeReady".into())
    );
}

/// A refused write of a plan is what the plan waits for.
#[test]
fn refused_write_of_a_plan_is_reported_and_retried() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(reconcile(&mut cluster, &platform(), Fault::Refused), 1);
    assert_eq!(reason(&cluster, "SpecApplied"), "WriteRefused");
    assert_eq!(reason(&cluster, "Ready"), "Updating");
    let waiting = status(&cluster).waiting_for.unwrap();
    assert_eq!((waiting.what.as_str(), waiting.message.as_deref()), ("StatefulSet", Some(REFUSAL)));
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

/// Edits that can be judged before anything is touched, with what the condition says.
#[test]
fn bad_edit_leaves_a_running_node_alone() {
    type Change = fn(&mut SeiNode);
    let cases: [(&str, Change); 6] = [
        ("spec.overrides.evm.htp_port: unknown setting", |node| {
            node.spec.overrides.insert("evm.htp_port".into(), "8545".into());
        }),
        ("spec.overrides.evm.http_port: override \"evm.http_port\": \"many\"", |node| {
            node.spec.overrides.insert("evm.http_port".into(), "many".into());
        }),
        ("network.p2p.persistent_peers: invalid peer", |node| {
            node.spec.overrides.insert("network.p2p.persistent_peers".into(), "host:26656".into());
        }),
        ("spec.peers[0].static.addresses: \"host:26656\" is not a peer", |node| {
            let static_peers = Some(StaticPeers { addresses: vec!["host:26656".into()] });
            node.spec.peers = vec![PeerSource { static_peers, ..PeerSource::default() }];
        }),
        ("spec.image: \"Sei:1\" is not an image reference", |node| node.spec.image = "Sei:1".into()),
        ("spec.sidecar.image: \"side car\" is not an image reference", |node| {
            node.spec.sidecar =
                Some(SidecarConfig { image: Some("side car".into()), ..SidecarConfig::default() });
        }),
    ];
    for (expected, change) in cases {
        let mut cluster = running(node("a"), &platform());
        let (plan, tasks) = (status(&cluster).plan.unwrap().id, cluster.submissions.clone());
        cluster.edit(change);
        converge(&mut cluster, &platform());
        assert_eq!(reason(&cluster, "SpecApplied"), "SpecInvalid", "{expected}");
        assert!(message(&cluster, "SpecApplied").contains(expected), "{}", message(&cluster, "SpecApplied"));
        assert_eq!(reason(&cluster, "Ready"), "SpecNotApplied");
        let now = status(&cluster);
        assert_eq!(now.plan.unwrap().id, plan, "no plan: {expected}");
        assert_ne!(now.reconciled_generation, cluster.node.metadata.generation);
        assert_eq!((cluster.pod_deletions.len(), &cluster.submissions), (0, &tasks), "{expected}");
        assert!(cluster.sidecar.ready, "seid runs: {expected}");
        // What other parts of the node need is still done.
        cluster.restart_sidecar();
        cluster.delete_objects();
        cluster.minutes += 1;
        converge(&mut cluster, &platform());
        assert!(cluster.sidecar.ready && cluster.observed.service.is_some(), "{expected}");
        cluster.edit(|live| live.spec = node("a").spec);
        converge(&mut cluster, &platform());
        assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{expected}");
        assert_eq!(cluster.pod_deletions.len(), 0, "{expected}");
    }
}

/// The node runs its previous configuration, so that is what lost objects are restored from.
#[test]
fn lost_objects_are_restored_while_an_edit_is_invalid() {
    let mut cluster = running(node("a"), &platform());
    let service = |cluster: &Cluster| json!(cluster.observed.service.as_ref().unwrap().spec);
    let before = (template(&cluster), service(&cluster));
    cluster.edit(|node| {
        node.spec.image = "Sei:1".into();
        node.spec.sidecar = Some(SidecarConfig { port: 7788, ..SidecarConfig::default() });
    });
    converge(&mut cluster, &platform());
    cluster.delete_objects();
    cluster.delete_stateful_set();
    cluster.minutes += 1;
    converge(&mut cluster, &platform());
    assert!(cluster.observed.stateful_set.is_some(), "{:#?}", status(&cluster));
    assert_eq!((template(&cluster), service(&cluster)), before, "the previous configuration");
    assert!(cluster.sidecar.ready, "seid runs");
    assert_eq!((reason(&cluster, "SpecApplied"), pod_deletions(&cluster)), ("SpecInvalid".into(), 0));
    assert_eq!(status(&cluster).reconciled_generation, Some(1), "the edit is not applied");
    let writes = cluster.writes;
    cluster.minutes += 60;
    converge(&mut cluster, &platform());
    assert_eq!(cluster.writes, writes, "nothing is left to restore");

    // A template that someone has modified is restored as well.
    let mut set = to_stateful_set(cluster.observed.stateful_set.as_deref().unwrap());
    set.spec.as_mut().unwrap().replicas = Some(0);
    cluster.observed.stateful_set = Some(to_observed(&set));
    converge(&mut cluster, &platform());
    let restored = to_stateful_set(cluster.observed.stateful_set.as_deref().unwrap());
    assert_eq!(restored.spec.unwrap().replicas, Some(1));

    cluster.edit(|node| node.spec.image = "sei:1".into());
    converge(&mut cluster, &platform());
    assert_eq!((reason(&cluster, "Ready"), pod_deletions(&cluster)), ("NodeReady".into(), 1));
    assert_eq!(status(&cluster).current_sidecar_port, Some(7788));
}

/// Returns the pod template of the stored StatefulSet.
fn template(cluster: &Cluster) -> Value {
    json!(to_stateful_set(cluster.observed.stateful_set.as_deref().unwrap()).spec.unwrap().template)
}

#[test]
fn bad_spec_of_a_new_node_gets_no_plan_until_it_is_corrected() {
    let mut bad = node("a");
    bad.spec.overrides.insert("no.such.setting".into(), "1".into());
    let mut cluster = Cluster::new(bad);
    converge(&mut cluster, &platform());
    assert_eq!((status(&cluster).plan, cluster.observed.claim.is_none()), (None, true));
    assert_eq!(reason(&cluster, "SpecApplied"), "SpecInvalid");
    assert_eq!(reason(&cluster, "Ready"), "SpecNotApplied");
    cluster.edit(|node| node.spec.overrides.clear());
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

/// A node of another operator may have settings that are unknown here. An edit of something else does not touch them.
#[test]
fn settings_that_an_edit_does_not_apply_are_not_judged() {
    let mut cluster = running(node("a"), &platform());
    let unknown = [("upstream.only".to_owned(), "1".to_owned())];
    cluster.node.spec.overrides = unknown.clone().into();
    cluster.node.status.as_mut().unwrap().current_overrides = Some(unknown.into());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
}
