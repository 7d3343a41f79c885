//! What keeps a running node running: adoption, rollback, pacing and deadlines.

use api::sei_node::{LabelPeers, PeerSource, PlanKind, PlanPhase, SeiNodePhase};
use api::sidecar_wire::ChainStatus;
use plan::Platform;
use plan::node::{ChainObservation, ChainProgress, Queued, UpdateSlot};
use plan::platform::SidecarIsolation;

use super::cluster::Cluster;
use super::fixture::{
    converge, message, node, platform, pod_deletions, reason, run_once, run_until_failed, running, status,
};
use super::reconcile::{Fault, reconcile, time};

/// Returns a running node of another controller: it has its own objects, and a status without what only we store.
fn adopted() -> Cluster {
    let mut cluster = running(node("a"), &platform());
    let status = cluster.node.status.as_mut().unwrap();
    (status.reconciled_generation, status.applied_spec, status.plan) = (None, None, None);
    (status.current_sidecar_port, status.current_overrides) = (None, None);
    (cluster.observed.network_policy, cluster.observed.proxy_config) = (None, None);
    cluster
}

#[test]
fn adopted_node_is_not_touched_until_its_spec_is_edited() {
    let mut cluster = adopted();
    // Settings of this platform differ from those of the previous controller.
    let mut platform = platform();
    platform.sidecar_image = "sidecar:2".into();
    converge(&mut cluster, &platform);
    cluster.edit(|node| node.spec.paused = true);
    converge(&mut cluster, &platform);
    cluster.edit(|node| node.spec.paused = false);
    converge(&mut cluster, &platform);
    assert!(status(&cluster).adopted);
    assert!(cluster.observed.network_policy.is_none() && cluster.observed.proxy_config.is_none());
    assert_eq!(pod_deletions(&cluster), 0);
    assert_eq!(reason(&cluster, "SpecApplied"), "AdoptedNodePending");
    let pending = message(&cluster, "SpecApplied");
    for change in ["sidecar:2 instead of sidecar:1", "new NetworkPolicy a", "new ConfigMap a", "sidecar port"]
    {
        assert!(pending.contains(change), "{change}: {pending}");
    }
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");

    cluster.edit(|node| node.spec.pod_labels = [("team".into(), "infra".into())].into());
    converge(&mut cluster, &platform);
    assert!(!status(&cluster).adopted);
    assert!(cluster.observed.network_policy.is_some() && cluster.observed.proxy_config.is_some());
    assert_eq!(pod_deletions(&cluster), 1);
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
}

#[test]
fn adopted_node_without_stateful_set_is_set_up_again() {
    let mut cluster = adopted();
    run_once(&mut cluster, &platform());
    cluster.observed.stateful_set = None;
    cluster.observed.pods.clear();
    converge(&mut cluster, &platform());
    assert!(cluster.observed.stateful_set.is_some());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

#[test]
fn update_that_fails_after_the_pod_is_replaced_is_rolled_back() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        node.spec.image = "sei:1".into();
        node.spec.overrides = [("evm.http_port".into(), "8546".into())].into();
    });
    run_until_failed(&mut cluster, "config-apply");
    assert!(status(&cluster).last_failed_plan.unwrap().rolled_back);
    converge(&mut cluster, &platform());
    let rolled_back = status(&cluster);
    assert_eq!(rolled_back.current_image.as_deref(), Some("sei:0"));
    assert_eq!(rolled_back.current_overrides, Some([].into()));
    let plan = rolled_back.plan.clone().unwrap();
    assert_eq!((plan.kind, plan.phase), (Some(PlanKind::Rollback), PlanPhase::Complete));
    assert!(cluster.sidecar.ready, "seid runs");
    assert_eq!(reason(&cluster, "SpecApplied"), "UpdateRolledBack");
    assert_eq!(reason(&cluster, "Ready"), "SpecNotApplied");
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateFailed");
    for part in
        ["config-apply", "task failed", "the node runs its previous configuration", "outrigger.dev/retry"]
    {
        assert!(
            message(&cluster, "SpecApplied").contains(part),
            "{part}: {}",
            message(&cluster, "SpecApplied")
        );
    }
    assert_eq!(rolled_back.reconciled_generation, Some(1), "the edit is not applied");

    // It is not tried again by itself, and the previous configuration is kept.
    cluster.observed.service = None;
    let pods = pod_deletions(&cluster);
    for _ in 0..20 {
        cluster.minutes += 10;
        converge(&mut cluster, &platform());
    }
    assert_eq!(pod_deletions(&cluster), pods);
    assert!(cluster.observed.service.is_some(), "still repaired");
    assert_eq!(reason(&cluster, "SpecApplied"), "UpdateRolledBack");
    // A restarted sidecar is marked ready.
    cluster.sidecar.ready = false;
    converge(&mut cluster, &platform());
    assert!(cluster.sidecar.ready);
    assert_eq!(reason(&cluster, "SpecApplied"), "UpdateRolledBack");

    let annotations = cluster.node.metadata.annotations.get_or_insert_default();
    annotations.insert("outrigger.dev/retry".into(), "now".into());
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
    assert_eq!(status(&cluster).last_failed_plan, None);
    assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_eq!(status(&cluster).reconciled_generation, Some(2));
}

/// The data may be that of the new image: the previous one must not run on it again.
#[test]
fn update_is_not_rolled_back_if_seid_may_have_run() {
    for has_failed in [false, true] {
        let mut cluster = running(node("a"), &platform());
        cluster.edit(|node| node.spec.image = "sei:1".into());
        if has_failed {
            run_until_failed(&mut cluster, "mark-ready");
        } else {
            // The sidecar gets mark-ready, and does not answer until the deadline.
            run_until_task(&mut cluster);
            cluster.run_sidecar();
            cluster.sidecar.up = false;
            cluster.minutes += 61;
            reconcile(&mut cluster, &platform(), Fault::None);
            cluster.sidecar.up = true;
        }
        let failed = status(&cluster).last_failed_plan.unwrap();
        assert_eq!((failed.task.task_type.as_str(), failed.rolled_back), ("mark-ready", has_failed));
        cluster.minutes += 1;
        converge(&mut cluster, &platform());
        let image = if has_failed { "sei:0" } else { "sei:1" };
        assert_eq!(status(&cluster).current_image.as_deref(), Some(image));
        assert!(cluster.sidecar.ready);
    }
}

#[test]
fn edit_during_or_after_a_rollback_is_applied() {
    for converged in [true, false] {
        let mut cluster = running(node("a"), &platform());
        cluster.edit(|node| node.spec.overrides = [("evm.http_port".into(), "8546".into())].into());
        run_until_failed(&mut cluster, "config-apply");
        run_once(&mut cluster, &platform());
        if converged {
            converge(&mut cluster, &platform());
        }
        cluster.edit(|node| node.spec.overrides = [("evm.http_port".into(), "8547".into())].into());
        converge(&mut cluster, &platform());
        let overrides = status(&cluster).current_overrides.unwrap();
        assert_eq!(overrides["evm.http_port"], "8547", "{converged}");
        assert_eq!(reason(&cluster, "Ready"), "NodeReady");
        assert_eq!(status(&cluster).last_failed_plan, None);
    }
}

#[test]
fn failed_rollback_is_retried() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.overrides = [("evm.http_port".into(), "8546".into())].into());
    run_until_failed(&mut cluster, "config-apply");
    // The rollback fails, too.
    run_until_failed(&mut cluster, "config-apply");
    let plan = status(&cluster).plan.unwrap();
    assert_eq!((plan.kind, plan.phase), (Some(PlanKind::Rollback), PlanPhase::Failed));
    assert!(
        message(&cluster, "SpecApplied").contains("is being returned to"),
        "{}",
        message(&cluster, "SpecApplied")
    );
    cluster.minutes += 2;
    converge(&mut cluster, &platform());
    assert!(cluster.sidecar.ready);
    assert!(message(&cluster, "SpecApplied").contains("the node runs its previous configuration"));
}

#[test]
fn platform_drift_waits_for_a_slot_and_edits_do_not() {
    let mut cluster = running(node("a"), &platform());
    let mut changed = platform();
    changed.sidecar_image = "sidecar:2".into();
    let queued = |position| {
        UpdateSlot::Queued(Queued { position, reason: "at most one node is updated at a time".into() })
    };
    cluster.update_slot = queued(9);
    converge(&mut cluster, &changed);
    assert_eq!(pod_deletions(&cluster), 0);
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateQueued");
    assert_eq!(
        message(&cluster, "NodeUpdateInProgress"),
        "position 16 or better in the queue for: sidecar image sidecar:2 instead of sidecar:1; at most one node is updated at a \
         time"
    );
    assert_eq!(reason(&cluster, "Ready"), "NodeReady", "it keeps running");
    // Its objects are still repaired.
    cluster.observed.service = None;
    cluster.update_slot = queued(10);
    let writes = cluster.writes;
    converge(&mut cluster, &changed);
    assert!(cluster.observed.service.is_some());
    assert_eq!(cluster.writes - writes, 1, "the Service, and not each position");
    // Pausing and resuming does not count as an edit.
    cluster.edit(|node| node.spec.paused = true);
    converge(&mut cluster, &changed);
    cluster.edit(|node| node.spec.paused = false);
    converge(&mut cluster, &changed);
    assert_eq!(pod_deletions(&cluster), 0);

    cluster.edit(|node| node.spec.image = "sei:1".into());
    converge(&mut cluster, &changed);
    assert_eq!(pod_deletions(&cluster), 1, "both changes in one pod replacement");
    assert_eq!(status(&cluster).current_sidecar_image.as_deref(), Some("sidecar:2"));
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateComplete");
}

/// Returns a node whose peers are selected by a label that selects none.
fn with_label_source() -> Cluster {
    let mut node = node("a");
    let label = LabelPeers { selector: [("a".into(), "b".into())].into(), namespace: None };
    node.spec.peers = vec![PeerSource { label: Some(label), ..PeerSource::default() }];
    running(node, &platform())
}

#[test]
fn changed_settings_and_objects_wait_for_a_slot() {
    let changes: [fn(&mut Cluster, &mut Platform); 4] = [
        |_, platform| platform.sidecar_image = "sidecar:2".into(),
        |_, platform| platform.proxy_image = "proxy:2".into(),
        |_, platform| platform.sidecar_isolation = SidecarIsolation::Shared,
        |cluster, _| cluster.observed.label_peers = [(0, vec!["b-0.b".to_owned()])].into(),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let (mut cluster, mut platform) = (with_label_source(), platform());
        let pods = pod_deletions(&cluster);
        change(&mut cluster, &mut platform);
        cluster.update_slot = UpdateSlot::Queued(Queued { position: 1, reason: "wait".into() });
        converge(&mut cluster, &platform);
        assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateQueued", "change {index}");
        assert_eq!(pod_deletions(&cluster), pods, "change {index}");
        cluster.update_slot = UpdateSlot::Granted;
        cluster.minutes += 2;
        converge(&mut cluster, &platform);
        assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateComplete", "change {index}");
    }
}

#[test]
fn queued_node_continues_with_a_slot_or_without_drift() {
    for is_granted in [true, false] {
        let mut cluster = running(node("a"), &platform());
        let mut changed = platform();
        changed.proxy_image = "proxy:2".into();
        cluster.update_slot = UpdateSlot::Queued(Queued { position: 2, reason: "wait".into() });
        converge(&mut cluster, &changed);
        assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateQueued");
        if is_granted {
            cluster.update_slot = UpdateSlot::Granted;
            converge(&mut cluster, &changed);
            assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateComplete");
        } else {
            converge(&mut cluster, &platform());
            assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "NoUpdate");
        }
        assert_eq!(pod_deletions(&cluster), u32::from(is_granted));
    }
}

/// Returns a new node whose plan waits for a sidecar task.
fn waiting_for_task() -> Cluster {
    let mut cluster = Cluster::new(node("a"));
    run_until_task(&mut cluster);
    cluster
}

/// Runs every component until the plan waits for a sidecar task.
fn run_until_task(cluster: &mut Cluster) {
    for _ in 0..60 {
        run_once(cluster, &platform());
        if status(cluster).waiting_for.is_some_and(|waiting| waiting.what == "SidecarTask") {
            return;
        }
    }
    panic!("no task was submitted: {:#?}", status(cluster));
}

/// Returns the minutes until the deadline of the current task.
fn minutes_left(cluster: &Cluster) -> i64 {
    let deadline = status(cluster).waiting_for.unwrap().deadline;
    deadline.0.duration_since(time(cluster.minutes).0).as_mins()
}

fn phase_after(cluster: &mut Cluster, minutes: i64) -> Option<SeiNodePhase> {
    cluster.minutes += minutes;
    reconcile(cluster, &platform(), Fault::None);
    status(cluster).phase
}

#[test]
fn time_while_paused_does_not_count() {
    let mut cluster = waiting_for_task();
    let limit = minutes_left(&cluster);
    cluster.edit(|node| node.spec.paused = true);
    phase_after(&mut cluster, limit - 10);
    cluster.edit(|node| node.spec.paused = false);
    assert_eq!(phase_after(&mut cluster, 600), Some(SeiNodePhase::Initializing));
    assert_eq!(minutes_left(&cluster), 10);
    assert_eq!(phase_after(&mut cluster, 9), Some(SeiNodePhase::Initializing));
    assert_eq!(phase_after(&mut cluster, 1), Some(SeiNodePhase::Failed));
}

#[test]
fn deadline_missed_without_an_operator_is_extended() {
    let mut cluster = waiting_for_task();
    let limit = minutes_left(&cluster);
    cluster.observed.active_since = Some(time(cluster.minutes + limit));
    assert_eq!(phase_after(&mut cluster, limit), Some(SeiNodePhase::Initializing));
    assert_eq!(minutes_left(&cluster), limit);
    assert_eq!(phase_after(&mut cluster, limit - 1), Some(SeiNodePhase::Initializing));
    assert_eq!(phase_after(&mut cluster, 1), Some(SeiNodePhase::Failed));
}

#[test]
fn pending_answer_at_the_deadline_is_awaited() {
    let mut cluster = waiting_for_task();
    let limit = minutes_left(&cluster);
    // The task has finished in time, and the answer is late.
    cluster.run_sidecar();
    cluster.is_answer_pending = true;
    assert_eq!(phase_after(&mut cluster, limit + 1), Some(SeiNodePhase::Initializing));
    cluster.is_answer_pending = false;
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running));
}

/// Nothing is known about the submission until then.
#[test]
fn pending_answer_to_a_submission_is_awaited_at_the_deadline() {
    let mut cluster = Cluster::new(node("a"));
    cluster.is_submission_pending = true;
    run_until_task(&mut cluster);
    let limit = minutes_left(&cluster);
    assert_eq!(phase_after(&mut cluster, limit - 1), Some(SeiNodePhase::Initializing));
    assert_eq!(phase_after(&mut cluster, 2), Some(SeiNodePhase::Initializing), "the answer is pending");
    cluster.is_submission_pending = false;
    assert_eq!(phase_after(&mut cluster, 0), Some(SeiNodePhase::Failed), "it was not accepted in time");
}

#[test]
fn paused_node_with_an_edit_is_not_ready() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.paused = true);
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    cluster.edit(|node| node.spec.image = "sei:1".into());
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "EditPaused");
}

/// Sets what seid reports: its height, and whether it catches up. It has moved now.
fn report_height(cluster: &mut Cluster, height: i64, catching_up: bool) {
    let status = ChainStatus {
        height,
        latest_block_time: None,
        app_hash: None,
        peers: 2,
        catching_up,
        lag: None,
        validator_power: None,
        app_hash_at: None,
    };
    let now = time(cluster.minutes);
    let progress = ChainProgress {
        moved_at: now.clone(),
        answered_at: now,
        others_moved: Some(true),
        agreed_app_hash: None,
    };
    cluster.chain = (ChainObservation::Found(Box::new(status)), Some(progress));
}

#[test]
fn ready_follows_the_chain_and_blocks_cause_no_writes() {
    let mut cluster = Cluster::new(node("a"));
    report_height(&mut cluster, 1, true);
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running));
    assert_eq!(
        (reason(&cluster, "ChainSynced"), reason(&cluster, "Ready")),
        ("CatchingUp".into(), "ChainNotSynced".into())
    );
    report_height(&mut cluster, 2, false);
    converge(&mut cluster, &platform());
    assert_eq!(
        (reason(&cluster, "ChainSynced"), reason(&cluster, "Ready")),
        ("InSync".into(), "NodeReady".into())
    );
    let writes = cluster.writes;
    for height in 3..50 {
        cluster.minutes += 1;
        report_height(&mut cluster, height, false);
        run_once(&mut cluster, &platform());
    }
    assert_eq!(cluster.writes, writes, "blocks are not written to the status");
    cluster.minutes += 1;
    converge(&mut cluster, &platform());
    assert_eq!(
        (reason(&cluster, "ChainSynced"), reason(&cluster, "Ready")),
        ("Halted".into(), "ChainNotSynced".into())
    );
    assert!(message(&cluster, "Ready").contains("stays at 49"), "{}", message(&cluster, "Ready"));
    // Silence of seid for a moment changes nothing.
    report_height(&mut cluster, 50, false);
    converge(&mut cluster, &platform());
    cluster.chain.0 = ChainObservation::Unavailable("no answer".into());
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    cluster.minutes += 1;
    converge(&mut cluster, &platform());
    assert_eq!(
        (reason(&cluster, "ChainSynced"), reason(&cluster, "Ready")),
        ("NotObserved".into(), "SeidNotReady".into()),
        "the container is ready, and seid is silent"
    );
    assert!(message(&cluster, "Ready").starts_with("seid does not answer: no answer"));
    // Late answers, and none, are not written.
    let writes = cluster.writes;
    for minutes in 0..5 {
        cluster.chain.0 = match minutes % 2 {
            0 => ChainObservation::Unknown,
            _ => ChainObservation::Unavailable("no answer".into()),
        };
        cluster.minutes += 1;
        run_once(&mut cluster, &platform());
    }
    assert_eq!(cluster.writes, writes, "{:#?}", status(&cluster));
    report_height(&mut cluster, 51, false);
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

/// Its chain is known once seid answers. Until then its silence costs no writes beyond those of a node that never reports a chain.
#[test]
fn first_answer_of_seid_makes_a_new_node_ready() {
    let mut cluster = Cluster::new(node("a"));
    cluster.chain.0 = ChainObservation::Unavailable("connection refused".into());
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running));
    assert_eq!(reason(&cluster, "Ready"), "SeidNotReady");
    assert!(message(&cluster, "Ready").contains("connection refused"), "{}", message(&cluster, "Ready"));
    let silent = cluster.writes;
    report_height(&mut cluster, 1, false);
    converge(&mut cluster, &platform());
    assert_eq!(
        (reason(&cluster, "ChainSynced"), reason(&cluster, "Ready")),
        ("InSync".into(), "NodeReady".into())
    );
    assert_eq!(cluster.writes, silent + 1, "both conditions change at once");
    let without_chain = running(node("b"), &platform()).writes;
    assert!(cluster.writes <= without_chain + 1, "{} and {without_chain}", cluster.writes);
}

#[test]
fn older_sidecar_falls_back_to_the_readiness_of_the_pod() {
    let mut cluster = running(node("a"), &platform());
    assert_eq!(
        (reason(&cluster, "ChainSynced"), reason(&cluster, "Ready")),
        ("NotObserved".into(), "NodeReady".into())
    );
    let pod = std::sync::Arc::make_mut(&mut cluster.observed.pods[0]);
    pod.status.as_mut().unwrap().container_statuses[0].ready = false;
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(reason(&cluster, "Ready"), "SeidNotReady");
}
