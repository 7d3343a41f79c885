//! Removal of obsolete reports.

use api::kms::PluginStatus;

use super::simulation::{READ, Simulation, WRITE};
use crate::kms::rollup::{ReportFormat, ReportRemoval};

fn reconcile_and_remove(simulation: &mut Simulation) -> Vec<String> {
    let decision = simulation.reconcile();
    let name = |removal: &ReportRemoval| match removal {
        ReportRemoval::Condition { node } => format!("condition {node}"),
        ReportRemoval::Typed { node, key, .. } => format!("{node} {key}"),
    };
    let names = decision.removals.iter().map(name).collect();
    simulation.remove(&decision.removals);
    names
}

#[test]
fn report_of_deleted_node_is_removed_after_eight_intervals() {
    let mut simulation = Simulation::new(&["a", "b"]);
    simulation.run_healthy(60);
    simulation.report_healthy("b");
    simulation.reconcile();
    simulation.expected.nodes.retain(|node| node.name == "a");
    let decision = simulation.reconcile();
    assert!(decision.removals.is_empty() && decision.requeue_at.is_some());
    for passed in [120, 120] {
        simulation.advance(passed);
        simulation.report_healthy("a");
        assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
    }
    simulation.advance(1);
    assert_eq!(reconcile_and_remove(&mut simulation), ["b 1", "b 2"]);
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
    assert_eq!(simulation.reports.valid.len(), 2);
}

/// Covers nodes that are replaced under the same name.
#[test]
fn report_of_returning_node_is_kept() {
    let mut simulation = Simulation::new(&["a", "b"]);
    simulation.run_healthy(60);
    simulation.expected.nodes.retain(|node| node.name == "a");
    simulation.advance(200);
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
    simulation.expect("b");
    simulation.report_healthy("b");
    simulation.reconcile();
    simulation.advance(300);
    simulation.report_healthy("a");
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new(), "stale but expected");
    assert_eq!(simulation.degraded().1, "ReporterStale");
}

/// Independent of expectations and of the node clock.
#[test]
fn live_report_is_never_removed() {
    for off in [0, -86_400, 86_400] {
        let mut simulation = Simulation::new(&["a"]);
        simulation.clocks.insert("b".into(), off);
        for _ in 0..200 {
            simulation.report_healthy("a");
            simulation.report_healthy("b");
            simulation.report_status("a", "7", PluginStatus::Error);
            assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
            simulation.advance(30);
        }
        simulation.expected.kms = false;
        for _ in 0..200 {
            simulation.report_healthy("a");
            assert!(
                reconcile_and_remove(&mut simulation)
                    .iter()
                    .all(|name| !name.starts_with("a 1") && !name.starts_with("a 2"))
            );
            simulation.advance(30);
        }
    }
}

/// A restarted process cannot know yet whether a report still changes.
#[test]
fn restart_removes_nothing_immediately() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.clocks.insert("b".into(), -86_400);
    simulation.report_healthy("b");
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
    simulation.advance(240);
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
    simulation.advance(1);
    assert_eq!(reconcile_and_remove(&mut simulation), ["b 1", "b 2"]);
}

#[test]
fn report_of_undeployed_key_is_removed() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.run_healthy(60);
    simulation.node("a").keys.retain(|key| key.key_id == WRITE);
    for _ in 0..8 {
        simulation.report_status("a", WRITE, PluginStatus::Healthy);
        assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
        simulation.advance(30);
    }
    assert_eq!(reconcile_and_remove(&mut simulation), ["a 1"]);
}

#[test]
fn without_kms_stale_reports_are_removed() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.report_healthy("a");
    simulation.report(ReportFormat::Condition, "b", WRITE, PluginStatus::Healthy, None);
    simulation.report_malformed("c");
    simulation.reconcile();
    simulation.expected = crate::kms::rollup::ExpectedReporters::default();
    simulation.advance(120);
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
    simulation.advance(1);
    assert_eq!(reconcile_and_remove(&mut simulation), ["condition b", "condition c", "a 1", "a 2"]);
}

#[test]
fn condition_is_removed_when_unused() {
    let mut simulation = Simulation::new(&["a"]);
    for key in [WRITE, READ] {
        simulation.report(ReportFormat::Condition, "a", key, PluginStatus::Healthy, None);
    }
    simulation.reconcile();
    simulation.node("a").keys.retain(|key| key.key_id == WRITE);
    simulation.advance(1000);
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new(), "one key is still expected");
    // The reporter switched to the other format.
    simulation.report_status("a", WRITE, PluginStatus::Healthy);
    assert_eq!(reconcile_and_remove(&mut simulation), ["condition a"]);
    assert_eq!(simulation.degraded().1, "AsExpected");
}
