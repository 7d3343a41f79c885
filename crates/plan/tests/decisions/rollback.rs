//! What a failed update returns to, and what must not undo or repeat that.

use api::sei_node::{PlanKind, PlanPhase};

use super::cluster::Cluster;
use super::fixture::{
    converge, node, platform, pod_deletions, reason, run_once, run_until_failed, running, status,
};
use super::reconcile::{Fault, reconcile};

/// Returns a node whose update to `sei:1` has failed after its pod was replaced. The rollback has not started.
fn failed() -> Cluster {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| {
        node.spec.image = "sei:1".into();
        node.spec.overrides = [("evm.http_port".into(), "8546".into())].into();
    });
    run_until_failed(&mut cluster, "config-apply");
    assert!(status(&cluster).last_failed_plan.unwrap().rolled_back);
    cluster
}

/// To pause a node changes its generation, and not what was tried.
#[test]
fn pause_after_a_rollback_is_no_new_attempt() {
    let mut cluster = failed();
    converge(&mut cluster, &platform());
    let pods = pod_deletions(&cluster);
    for paused in [true, false] {
        cluster.edit(|node| node.spec.paused = paused);
        cluster.minutes += 10;
        converge(&mut cluster, &platform());
    }
    assert_eq!(pod_deletions(&cluster), pods);
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:0"));
    assert_eq!(reason(&cluster, "SpecApplied"), "UpdateRolledBack");
    // Another edit is tried.
    cluster.edit(|node| node.spec.image = "sei:2".into());
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:2"));
}

/// seid of `sei:1` may have migrated the data: `sei:0` must not run on it, even if the next update fails.
#[test]
fn update_that_ran_is_not_skipped_by_a_later_rollback() {
    let run_until_marked_ready = |cluster: &mut Cluster| {
        for _ in 0..60 {
            run_once(cluster, &platform());
            let plan = status(cluster).plan.unwrap();
            if plan.tasks.last().is_some_and(|task| task.submitted_at.is_some()) {
                cluster.run_sidecar();
                return;
            }
        }
        panic!("mark-ready was not submitted: {:#?}", status(cluster));
    };
    for is_replaced in [true, false] {
        let mut cluster = running(node("a"), &platform());
        cluster.edit(|node| node.spec.image = "sei:1".into());
        run_until_marked_ready(&mut cluster);
        if !is_replaced {
            // The answer never arrives, and the plan fails.
            cluster.sidecar.up = false;
            cluster.minutes += 61;
            reconcile(&mut cluster, &platform(), Fault::None);
            assert_eq!(status(&cluster).plan.unwrap().phase, PlanPhase::Failed);
            cluster.sidecar.up = true;
        }
        cluster.edit(|node| {
            node.spec.image = "sei:2".into();
            node.spec.overrides = [("evm.http_port".into(), "8546".into())].into();
        });
        run_until_failed(&mut cluster, "config-apply");
        assert!(!status(&cluster).last_failed_plan.unwrap().rolled_back, "replaced: {is_replaced}");
        cluster.minutes += 10;
        converge(&mut cluster, &platform());
        assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:2"));
        assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
    }
}

/// Runs an update until the operator is killed between the submission of mark-ready and the next status write.
fn killed_after_mark_ready(cluster: &mut Cluster) {
    for _ in 0..60 {
        cluster.run_components();
        for actions in 1..8 {
            let mut killed = cluster.clone();
            reconcile(&mut killed, &platform(), Fault::KilledAfter(actions));
            if killed.history.has_unknown_release {
                *cluster = killed;
                return;
            }
        }
        reconcile(cluster, &platform(), Fault::None);
    }
    panic!("mark-ready was not submitted: {:#?}", status(cluster));
}

/// Nothing but the status says that mark-ready was submitted, if the sidecar cannot be asked.
#[test]
fn killed_operator_does_not_hide_that_seid_may_have_run() {
    for is_replaced in [false, true] {
        let mut cluster = running(node("a"), &platform());
        cluster.edit(|node| node.spec.image = "sei:1".into());
        killed_after_mark_ready(&mut cluster);
        cluster.run_sidecar();
        assert_eq!(cluster.history.last_run, Some(("sei:1".into(), false)), "seid has run");
        cluster.sidecar.up = false;
        if is_replaced {
            cluster.edit(|node| {
                node.spec.image = "sei:2".into();
                node.spec.overrides = [("evm.http_port".into(), "8546".into())].into();
            });
            cluster.run_components();
            run_until_failed(&mut cluster, "config-apply");
        } else {
            while status(&cluster).plan.unwrap().phase != PlanPhase::Failed {
                reconcile(&mut cluster, &platform(), Fault::None);
                cluster.minutes += 61;
            }
        }
        assert!(!status(&cluster).last_failed_plan.unwrap().rolled_back, "replaced: {is_replaced}");
        cluster.minutes += 10;
        converge(&mut cluster, &platform());
        assert_eq!(status(&cluster).current_image, Some(cluster.node.spec.image.clone()));
        assert_eq!(reason(&cluster, "SpecApplied"), "AllApplied");
    }
}

/// The record of the submission costs no status write: the one after it would say the same.
#[test]
fn submission_of_mark_ready_is_stored_before_it_is_sent() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    let submitted = |cluster: &Cluster| {
        let plan = status(cluster).plan.unwrap();
        let task = plan.tasks.into_iter().find(|task| task.task_type == "mark-ready").unwrap();
        (task.submitted_at.is_some(), cluster.submissions.get(&task.id).copied())
    };
    for _ in 0..60 {
        run_once(&mut cluster, &platform());
        if submitted(&cluster).0 {
            break;
        }
    }
    assert_eq!(submitted(&cluster), (true, None));
    let stored = status(&cluster);
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!((submitted(&cluster), status(&cluster)), ((true, Some(1)), stored));
}

#[test]
fn pod_of_a_failed_update_is_not_marked_ready() {
    let mut cluster = failed();
    // It holds the rollback back.
    assert!(cluster.delete_claim());
    for _ in 0..20 {
        cluster.minutes += 1;
        run_once(&mut cluster, &platform());
    }
    assert!(!cluster.sidecar.ready, "seid of the failed update was started");
    assert_eq!(reason(&cluster, "Ready"), "DataVolumeTerminating");
}

#[test]
fn failed_mark_ready_after_a_rollback_is_no_new_attempt() {
    let mut cluster = failed();
    converge(&mut cluster, &platform());
    let pods = pod_deletions(&cluster);
    cluster.restart_sidecar();
    run_until_failed(&mut cluster, "mark-ready");
    assert_eq!(status(&cluster).plan.unwrap().kind, Some(PlanKind::MarkReady));
    cluster.minutes += 10;
    converge(&mut cluster, &platform());
    assert!(cluster.sidecar.ready);
    assert_eq!(pod_deletions(&cluster), pods);
    assert_eq!(reason(&cluster, "SpecApplied"), "UpdateRolledBack");
}

/// The update waited for a template that it does not apply, until its deadline.
#[test]
fn platform_change_during_an_update_is_part_of_it() {
    let mut cluster = running(node("a"), &platform());
    cluster.edit(|node| node.spec.image = "sei:1".into());
    for _ in 0..3 {
        reconcile(&mut cluster, &platform(), Fault::None);
    }
    let before = status(&cluster).plan.unwrap();
    assert_eq!((before.phase, pod_deletions(&cluster)), (PlanPhase::Active, 0));
    let mut changed = platform();
    changed.sidecar_image = "sidecar:2".into();
    converge(&mut cluster, &changed);
    let after = status(&cluster);
    assert_eq!(after.plan.map(|plan| plan.phase), Some(PlanPhase::Complete));
    assert_eq!(after.current_image.as_deref(), Some("sei:1"));
    assert_eq!(after.current_sidecar_image.as_deref(), Some("sidecar:2"));
    assert_eq!(after.last_failed_plan, None);
    assert_eq!(pod_deletions(&cluster), 1, "one pod cycle for both");
}
