//! The dry-run of a new configuration on the running sidecar, before anything is changed.

use api::SeiNode;
use api::sei_node::{PlanKind, PlanPhase, SidecarConfig};
use plan::Platform;
use plan::node::{DryRunObservation, PacedNode, transition_events};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::fixture::{
    converge, message, node, platform, pod_deletions, reason, run_once, run_until_failed, running, status,
    steps,
};
use super::reconcile::{Fault, reconcile};

const WHY: &str = "config-apply incremental: config.toml is not valid TOML";

fn set_port(port: &str) -> impl FnOnce(&mut SeiNode) {
    let overrides = [("evm.http_port".to_owned(), port.to_owned())].into();
    move |node| node.spec.overrides = overrides
}

/// Returns everything that an update changes before it replaces the pod, and the pod.
fn objects(cluster: &Cluster) -> Value {
    let observed = &cluster.observed;
    let pods: Vec<_> = observed.pods.iter().map(|pod| &pod.metadata.uid).collect();
    json!([observed.stateful_set, observed.service, observed.proxy_config, observed.network_policy, pods])
}

/// Returns a node whose sidecar has rejected an edit.
fn rejected() -> Cluster {
    let mut cluster = running(node("a"), &platform());
    cluster.dry_run = DryRunObservation::Rejected(WHY.into());
    cluster.edit(set_port("8546"));
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "SpecInvalid");
    cluster
}

/// Asserts that an edit of the configuration was applied with one pod replacement.
fn assert_applied(cluster: &Cluster, port: &str) {
    assert_eq!(status(cluster).current_overrides.unwrap()["evm.http_port"], port);
    assert_eq!(reason(cluster, "SpecApplied"), "AllApplied");
    assert_eq!(reason(cluster, "Ready"), "NodeReady");
    assert_eq!(status(cluster).last_failed_plan, None);
    assert_eq!(pod_deletions(cluster), 1);
}

#[test]
fn rejected_dry_run_changes_nothing_until_the_next_edit() {
    let mut cluster = running(node("a"), &platform());
    let (before, submissions) = (objects(&cluster), cluster.submissions.clone());
    cluster.dry_run = DryRunObservation::Rejected(WHY.into());
    cluster.edit(set_port("8546"));
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(
        steps(&cluster).join(" "),
        "dry-run-config apply-network-policy apply-rbac-proxy-config apply-statefulset apply-service replace-pod \
         observe-image config-apply config-validate mark-ready"
    );
    converge(&mut cluster, &platform());
    let failed = status(&cluster).last_failed_plan.unwrap();
    assert_eq!((failed.task.task_type.as_str(), failed.task.error.as_str()), ("dry-run-config", WHY));
    assert_eq!((failed.attempts, failed.next_retry_at.clone(), failed.rolled_back), (1, None, false));
    assert_eq!(reason(&cluster, "SpecApplied"), "SpecInvalid");
    for part in [WHY, "nothing was changed", "edit the spec", "outrigger.dev/retry"] {
        assert!(message(&cluster, "SpecApplied").contains(part), "{}", message(&cluster, "SpecApplied"));
    }
    assert_eq!(reason(&cluster, "Ready"), "SpecNotApplied");
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateFailed");
    assert_eq!(status(&cluster).reconciled_generation, Some(1), "the edit is not applied");

    // It is not tried again, and nothing is written.
    let writes = cluster.writes;
    for _ in 0..20 {
        cluster.minutes += 10;
        converge(&mut cluster, &platform());
    }
    assert_eq!(cluster.writes, writes);
    assert_eq!(status(&cluster).last_failed_plan, Some(failed));
    assert_eq!((objects(&cluster), &cluster.submissions), (before.clone(), &submissions));

    // A restarted sidecar is marked ready, and a restarted pod is that of the previous spec.
    cluster.restart_sidecar();
    converge(&mut cluster, &platform());
    assert!(cluster.sidecar.ready);
    cluster.minutes += 1;
    cluster.delete_pod();
    converge(&mut cluster, &platform());
    assert!(cluster.sidecar.ready);
    assert_eq!(reason(&cluster, "SpecApplied"), "SpecInvalid");
    assert_eq!((&objects(&cluster)[0], pod_deletions(&cluster)), (&before[0], 0));

    cluster.dry_run = DryRunObservation::Valid;
    cluster.edit(set_port("8547"));
    converge(&mut cluster, &platform());
    assert_applied(&cluster, "8547");
}

#[test]
fn withdrawn_edit_after_a_rejected_dry_run_leaves_no_trace() {
    for is_restarted in [false, true] {
        let mut cluster = rejected();
        if is_restarted {
            // The plan that marks the sidecar ready replaces the rejected one.
            cluster.restart_sidecar();
            converge(&mut cluster, &platform());
        }
        let submissions = cluster.submissions.clone();
        cluster.edit(|node| node.spec.overrides.clear());
        converge(&mut cluster, &platform());
        assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
        assert_eq!(reason(&cluster, "Ready"), "NodeReady");
        assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "NoUpdate");
        assert_eq!(status(&cluster).last_failed_plan, None);
        assert_eq!(status(&cluster).reconciled_generation, Some(3));
        assert_eq!((pod_deletions(&cluster), &cluster.submissions), (0, &submissions));
        let writes = cluster.writes;
        converge(&mut cluster, &platform());
        assert_eq!(cluster.writes, writes, "writes in steady state");
    }
}

#[test]
fn edit_without_configuration_has_no_dry_run() {
    let mut cluster = rejected();
    cluster.edit(|node| {
        node.spec.overrides.clear();
        node.spec.image = "sei:1".into();
    });
    converge(&mut cluster, &platform());
    assert!(!steps(&cluster).contains(&"dry-run-config".to_owned()), "{:?}", steps(&cluster));
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
    assert_eq!((pod_deletions(&cluster), status(&cluster).last_failed_plan), (1, None));
}

#[test]
fn retry_request_repeats_a_rejected_dry_run() {
    let mut cluster = rejected();
    let request = |cluster: &mut Cluster, value: &str| {
        let annotations = cluster.node.metadata.annotations.get_or_insert_default();
        annotations.insert("outrigger.dev/retry".into(), value.into());
        converge(cluster, &platform());
    };
    request(&mut cluster, "1");
    assert_eq!(status(&cluster).last_failed_plan.unwrap().attempts, 2, "asked again, and once");
    assert_eq!((reason(&cluster, "SpecApplied"), pod_deletions(&cluster)), ("SpecInvalid".into(), 0));
    // The file was repaired.
    cluster.dry_run = DryRunObservation::Valid;
    request(&mut cluster, "2");
    assert_applied(&cluster, "8546");
}

#[test]
fn sidecar_without_an_answer_does_not_block_an_update() {
    for answer in [DryRunObservation::NotSupported, DryRunObservation::Unavailable("503".into())] {
        let mut cluster = running(node("a"), &platform());
        cluster.dry_run = answer;
        cluster.edit(set_port("8546"));
        converge(&mut cluster, &platform());
        assert_applied(&cluster, "8546");
    }
    // The process of the sidecar is down while the plan is stored and starts.
    let mut cluster = running(node("a"), &platform());
    cluster.sidecar.up = false;
    cluster.dry_run = DryRunObservation::Rejected(WHY.into());
    cluster.edit(set_port("8546"));
    reconcile(&mut cluster, &platform(), Fault::None);
    reconcile(&mut cluster, &platform(), Fault::None);
    converge(&mut cluster, &platform());
    assert_applied(&cluster, "8546");
    // There is no pod.
    let mut cluster = running(node("a"), &platform());
    cluster.observed.pods.clear();
    cluster.sidecar.up = false;
    cluster.edit(set_port("8546"));
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
}

#[test]
fn skipped_dry_run_is_reported_without_further_writes() {
    let update = |answer: DryRunObservation| {
        let mut cluster = running(node("a"), &platform());
        let writes = cluster.writes;
        cluster.dry_run = answer;
        cluster.edit(set_port("8546"));
        let (mut messages, mut events) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            let before = status(&cluster);
            run_once(&mut cluster, &platform());
            events.extend(transition_events(&cluster.node, &before, &status(&cluster)));
            if reason(&cluster, "NodeUpdateInProgress") == "UpdateStarted" {
                messages.push(message(&cluster, "NodeUpdateInProgress"));
            }
        }
        assert_applied(&cluster, "8546");
        let skipped = events.into_iter().filter(|event| event.reason == "DryRunSkipped");
        let events: Vec<String> = skipped.map(|event| event.message).collect();
        (cluster.writes - writes, messages.pop().unwrap(), events)
    };
    let (writes, message, events) = update(DryRunObservation::Valid);
    assert!(!message.contains("did not check"), "{message}");
    assert_eq!(events, [""; 0]);
    for (answer, why) in [
        (DryRunObservation::NotSupported, "the running sidecar has no dry-run"),
        (DryRunObservation::Unavailable("status 503".into()), "status 503"),
    ] {
        let (writes_if_skipped, message, events) = update(answer);
        assert_eq!(writes_if_skipped, writes);
        let expected = format!("; the running sidecar did not check the configuration: {why}");
        assert!(message.contains("overrides") && message.ends_with(&expected), "{message}");
        assert!(events.len() == 1 && events[0].ends_with(why), "{events:?}");
    }
}

#[test]
fn late_answer_to_a_dry_run_is_awaited_for_seconds() {
    for answer in
        [DryRunObservation::Valid, DryRunObservation::Rejected(WHY.into()), DryRunObservation::Unknown]
    {
        let mut cluster = running(node("a"), &platform());
        cluster.dry_run = DryRunObservation::Unknown;
        cluster.edit(set_port("8546"));
        for _ in 0..5 {
            run_once(&mut cluster, &platform());
        }
        let waiting = status(&cluster).waiting_for.unwrap();
        assert_eq!(
            (waiting.what.as_str(), waiting.message.as_deref()),
            ("Sidecar", Some("it checks the new configuration"))
        );
        let left = waiting.deadline.0.duration_since(waiting.since.0).as_secs();
        assert!((1..60).contains(&left), "{left} seconds");
        let writes = cluster.writes;
        run_once(&mut cluster, &platform());
        assert_eq!((cluster.writes, pod_deletions(&cluster)), (writes, 0), "waiting writes nothing");
        cluster.dry_run = answer.clone();
        match answer {
            DryRunObservation::Rejected(_) => {
                converge(&mut cluster, &platform());
                assert_eq!(
                    (reason(&cluster, "SpecApplied"), pod_deletions(&cluster)),
                    ("SpecInvalid".into(), 0)
                );
            }
            answer => {
                cluster.minutes += i64::from(answer == DryRunObservation::Unknown);
                converge(&mut cluster, &platform());
                assert_applied(&cluster, "8546");
            }
        }
    }
}

/// Another sidecar may know settings that the running one does not.
#[test]
fn new_sidecar_image_is_not_judged_by_the_running_one() {
    let mut cluster = running(node("a"), &platform());
    cluster.dry_run = DryRunObservation::Rejected(WHY.into());
    cluster.edit(|node| {
        node.spec.sidecar =
            Some(SidecarConfig { image: Some("sidecar:2".into()), ..SidecarConfig::default() });
        set_port("8546")(node);
    });
    reconcile(&mut cluster, &platform(), Fault::None);
    assert!(!steps(&cluster).contains(&"dry-run-config".to_owned()), "{:?}", steps(&cluster));
    converge(&mut cluster, &platform());
    assert_applied(&cluster, "8546");

    // The platform changes the image after a rejection.
    let mut cluster = rejected();
    let changed = Platform { sidecar_image: "sidecar:2".into(), ..platform() };
    cluster.minutes += 1;
    converge(&mut cluster, &changed);
    assert_applied(&cluster, "8546");
}

#[test]
fn rollback_and_unfinished_update_have_no_dry_run() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(set_port("8546"));
    run_until_failed(&mut cluster, "config-apply");
    cluster.dry_run = DryRunObservation::Rejected(WHY.into());
    converge(&mut cluster, &platform());
    let plan = status(&cluster).plan.unwrap();
    assert_eq!((plan.kind, plan.phase), (Some(PlanKind::Rollback), PlanPhase::Complete));
    assert!(cluster.sidecar.ready, "seid runs");

    // The pod is replaced and seid is held back: a check must not keep the next edit from releasing it.
    let mut cluster = running(node("a"), &platform());
    cluster.edit(set_port("8546"));
    for _ in 0..60 {
        run_once(&mut cluster, &platform());
        if pod_deletions(&cluster) == 1 {
            break;
        }
    }
    cluster.dry_run = DryRunObservation::Rejected(WHY.into());
    cluster.edit(set_port("8547"));
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).current_overrides.unwrap()["evm.http_port"], "8547");
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

#[test]
fn edit_during_an_update_does_not_restart_it_for_the_dry_run() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(set_port("8546"));
    for _ in 0..60 {
        run_once(&mut cluster, &platform());
        if pod_deletions(&cluster) == 1 {
            break;
        }
    }
    let plan = status(&cluster).plan.unwrap().id;
    cluster.edit(|node| node.spec.paused = true);
    run_once(&mut cluster, &platform());
    cluster.edit(|node| node.spec.paused = false);
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).plan.unwrap().id, plan);
    assert_applied(&cluster, "8546");
}

#[test]
fn rejected_dry_run_holds_no_other_node_back() {
    let cluster = rejected();
    assert!(PacedNode::new(&cluster.node).works());
    // Until it is answered, the update counts: it is about to replace the pod.
    let mut cluster = running(node("a"), &platform());
    cluster.dry_run = DryRunObservation::Unknown;
    cluster.edit(set_port("8546"));
    run_once(&mut cluster, &platform());
    assert!(PacedNode::new(&cluster.node).is_disrupted());
}

#[test]
fn lost_stateful_set_is_restored_after_a_rejected_dry_run() {
    let mut cluster = rejected();
    cluster.observed.stateful_set = None;
    cluster.observed.pods.clear();
    (cluster.sidecar.up, cluster.sidecar.ready) = (false, false);
    cluster.minutes += 1;
    converge(&mut cluster, &platform());
    assert!(cluster.observed.stateful_set.is_some() && cluster.sidecar.ready, "{:#?}", status(&cluster));
}
