//! Failures: seen, told, and mended by the next edit.

use std::sync::Arc;

use api::sei_node::{PlanPhase, SeiNodePhase, SidecarConfig, SidecarTls, TaskStatus};
use api::sidecar_wire::TaskState;
use serde_json::json;

use super::cluster::Cluster;
use super::operator::{Disturbance, pass};
use super::specimen::{message, node, platform, reason, round, running, settle, status};

/// Lets a task of the sidecar fail as soon as it is given.
fn fail_tasks(cluster: &mut Cluster, type_: &str) {
    for (given, state, _) in cluster.sidecar.tasks.values_mut() {
        if given == type_ && *state == TaskState::Running {
            *state = TaskState::Failed;
        }
    }
}

/// Works until a task of that type has failed and the plan with it.
fn until_failed(cluster: &mut Cluster, type_: &str) {
    for _ in 0..60 {
        cluster.stateful_set_works();
        cluster.kubelet_works();
        fail_tasks(cluster, type_);
        cluster.sidecar_works();
        pass(cluster, &platform(), Disturbance::None);
        if status(cluster).plan.is_some_and(|plan| plan.phase == PlanPhase::Failed) {
            return;
        }
    }
    panic!("it did not fail: {:#?}", status(cluster));
}

#[test]
fn a_task_that_fails_fails_the_plan_and_later_passes_give_nothing() {
    let mut cluster = Cluster::new(node("a"));
    until_failed(&mut cluster, "config-apply");
    let failed = status(&cluster);
    assert_eq!(failed.phase, Some(SeiNodePhase::Failed));
    let plan = failed.plan.clone().unwrap();
    let detail = plan.failed_task_detail.unwrap();
    assert_eq!((detail.task_type.as_str(), detail.error.as_str()), ("config-apply", "it failed"));
    assert_eq!(failed.last_failed_plan.unwrap().task.error, "it failed");
    assert_eq!(reason(&cluster, "Ready"), "PlanFailed");
    let (writes, given) = (cluster.writes, cluster.given.clone());
    for _ in 0..20 {
        cluster.minutes += 10;
        round(&mut cluster, &platform());
    }
    assert_eq!((cluster.writes, &cluster.given), (writes, &given));
}

#[test]
fn a_failed_node_is_tried_again_when_its_spec_changes() {
    let mut cluster = Cluster::new(node("a"));
    until_failed(&mut cluster, "config-apply");
    cluster.edit(|node| node.spec.image = "sei:1".into());
    settle(&mut cluster, &platform());
    let now = status(&cluster);
    assert_eq!(now.phase, Some(SeiNodePhase::Running));
    assert_eq!(now.current_image.as_deref(), Some("sei:1"));
    assert_eq!(now.last_failed_plan, None, "mended");
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

#[test]
fn an_update_that_fails_leaves_the_node_running_and_is_tried_less_and_less_often() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        node.spec.overrides.insert("a.b".into(), "1".into());
    });
    until_failed(&mut cluster, "config-apply");
    let failed = status(&cluster);
    assert_eq!(failed.phase, Some(SeiNodePhase::Running));
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateFailed");
    assert!(message(&cluster, "NodeUpdateInProgress").contains("config-apply: it failed"));
    assert_eq!(reason(&cluster, "Ready"), "PlanFailed");
    assert_eq!(failed.last_failed_plan.as_ref().unwrap().attempts, 1);
    // The same minute: it rests, and the failure stays told.
    round(&mut cluster, &platform());
    assert_eq!(status(&cluster).plan.unwrap().phase, PlanPhase::Failed);
    cluster.minutes += 1;
    until_failed(&mut cluster, "config-apply");
    assert_eq!(status(&cluster).last_failed_plan.unwrap().attempts, 2);
    assert!(message(&cluster, "Ready").contains("(2 times)"), "{}", message(&cluster, "Ready"));
    cluster.minutes += 1;
    settle(&mut cluster, &platform());
    let now = status(&cluster);
    assert_eq!(now.last_failed_plan, None);
    assert_eq!(now.current_overrides.unwrap().len(), 1);
    assert_eq!(cluster.cycles.values().sum::<u32>(), 1, "the pod had its template already");
}

#[test]
fn an_edit_mends_a_failed_update_at_once() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        node.spec.overrides.insert("a.b".into(), "bad".into());
    });
    until_failed(&mut cluster, "config-apply");
    cluster.edit(|node| node.spec.overrides.clear());
    settle(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "UpdateComplete");
    assert!(cluster.sidecar.ready, "seid runs again");
}

#[test]
fn an_image_that_was_set_back_in_mid_update_is_set_back() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:broken".into());
    pass(&mut cluster, &platform(), Disturbance::None);
    pass(&mut cluster, &platform(), Disturbance::None);
    cluster.stateful_set_works();
    pass(&mut cluster, &platform(), Disturbance::None);
    cluster.kubelet_works();
    cluster.stateful_set_works();
    // A pod with the broken image is there and does not start.
    pass(&mut cluster, &platform(), Disturbance::None);
    assert_eq!(status(&cluster).waiting_for.unwrap().target, "Pod/a-0");
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:0"), "never before it runs");
    cluster.edit(|node| node.spec.image = "sei:0".into());
    settle(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    let pod = cluster.world.pods[0].spec.clone().unwrap();
    let seid = pod.containers.iter().find(|one| one.name == "seid").unwrap();
    assert_eq!(seid.image.as_deref(), Some("sei:0"));
}

#[test]
fn a_wait_has_one_deadline_whatever_it_waits_for() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    pass(&mut cluster, &platform(), Disturbance::None);
    pass(&mut cluster, &platform(), Disturbance::None);
    let first = status(&cluster).waiting_for.unwrap();
    cluster.minutes += 5;
    pass(&mut cluster, &platform(), Disturbance::None);
    let second = status(&cluster).waiting_for.unwrap();
    assert_eq!((first.deadline, first.since), (second.deadline, second.since));
    cluster.minutes += 60;
    pass(&mut cluster, &platform(), Disturbance::None);
    let failed = status(&cluster);
    assert_eq!(failed.plan.unwrap().phase, PlanPhase::Failed);
    let error = failed.last_failed_plan.unwrap().task.error;
    assert!(error.starts_with("not done in its time; waited for StatefulSet a: "), "{error}");
}

/// Where nobody says what is wrong, a node does: after a while, and without a write before.
#[test]
fn a_pod_that_is_held_up_is_told_where() {
    let said = |cluster: &Cluster| status(cluster).waiting_for.unwrap().message.unwrap();
    let later = |cluster: &mut Cluster| {
        pass(cluster, &platform(), Disturbance::None);
        assert_eq!(said(cluster), "it is starting");
        cluster.minutes += 2;
        pass(cluster, &platform(), Disturbance::None);
        said(cluster)
    };
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    for _ in 0..4 {
        pass(&mut cluster, &platform(), Disturbance::None);
        cluster.stateful_set_works();
    }
    cluster.kubelet_works();
    let without = cluster.clone();
    let told = later(&mut cluster);
    assert!(told.contains("kube-controller-manager"), "{told}");

    let mut cluster = without;
    cluster.stateful_set_works();
    let unscheduled = cluster.clone();
    let told = later(&mut cluster);
    assert!(told.contains("kube-scheduler"), "{told}");

    let mut cluster = unscheduled;
    let mut pod = (*cluster.world.pods[0]).clone();
    let scheduled = json!({ "conditions": [{ "type": "PodScheduled", "status": "True", "reason": null, "message": null }] });
    pod.status = Some(serde_json::from_value(scheduled).unwrap());
    cluster.world.pods[0] = Arc::new(pod);
    let told = later(&mut cluster);
    assert!(told.contains("events of the pod"), "{told}");
}

#[test]
fn a_secret_that_comes_late_brings_a_failed_node_on() {
    let mut node = node("a");
    let tls = SidecarTls { secret_name: Some("late".into()), ..SidecarTls::default() };
    node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
    let mut cluster = Cluster::new(node);
    for _ in 0..4 {
        round(&mut cluster, &platform());
    }
    let waiting = status(&cluster).waiting_for.unwrap();
    assert_eq!(waiting.target, "Secret/late");
    assert_eq!(reason(&cluster, "SidecarTLSSecretReady"), "TLSSecretNotFound");
    cluster.minutes += 60;
    round(&mut cluster, &platform());
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Failed));
    cluster.edit(|node| {
        let tls = SidecarTls { secret_name: Some("a-sidecar-tls".into()), ..SidecarTls::default() };
        node.spec.sidecar = Some(SidecarConfig { tls: Some(tls), ..SidecarConfig::default() });
    });
    settle(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
}

#[test]
fn a_retry_is_counted_before_it_is_made() {
    let mut cluster = Cluster::new(node("a"));
    cluster.sidecar.failures = 1;
    let mut counted = false;
    for _ in 0..40 {
        round(&mut cluster, &platform());
        let plan = status(&cluster).plan.unwrap();
        let task = plan.tasks.iter().find(|task| task.task_type == "configure-genesis").unwrap();
        if task.retry_count == Some(1) && !counted {
            counted = true;
            assert_eq!(cluster.given[&task.id], 1, "not given again in the pass that counts");
            assert_eq!(task.status, TaskStatus::Pending);
            let waiting = status(&cluster).waiting_for.unwrap();
            assert_eq!(waiting.target, "Retry/configure-genesis");
        }
        cluster.minutes += 1;
    }
    assert!(counted);
    assert_eq!(status(&cluster).phase, Some(SeiNodePhase::Running));
}
