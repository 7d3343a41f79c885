//! The life of a node apart from edits: deleted objects, killed operators, bootstraps and crashes.

use std::sync::Arc;
use std::time::Duration;

use api::SeiNode;
use api::sei_node::{
    FullNodeSpec, PlanKind, PlanPhase, S3Snapshot, SeiNodePhase, SnapshotSource, TaskStatus,
};
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;
use plan::node::{Health, decide, transition_events};
use serde_json::json;

use super::cluster::{Cluster, to_observed, to_stateful_set};
use super::fixture::{
    converge, message, node, platform, reason, run_once, run_until_failed, running, status, steps, validator,
};
use super::reconcile::{Fault, reconcile, time};

#[test]
fn deleted_pod_is_marked_ready_again() {
    let mut cluster = running(node("a"), &platform());
    cluster.delete_pod();
    converge(&mut cluster, &platform());
    assert!(cluster.sidecar.ready);
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::MarkReady));
    assert!(cluster.pod_deletions.is_empty(), "the operator deleted no pod");
}

#[test]
fn every_mark_ready_plan_has_its_own_id() {
    let mut cluster = running(node("a"), &platform());
    let mut ids = vec![status(&cluster).plan.unwrap().id];
    for _ in 0..3 {
        cluster.restart_sidecar();
        cluster.minutes += 5;
        converge(&mut cluster, &platform());
        assert!(cluster.sidecar.ready);
        ids.push(status(&cluster).plan.unwrap().id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

/// Its failure stayed in the status for ever, with a next attempt that never came.
#[test]
fn failed_mark_ready_plan_is_resolved_by_a_ready_sidecar() {
    let mut cluster = running(node("a"), &platform());
    cluster.restart_sidecar();
    for _ in 0..2 {
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::MarkReady));
    // The sidecar executes the task, and cannot be asked for its result.
    assert!(cluster.run_sidecar() && cluster.sidecar.ready);
    cluster.sidecar.up = false;
    reconcile(&mut cluster, &platform(), Fault::None);
    cluster.pass_deadline();
    reconcile(&mut cluster, &platform(), Fault::None);
    let failed = status(&cluster);
    assert_eq!(failed.plan.unwrap().phase, PlanPhase::Failed);
    assert_eq!(failed.last_failed_plan.unwrap().kind, Some(PlanKind::MarkReady));
    cluster.sidecar.up = true;
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    let resolved = status(&cluster);
    assert_eq!((resolved.plan, resolved.last_failed_plan), (None, None));
}

#[test]
fn deleted_or_modified_objects_are_restored() {
    let mut cluster = running(node("a"), &platform());
    cluster.observed.service = None;
    cluster.observed.proxy_config = None;
    cluster.observed.network_policy = None;
    converge(&mut cluster, &platform());
    assert!(cluster.observed.service.is_some());
    assert!(cluster.observed.proxy_config.is_some());
    assert!(cluster.observed.network_policy.is_some());
    let mut changed = (**cluster.observed.service.as_ref().unwrap()).clone();
    changed.spec.as_mut().unwrap().selector = Some([("sei.io/node".to_owned(), "other".to_owned())].into());
    cluster.observed.service = Some(Arc::new(changed));
    converge(&mut cluster, &platform());
    let selector =
        cluster.observed.service.as_ref().unwrap().spec.as_ref().unwrap().selector.clone().unwrap();
    assert_eq!(selector["sei.io/node"], "a");
    assert!(cluster.pod_deletions.is_empty(), "no pod is replaced");
}

#[test]
fn pod_of_modified_template_is_replaced_once() {
    let mut cluster = running(node("a"), &platform());
    let mut changed = to_stateful_set(cluster.observed.stateful_set.as_ref().unwrap());
    let template = changed.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    template.containers[0].image = Some("other:image".into());
    *changed.metadata.generation.as_mut().unwrap() += 1;
    cluster.observed.stateful_set = Some(to_observed(&changed));
    cluster.delete_pod();
    cluster.run_kubelet();
    cluster.run_stateful_set_controller();
    converge(&mut cluster, &platform());
    assert_eq!(cluster.pod_deletions.values().sum::<u32>(), 1);
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    let pod = cluster.observed.pods[0].spec.clone().unwrap();
    assert!(pod.containers.iter().all(|one| one.image.as_deref() != Some("other:image")));
}

#[test]
fn lost_volume_is_recreated_unless_the_node_signs() {
    let mut cluster = running(node("a"), &platform());
    cluster.observed.claim = None;
    converge(&mut cluster, &platform());
    assert!(cluster.observed.claim.is_some());
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::Init));

    let mut cluster = running(validator("b"), &platform());
    cluster.observed.claim = None;
    converge(&mut cluster, &platform());
    assert!(cluster.observed.claim.is_none(), "with an empty volume it could sign a block twice");
    assert_eq!(reason(&cluster, "Ready"), "DataVolumeMissing");
}

/// seid may have signed with the volume: whether the set-up has failed afterwards does not matter.
#[test]
fn lost_volume_of_a_validator_is_not_recreated_after_a_failed_setup() {
    let lose_volume = |cluster: &mut Cluster| {
        cluster.observed.claim = None;
        for minutes in [0, 1, 20] {
            cluster.minutes += minutes;
            converge(cluster, &platform());
        }
        cluster.edit(|node| node.spec.image = "sei:1".into());
        let annotations = cluster.node.metadata.annotations.get_or_insert_default();
        annotations.insert("outrigger.dev/retry".into(), "now".into());
        converge(cluster, &platform());
        assert!(cluster.observed.claim.is_none(), "{:#?}", status(cluster));
        assert_eq!(reason(cluster, "Ready"), "DataVolumeMissing");
        assert!(message(cluster, "Ready").starts_with("PersistentVolumeClaim data-b not found: restore it"));
    };
    let mut failed = Cluster::new(validator("b"));
    run_until_failed(&mut failed, "mark-ready");
    assert_eq!(status(&failed).phase, Some(SeiNodePhase::Failed));
    lose_volume(&mut failed.clone());

    // The next attempt fails before it gets there.
    failed.minutes += 1;
    reconcile(&mut failed, &platform(), Fault::None);
    run_until_failed(&mut failed, "config-apply");
    lose_volume(&mut failed.clone());

    // The volume is lost while the attempt after that is active.
    failed.minutes += 2;
    reconcile(&mut failed, &platform(), Fault::None);
    assert_eq!(status(&failed).plan.unwrap().phase, PlanPhase::Active);
    lose_volume(&mut failed);

    // An edit replaces the plan that waits for mark-ready.
    let mut waiting = Cluster::new(validator("b"));
    while status(&waiting).waiting_for.is_none_or(|waiting| waiting.name != "mark-ready") {
        run_once(&mut waiting, &platform());
    }
    waiting.sidecar.up = false;
    lose_volume(&mut waiting);

    // A node that has not run yet gets a new volume.
    let mut new = Cluster::new(validator("b"));
    run_until_failed(&mut new, "config-apply");
    new.observed.claim = None;
    new.minutes += 1;
    converge(&mut new, &platform());
    assert_eq!((new.observed.claim.is_some(), reason(&new, "Ready")), (true, "NodeReady".into()));
}

/// Starts to delete the claim. It exists as long as a pod uses it.
fn delete_claim(cluster: &mut Cluster) {
    let claim = Arc::make_mut(cluster.observed.claim.as_mut().unwrap());
    claim.metadata.deletion_timestamp = Some(Time(time(1).0));
}

/// Reconciles a node, and asserts that its claim is reported as being deleted, with one event.
fn assert_termination_is_reported(cluster: &mut Cluster) {
    let before = status(cluster);
    for _ in 0..3 {
        reconcile(cluster, &platform(), Fault::None);
    }
    assert_eq!(reason(cluster, "Ready"), "DataVolumeTerminating", "{:#?}", status(cluster));
    assert!(message(cluster, "Ready").contains("PersistentVolumeClaim data-a is being deleted"));
    let events = transition_events(&cluster.node, &before, &status(cluster));
    let reported = events.iter().filter(|event| event.reason == "DataVolumeTerminating");
    assert_eq!(reported.count(), 1, "{events:?}");
}

#[test]
fn claim_of_a_paused_node_is_reported_when_it_is_being_deleted() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| (node.spec.paused, node.spec.image) = (true, "sei:1".into()));
    converge(&mut cluster, &platform());
    delete_claim(&mut cluster);
    assert_termination_is_reported(&mut cluster);
    let stored = status(&cluster);
    cluster.minutes += 60;
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster), stored, "it is reported once");
}

#[test]
fn claim_of_a_new_or_failed_node_is_reported_when_it_is_being_deleted() {
    for has_failed in [false, true] {
        let mut cluster = Cluster::new(node("a"));
        if has_failed {
            run_until_failed(&mut cluster, "config-apply");
        } else {
            while cluster.observed.pods.is_empty() {
                run_once(&mut cluster, &platform());
            }
        }
        let phase = if has_failed { SeiNodePhase::Failed } else { SeiNodePhase::Initializing };
        assert_eq!(status(&cluster).phase, Some(phase));
        delete_claim(&mut cluster);
        assert_termination_is_reported(&mut cluster);
        // The next attempt would create a claim, and waits until this one is gone.
        cluster.minutes += 1;
        reconcile(&mut cluster, &platform(), Fault::None);
        assert_eq!(reason(&cluster, "Ready"), "DataVolumeTerminating");
    }
    // A claim that a previous node has left behind is not in use.
    let mut cluster = Cluster::new(node("a"));
    for _ in 0..2 {
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    let claim = Arc::make_mut(cluster.observed.claim.as_mut().unwrap());
    claim.metadata.owner_references.as_mut().unwrap()[0].uid = "previous".into();
    delete_claim(&mut cluster);
    cluster.node.status = None;
    for _ in 0..3 {
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    assert_eq!(reason(&cluster, "Ready"), "Initializing");
    assert!(message(&cluster, "Ready").contains("the previous one is still being deleted"));
}

/// The pod of the Job is deleted with it.
#[test]
fn bootstrap_job_is_not_deleted_while_its_claim_is_being_deleted() {
    let mut finished = bootstrapped("Complete");
    let mut failed = bootstrapped("Failed");
    reconcile(&mut failed, &platform(), Fault::None);
    assert_eq!(status(&failed).phase, Some(SeiNodePhase::Failed));
    failed.minutes += 1;
    reconcile(&mut failed, &platform(), Fault::None);
    // The next attempt has validated the claim.
    let tasks = &mut failed.node.status.as_mut().unwrap().plan.as_mut().unwrap().tasks;
    tasks[0].status = TaskStatus::Complete;
    for (cluster, waiting_task) in
        [(&mut finished, "teardown-bootstrap"), (&mut failed, "deploy-bootstrap-job")]
    {
        delete_claim(cluster);
        assert_termination_is_reported(cluster);
        let plan = status(cluster).plan.unwrap();
        let task = plan.tasks.iter().find(|task| task.status != TaskStatus::Complete).unwrap();
        assert_eq!(task.task_type, waiting_task);
        assert_eq!(status(cluster).waiting_for.unwrap().target, "PersistentVolumeClaim/data-a");
        assert!(cluster.observed.job.is_some(), "{waiting_task}: its pod uses the claim");
    }
}

/// A claim that is being deleted exists only as long as the pod.
#[test]
fn pod_is_not_replaced_while_its_claim_is_being_deleted() {
    for is_plan_active in [false, true] {
        let mut cluster = running(node("a"), &platform());
        if !is_plan_active {
            delete_claim(&mut cluster);
        }
        cluster.edit(|node| node.spec.image = "sei:1".into());
        reconcile(&mut cluster, &platform(), Fault::None);
        delete_claim(&mut cluster);
        let before = status(&cluster);
        converge(&mut cluster, &platform());
        assert!(cluster.pod_deletions.is_empty(), "active: {is_plan_active}");
        assert_eq!(reason(&cluster, "Ready"), "DataVolumeTerminating", "active: {is_plan_active}");
        assert!(message(&cluster, "Ready").contains("PersistentVolumeClaim data-a is being deleted"));
        assert_ne!(status(&cluster).reconciled_generation, cluster.node.metadata.generation);
        let events = transition_events(&cluster.node, &before, &status(&cluster));
        let is_reported = events.iter().any(|event| event.reason == "DataVolumeTerminating");
        assert_eq!(is_reported, is_plan_active, "once, when it is first seen: {events:?}");
    }
}

#[test]
fn deleted_node_is_not_repaired() {
    let mut cluster = running(node("a"), &platform());
    cluster.node.metadata.deletion_timestamp = Some(Time(time(1).0));
    cluster.observed.service = None;
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Terminating));
    assert_eq!(reason(&cluster, "Ready"), "Terminating");
    assert!(cluster.observed.service.is_none(), "nothing is restored");
}

#[test]
fn plan_continues_after_a_killed_operator() {
    for killed_after in 1..=9 {
        let mut cluster = Cluster::new(node("a"));
        reconcile(&mut cluster, &platform(), Fault::None);
        reconcile(&mut cluster, &platform(), Fault::KilledAfter(killed_after));
        converge(&mut cluster, &platform());
        assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running), "killed after {killed_after}");
        assert!(cluster.submissions.values().all(|times| *times == 1), "{:?}", cluster.submissions);
    }
}

#[test]
fn new_plan_is_stored_before_it_is_executed() {
    let mut cluster = Cluster::new(node("a"));
    let actions = reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!((actions, cluster.writes), (0, 1));
    assert!(status(&cluster).plan.is_some());
    assert!(run_once(&mut cluster, &platform()));
}

#[test]
fn ended_plan_is_stored_before_the_next_starts() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    reconcile(&mut cluster, &platform(), Fault::None);
    let mut node = cluster.node.clone();
    let mut stored = status(&cluster);
    stored.current_image = Some("sei:1".into());
    let plan = stored.plan.as_mut().unwrap();
    plan.tasks.iter_mut().for_each(|task| task.status = TaskStatus::Complete);
    let id = plan.id.clone();
    node.status = Some(stored.clone());
    let mut observed = cluster.observed.clone();
    // The answer is from before the last task of the plan.
    observed.sidecar.health = Health::NotReady;
    let now = time(0);
    let first = decide(&node, stored, &platform(), &observed, &now, "first");
    let second = decide(&node, first.status.clone(), &platform(), &observed, &now, "second");
    for decision in [&first, &second] {
        let plan = decision.status.plan.as_ref().unwrap();
        assert_eq!((plan.id.as_str(), plan.phase), (id.as_str(), PlanPhase::Complete));
        assert_eq!(
            decision.requeue_after,
            Some(Duration::ZERO),
            "the next plan follows in the next reconcile"
        );
    }
    node.status = Some(second.status.clone());
    let third = decide(&node, second.status, &platform(), &observed, &now, "third");
    assert_eq!(third.status.plan.unwrap().kind, Some(PlanKind::MarkReady));
}

/// A thousand nodes whose sidecars do not answer would cause a thousand requests per second.
#[test]
fn sidecar_without_an_answer_is_polled_with_backoff() {
    let cluster = running(node("a"), &platform());
    let mut observed = cluster.observed.clone();
    observed.sidecar.health = Health::Unreachable("no answer".into());
    let decide_after = |node: &SeiNode, seconds: i64| {
        let now = Time(time(0).0.saturating_add(SignedDuration::from_secs(seconds)).unwrap());
        decide(node, node.status.clone().unwrap(), &platform(), &observed, &now, "plan")
    };
    let lost = decide_after(&cluster.node, 0);
    assert_eq!(lost.requeue_after, Some(Duration::from_secs(1)), "it may have been one late answer");
    let node = SeiNode { status: Some(lost.status), ..cluster.node.clone() };
    let intervals = [0, 4, 8, 60, 120, 3600].map(|seconds| {
        let decision = decide_after(&node, seconds);
        assert_eq!(decision.status, node.status.clone().unwrap(), "no write after {seconds} s");
        decision.requeue_after.unwrap().as_secs()
    });
    assert_eq!(intervals, [1, 1, 2, 15, 30, 30]);
}

#[test]
fn edit_without_effect_does_not_restart_the_setup() {
    let mut cluster = Cluster::new(node("a"));
    while !steps(&cluster)
        .iter()
        .zip(status(&cluster).plan.map(|plan| plan.tasks).unwrap_or_default())
        .any(|(step, task)| step == "configure-genesis" && task.status == TaskStatus::Complete)
    {
        run_once(&mut cluster, &platform());
    }
    let before = status(&cluster).plan.unwrap().id;
    cluster.edit(|node| node.spec.paused = true);
    run_once(&mut cluster, &platform());
    cluster.edit(|node| node.spec.paused = false);
    run_once(&mut cluster, &platform());
    assert_eq!(status(&cluster).plan.unwrap().id, before, "its StatefulSet exists by now, and is the same");
}

#[test]
fn pod_of_an_unrecorded_template_is_replaced() {
    let mut cluster = Cluster::new(node("a"));
    reconcile(&mut cluster, &platform(), Fault::None);
    let actions = reconcile(&mut cluster, &platform(), Fault::KilledAfter(5));
    assert_eq!(actions, 5, "all objects are created, and nothing is recorded");
    cluster.run_stateful_set_controller();
    // The next operator is a newer version.
    let newer = plan::Platform { proxy_image: "proxy:2".into(), ..platform() };
    converge(&mut cluster, &newer);
    assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{:#?}", status(&cluster));
    assert_eq!(status(&cluster).current_proxy_image.as_deref(), Some("proxy:2"));
    assert_eq!(cluster.pod_deletions.values().sum::<u32>(), 1);
}

/// Its seid may be running on the data that another plan would restore.
#[test]
fn edit_is_queued_while_a_bootstrap_pod_works() {
    let mut cluster = bootstrapping();
    let tasks = &mut cluster.node.status.as_mut().unwrap().plan.as_mut().unwrap().tasks;
    let restore = tasks.iter_mut().find(|task| task.task_type == "snapshot-restore").unwrap();
    restore.submitted_at = Some(time(0));
    let plan = status(&cluster).plan.unwrap().id;
    cluster.edit(|node| node.spec.image = "sei:1".into());
    for _ in 0..3 {
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    assert_eq!(status(&cluster).plan.unwrap().id, plan, "the plan of the running Job");
    assert_eq!(reason(&cluster, "SpecApplied"), "EditQueued");
    assert_eq!(message(&cluster, "SpecApplied"), "the last edit waits for Job a-bootstrap to finish");
    finish_job(&mut cluster, "Complete");
    converge(&mut cluster, &platform());
    assert_eq!(
        (reason(&cluster, "SpecApplied"), reason(&cluster, "Ready")),
        ("AllApplied".into(), "NodeReady".into())
    );
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
}

/// Returns a cluster whose bootstrap Job has just finished with this condition.
fn bootstrapped(job_condition: &str) -> Cluster {
    let mut cluster = bootstrapping();
    finish_job(&mut cluster, job_condition);
    cluster
}

/// Returns a cluster whose bootstrap Job was just created.
fn bootstrapping() -> Cluster {
    let mut node = node("a");
    let snapshot = SnapshotSource {
        s3: Some(S3Snapshot { target_height: 5 }),
        bootstrap_image: Some("sei:old".into()),
        ..SnapshotSource::default()
    };
    node.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot), snapshot_generation: None });
    let mut cluster = Cluster::new(node);
    for _ in 0..3 {
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    assert_eq!(status(&cluster).waiting_for.unwrap().what, "Pod", "the bootstrap pod does not exist");
    cluster
}

/// Finishes the bootstrap Job with this condition.
fn finish_job(cluster: &mut Cluster, condition: &str) {
    let finished = JobCondition { type_: condition.into(), status: "True".into(), ..JobCondition::default() };
    let job = Arc::make_mut(cluster.observed.job.as_mut().unwrap());
    job.status = Some(JobStatus { conditions: Some(vec![finished]), ..JobStatus::default() });
}

#[test]
fn failed_bootstrap_reports_the_error_of_seid() {
    let mut cluster = bootstrapped("Failed");
    let job = Arc::make_mut(cluster.observed.job.as_mut().unwrap());
    let failed = &mut job.status.as_mut().unwrap().conditions.as_mut().unwrap()[0];
    failed.reason = Some("BackoffLimitExceeded".into());
    failed.message = Some("Job has reached the specified backoff limit".into());
    let log = format!("{}\nloading\npanic: no disk\n\ngoroutine 1\nmain.main()\n", "x".repeat(2000));
    let terminated = |name: &str, code: i32| json!({ "name": name, "state": { "terminated": { "exitCode": code, "reason": "Error", "message": log } } });
    let pod = json!({
        "metadata": {
            "name": "a-bootstrap-x7",
            "labels": { "sei.io/node": "a", "sei.io/component": "bootstrap" },
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "a-bootstrap", "uid": job.metadata.uid }],
        },
        "status": {
            "initContainerStatuses": [terminated("sei-sidecar", 137)],
            "containerStatuses": [terminated("seid", 2)],
        },
    });
    cluster.observed.pods.push(Arc::new(serde_json::from_value(pod).unwrap()));
    reconcile(&mut cluster, &platform(), Fault::None);
    let failed = status(&cluster).plan.unwrap().failed_task_detail.unwrap();
    assert_eq!(
        failed.error,
        "Job a-bootstrap failed: BackoffLimitExceeded: Job has reached the specified backoff limit: \
         container seid: Error, exit code 2: panic: no disk | goroutine 1 | main.main()"
    );
}

#[test]
fn crash_loop_reports_the_error_of_seid() {
    let waiting = json!({ "reason": "CrashLoopBackOff", "message": "back-off 10s restarting" });
    for (message, cause) in [
        ("Error: no address\n", "Error, exit code 1: Error: no address"),
        ("", "Error, exit code 1: see `kubectl logs a-0 --container seid --previous`"),
    ] {
        let mut cluster = running(node("a"), &platform());
        let pod = Arc::make_mut(&mut cluster.observed.pods[0]);
        let before = json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": message } });
        let seid = json!({ "name": "seid", "state": { "waiting": waiting }, "lastState": before });
        pod.status.as_mut().unwrap().container_statuses = serde_json::from_value(json!([seid])).unwrap();
        reconcile(&mut cluster, &platform(), Fault::None);
        let conditions = status(&cluster).conditions;
        let ready = conditions.iter().find(|one| one.type_ == "Ready").unwrap();
        assert_eq!(ready.reason, "PodFailing");
        let image = &cluster.node.spec.image;
        assert_eq!(
            ready.message,
            format!("container seid (image {image}): CrashLoopBackOff: back-off 10s restarting: {cause}")
        );
    }
}

#[test]
fn restarted_seid_is_ready_after_a_stable_minute() {
    for (code, reasons) in [(1, ["PodFailing", "NodeReady"]), (143, ["NodeReady", "NodeReady"])] {
        let mut cluster = running(node("a"), &platform());
        let now = time(cluster.minutes);
        let before = json!({ "terminated": { "exitCode": code, "message": "Error: no address" } });
        let state = json!({ "running": { "startedAt": now } });
        let seid = json!({ "name": "seid", "ready": true, "state": state, "lastState": before });
        let pod = Arc::make_mut(&mut cluster.observed.pods[0]);
        pod.status.as_mut().unwrap().container_statuses = serde_json::from_value(json!([seid])).unwrap();
        reconcile(&mut cluster, &platform(), Fault::None);
        assert_eq!(reason(&cluster, "Ready"), reasons[0], "{code}");
        cluster.minutes += 1;
        reconcile(&mut cluster, &platform(), Fault::None);
        assert_eq!(reason(&cluster, "Ready"), reasons[1], "{code}");
    }
}

#[test]
fn completed_bootstrap_completes_unreachable_tasks() {
    let mut cluster = bootstrapped("Complete");
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{:#?}", status(&cluster));
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::Bootstrap));
}

#[test]
fn bootstrap_is_deleted_only_after_its_completion_is_stored() {
    let mut cluster = bootstrapped("Complete");
    let (mut faults, mut idle) = (0, 0);
    while idle < 2 {
        let actions = reconcile(&mut cluster.clone(), &platform(), Fault::None);
        for action in 1..=actions {
            for fault in [Fault::KilledAfter(action), Fault::AnswerLost(action)] {
                let mut faulty = cluster.clone();
                reconcile(&mut faulty, &platform(), fault);
                converge(&mut faulty, &platform());
                assert_eq!(reason(&faulty, "Ready"), "NodeReady", "{fault:?}: {:#?}", status(&faulty));
                faults += 1;
            }
        }
        idle = if actions == 0 && cluster.observed.job.is_none() { idle + 1 } else { 0 };
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    assert!(faults >= 6, "only {faults} faults: expected the Job, its Service and the node's own objects");
}
