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
