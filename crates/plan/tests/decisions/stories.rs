//! What happens to nodes beside edits.

use std::sync::Arc;

use api::sei_node::{
    FullNodeSpec, PlanKind, PlanPhase, S3Snapshot, SeiNodePhase, SnapshotSource, TaskStatus, ValidatorSpec,
};
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::node::{Health, decide};
use serde_json::json;

use super::cluster::{Cluster, as_seen, whole};
use super::operator::{Disturbance, pass, time};
use super::specimen::{node, platform, reason, round, running, settle, status, steps};

#[test]
fn a_pod_that_was_deleted_by_hand_is_made_ready_again() {
    let mut cluster = running(node("a"), &platform());
    cluster.pod_is_deleted();
    settle(&mut cluster, &platform());
    assert!(cluster.sidecar.ready);
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::MarkReady));
    assert!(cluster.cycles.is_empty(), "not by us");
}

#[test]
fn every_mark_ready_has_an_id_of_its_own() {
    let mut cluster = running(node("a"), &platform());
    let mut ids = vec![status(&cluster).plan.unwrap().id];
    for _ in 0..3 {
        cluster.sidecar_restarts();
        cluster.minutes += 5;
        settle(&mut cluster, &platform());
        assert!(cluster.sidecar.ready);
        ids.push(status(&cluster).plan.unwrap().id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn what_was_deleted_or_changed_by_hand_is_put_back() {
    let mut cluster = running(node("a"), &platform());
    cluster.world.service = None;
    cluster.world.proxy_config = None;
    cluster.world.network_policy = None;
    settle(&mut cluster, &platform());
    assert!(cluster.world.service.is_some());
    assert!(cluster.world.proxy_config.is_some());
    assert!(cluster.world.network_policy.is_some());
    let mut changed = (**cluster.world.service.as_ref().unwrap()).clone();
    changed.spec.as_mut().unwrap().selector = Some([("sei.io/node".to_owned(), "other".to_owned())].into());
    cluster.world.service = Some(Arc::new(changed));
    settle(&mut cluster, &platform());
    let selector = cluster.world.service.as_ref().unwrap().spec.as_ref().unwrap().selector.clone().unwrap();
    assert_eq!(selector["sei.io/node"], "a");
    assert!(cluster.cycles.is_empty(), "no pod was replaced for it");
}

#[test]
fn a_pod_made_from_a_changed_template_is_replaced_once() {
    let mut cluster = running(node("a"), &platform());
    let mut changed = whole(cluster.world.stateful_set.as_ref().unwrap());
    let template = changed.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    template.containers[0].image = Some("somebody:else".into());
    *changed.metadata.generation.as_mut().unwrap() += 1;
    cluster.world.stateful_set = Some(as_seen(&changed));
    cluster.pod_is_deleted();
    cluster.kubelet_works();
    cluster.stateful_set_works();
    settle(&mut cluster, &platform());
    assert_eq!(cluster.cycles.values().sum::<u32>(), 1);
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    let pod = cluster.world.pods[0].spec.clone().unwrap();
    assert!(pod.containers.iter().all(|one| one.image.as_deref() != Some("somebody:else")));
}

#[test]
fn a_lost_volume_is_made_again_but_not_under_a_node_that_signs() {
    let mut cluster = running(node("a"), &platform());
    cluster.world.claim = None;
    settle(&mut cluster, &platform());
    assert!(cluster.world.claim.is_some());
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::Init));

    let mut validator = node("b");
    validator.spec.full_node = None;
    validator.spec.validator = Some(ValidatorSpec::default());
    let mut cluster = running(validator, &platform());
    cluster.world.claim = None;
    settle(&mut cluster, &platform());
    assert!(cluster.world.claim.is_none(), "an empty volume would let it sign again what it has signed");
    assert_eq!(reason(&cluster, "Ready"), "DataVolumeMissing");
}

#[test]
fn a_deleted_node_is_left_alone() {
    let mut cluster = running(node("a"), &platform());
    cluster.node.metadata.deletion_timestamp = Some(Time(time(1).0));
    cluster.world.service = None;
    settle(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Terminating));
    assert_eq!(reason(&cluster, "Ready"), "Terminating");
    assert!(cluster.world.service.is_none(), "nothing of it is made again");
}

#[test]
fn a_plan_goes_on_where_a_killed_operator_left_it() {
    for killed_after in 1..=9 {
        let mut cluster = Cluster::new(node("a"));
        pass(&mut cluster, &platform(), Disturbance::None);
        pass(&mut cluster, &platform(), Disturbance::KilledAfter(killed_after));
        settle(&mut cluster, &platform());
        assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running), "killed after {killed_after}");
        assert!(cluster.given.values().all(|times| *times == 1), "{:?}", cluster.given);
    }
}

#[test]
fn nothing_is_done_in_the_pass_that_makes_the_plan() {
    let mut cluster = Cluster::new(node("a"));
    let acts = pass(&mut cluster, &platform(), Disturbance::None);
    assert_eq!((acts, cluster.writes), (0, 1));
    assert!(status(&cluster).plan.is_some());
    assert!(round(&mut cluster, &platform()));
}

#[test]
fn a_plan_that_has_ended_is_stored_before_the_next_is_begun() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    pass(&mut cluster, &platform(), Disturbance::None);
    let mut node = cluster.node.clone();
    let mut stored = status(&cluster);
    stored.current_image = Some("sei:1".into());
    let plan = stored.plan.as_mut().unwrap();
    plan.tasks.iter_mut().for_each(|task| task.status = TaskStatus::Complete);
    let id = plan.id.clone();
    node.status = Some(stored.clone());
    let mut world = cluster.world.clone();
    // As it was when it was asked, before the last task of the plan.
    world.sidecar.health = Health::NotReady;
    let now = time(0);
    let first = decide(&node, stored, &platform(), &world, &now, "first");
    let second = decide(&node, first.status.clone(), &platform(), &world, &now, "second");
    for decision in [&first, &second] {
        let plan = decision.status.plan.as_ref().unwrap();
        assert_eq!((plan.id.as_str(), plan.phase), (id.as_str(), PlanPhase::Complete));
        assert_eq!(decision.look_again, Some(std::time::Duration::ZERO), "what follows is the next pass");
    }
    node.status = Some(second.status.clone());
    let third = decide(&node, second.status, &platform(), &world, &now, "third");
    assert_eq!(third.status.plan.unwrap().kind, Some(PlanKind::MarkReady));
}

#[test]
fn an_edit_that_changes_nothing_of_a_setup_does_not_begin_it_anew() {
    let mut cluster = Cluster::new(node("a"));
    while !steps(&cluster)
        .iter()
        .zip(status(&cluster).plan.map(|plan| plan.tasks).unwrap_or_default())
        .any(|(step, task)| step == "configure-genesis" && task.status == TaskStatus::Complete)
    {
        round(&mut cluster, &platform());
    }
    let before = status(&cluster).plan.unwrap().id;
    cluster.edit(|node| node.spec.paused = true);
    round(&mut cluster, &platform());
    cluster.edit(|node| node.spec.paused = false);
    round(&mut cluster, &platform());
    assert_eq!(status(&cluster).plan.unwrap().id, before, "its StatefulSet is there now, and is the same");
}

#[test]
fn a_pod_that_was_made_before_its_template_was_applied_once_more_is_replaced() {
    let mut cluster = Cluster::new(node("a"));
    pass(&mut cluster, &platform(), Disturbance::None);
    let acts = pass(&mut cluster, &platform(), Disturbance::KilledAfter(5));
    assert_eq!(acts, 5, "all objects are made, and nothing of it is recorded");
    cluster.stateful_set_works();
    // The operator that comes after is a newer one.
    let newer = plan::Platform { proxy_image: "proxy:2".into(), ..platform() };
    settle(&mut cluster, &newer);
    assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{:#?}", status(&cluster));
    assert_eq!(status(&cluster).current_proxy_image.as_deref(), Some("proxy:2"));
    assert_eq!(cluster.cycles.values().sum::<u32>(), 1);
}

/// A node that is bootstrapped, whose bootstrap has just ended so.
fn bootstrapped(end: &str) -> Cluster {
    let mut node = node("a");
    let snapshot = SnapshotSource {
        s3: Some(S3Snapshot { target_height: 5 }),
        bootstrap_image: Some("sei:old".into()),
        ..SnapshotSource::default()
    };
    node.spec.full_node = Some(FullNodeSpec { snapshot: Some(snapshot), snapshot_generation: None });
    let mut cluster = Cluster::new(node);
    for _ in 0..3 {
        pass(&mut cluster, &platform(), Disturbance::None);
    }
    assert_eq!(status(&cluster).waiting_for.unwrap().what, "Pod", "its sidecar is not there");
    let ended = JobCondition { type_: end.into(), status: "True".into(), ..JobCondition::default() };
    let job = Arc::make_mut(cluster.world.job.as_mut().unwrap());
    job.status = Some(JobStatus { conditions: Some(vec![ended]), ..JobStatus::default() });
    cluster
}

#[test]
fn a_bootstrap_that_failed_is_told_with_the_last_words_of_its_seid() {
    let mut cluster = bootstrapped("Failed");
    let job = Arc::make_mut(cluster.world.job.as_mut().unwrap());
    let failed = &mut job.status.as_mut().unwrap().conditions.as_mut().unwrap()[0];
    failed.reason = Some("BackoffLimitExceeded".into());
    failed.message = Some("Job has reached the specified backoff limit".into());
    let said = format!("{}\nloading\npanic: no disk\n\ngoroutine 1\nmain.main()\n", "x".repeat(2000));
    let ended = |name: &str, code: i32| json!({ "name": name, "state": { "terminated": { "exitCode": code, "reason": "Error", "message": said } } });
    let pod = json!({
        "metadata": {
            "name": "a-bootstrap-x7",
            "labels": { "sei.io/node": "a", "sei.io/component": "bootstrap" },
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "a-bootstrap", "uid": job.metadata.uid }],
        },
        "status": {
            "initContainerStatuses": [ended("sei-sidecar", 137)],
            "containerStatuses": [ended("seid", 2)],
        },
    });
    cluster.world.pods.push(Arc::new(serde_json::from_value(pod).unwrap()));
    pass(&mut cluster, &platform(), Disturbance::None);
    let failed = status(&cluster).plan.unwrap().failed_task_detail.unwrap();
    assert_eq!(
        failed.error,
        "Job a-bootstrap failed: BackoffLimitExceeded: Job has reached the specified backoff limit: \
         container seid: Error, exit code 2: panic: no disk | goroutine 1 | main.main()"
    );
}

#[test]
fn a_seid_that_ends_again_and_again_is_told_with_its_last_words() {
    let waiting = json!({ "reason": "CrashLoopBackOff", "message": "back-off 10s restarting" });
    for (message, told) in [
        ("Error: no address\n", "Error, exit code 1: Error: no address"),
        ("", "Error, exit code 1: `kubectl logs a-0 --container seid --previous` tells why"),
    ] {
        let mut cluster = running(node("a"), &platform());
        let pod = Arc::make_mut(&mut cluster.world.pods[0]);
        let before = json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": message } });
        let seid = json!({ "name": "seid", "state": { "waiting": waiting }, "lastState": before });
        pod.status.as_mut().unwrap().container_statuses = serde_json::from_value(json!([seid])).unwrap();
        pass(&mut cluster, &platform(), Disturbance::None);
        let conditions = status(&cluster).conditions;
        let ready = conditions.iter().find(|one| one.type_ == "Ready").unwrap();
        assert_eq!(ready.reason, "PodFailing");
        let image = &cluster.node.spec.image;
        assert_eq!(
            ready.message,
            format!("container seid (image {image}): CrashLoopBackOff: back-off 10s restarting: {told}")
        );
    }
}

#[test]
fn a_seid_that_has_failed_is_believed_once_it_has_run_for_a_while() {
    for (code, reasons) in [(1, ["PodFailing", "NodeReady"]), (143, ["NodeReady", "NodeReady"])] {
        let mut cluster = running(node("a"), &platform());
        let now = time(cluster.minutes);
        let before = json!({ "terminated": { "exitCode": code, "message": "Error: no address" } });
        let state = json!({ "running": { "startedAt": now } });
        let seid = json!({ "name": "seid", "state": state, "lastState": before });
        let pod = Arc::make_mut(&mut cluster.world.pods[0]);
        pod.status.as_mut().unwrap().container_statuses = serde_json::from_value(json!([seid])).unwrap();
        pass(&mut cluster, &platform(), Disturbance::None);
        assert_eq!(reason(&cluster, "Ready"), reasons[0], "{code}");
        cluster.minutes += 1;
        pass(&mut cluster, &platform(), Disturbance::None);
        assert_eq!(reason(&cluster, "Ready"), reasons[1], "{code}");
    }
}

#[test]
fn a_bootstrap_that_has_ended_has_done_the_tasks_that_nobody_is_left_to_ask_about() {
    let mut cluster = bootstrapped("Complete");
    settle(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{:#?}", status(&cluster));
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::Bootstrap));
}

#[test]
fn a_bootstrap_is_torn_down_only_after_it_is_stored_that_it_was_done() {
    let mut cluster = bootstrapped("Complete");
    let (mut disturbed, mut calm) = (0, 0);
    while calm < 2 {
        let acts = pass(&mut cluster.clone(), &platform(), Disturbance::None);
        for act in 1..=acts {
            for disturbance in [Disturbance::KilledAfter(act), Disturbance::AnswerLost(act)] {
                let mut struck = cluster.clone();
                pass(&mut struck, &platform(), disturbance);
                settle(&mut struck, &platform());
                assert_eq!(reason(&struck, "Ready"), "NodeReady", "{disturbance:?}: {:#?}", status(&struck));
                disturbed += 1;
            }
        }
        calm = if acts == 0 && cluster.world.job.is_none() { calm + 1 } else { 0 };
        pass(&mut cluster, &platform(), Disturbance::None);
    }
    assert!(disturbed >= 6, "the Job, its Service and the node's own objects: only {disturbed}");
}
