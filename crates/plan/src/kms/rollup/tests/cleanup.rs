//! Removal of obsolete reports.

use api::kms::PluginStatus;

use super::expected::with_pods;
use super::simulation::{READ, Simulation, WRITE};
use crate::kms::rollup::{ReportFormat, ReportRemoval};

fn reconcile_and_remove(simulation: &mut Simulation) -> Vec<String> {
    let decision = simulation.reconcile();
    let name = |removal: &ReportRemoval| match removal {
        ReportRemoval::Condition { node, .. } => format!("condition {node}"),
        ReportRemoval::Object { name } => format!("object {name}"),
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
    simulation.node("a").plugins.retain(|plugin| plugin.key == WRITE);
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
    simulation.node("a").plugins.retain(|plugin| plugin.key == WRITE);
    simulation.advance(1000);
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new(), "one key is still expected");
    // The reporter switched to the other format.
    simulation.report_status("a", WRITE, PluginStatus::Healthy);
    assert_eq!(reconcile_and_remove(&mut simulation), ["condition a"]);
    assert_eq!(simulation.degraded().1, "AsExpected");
}

/// Readers that compare only key IDs would take a placeholder that does not change for the ID of a key.
#[test]
fn placeholder_of_stopped_reporter_is_removed_and_stays_unknown() {
    let mut simulation = with_pods(&["a", "b"]);
    simulation.run(&["a", "b"], 60);
    simulation.report_healthy("b");
    simulation.report_status("b", WRITE, PluginStatus::Error);
    let probed = simulation.now().wall;
    for report in simulation.reports.valid.iter_mut().filter(|one| one.node == "b" && one.key == WRITE) {
        report.remote_key_id = Some(api::kms::key_id::placeholder("b", WRITE, probed));
    }
    simulation.run(&["a"], 120);
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new());
    simulation.advance(1);
    simulation.report_healthy("a");
    assert_eq!(reconcile_and_remove(&mut simulation), ["b 2"], "the report with a key ID is kept");
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterStale"));
    simulation.run(&["a"], 600);
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterStale"));
    simulation.restart();
    simulation.run(&["a"], 600);
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterStale"));
}

/// An object with the reports of one node is removed as a whole.
#[test]
fn object_of_gone_node_is_removed() {
    let mut simulation = with_pods(&["a"]);
    let object = || ReportFormat::Object("cluster.b".into());
    simulation.run(&["a"], 30);
    simulation.report(object(), "b", WRITE, PluginStatus::Healthy, None);
    simulation.report(object(), "b", READ, PluginStatus::Healthy, None);
    simulation.reconcile();
    simulation.advance(200);
    simulation.report(object(), "b", READ, PluginStatus::Healthy, None);
    simulation.reconcile();
    simulation.advance(240);
    assert_eq!(reconcile_and_remove(&mut simulation), Vec::<String>::new(), "one report changed later");
    simulation.advance(1);
    assert_eq!(reconcile_and_remove(&mut simulation), ["object cluster.b"]);
}

/// A reporter moves to an object of its own, or back.
#[test]
fn newest_of_root_and_own_object_counts() {
    let mut simulation = with_pods(&["a"]);
    let object = || ReportFormat::Object("cluster.a".into());
    simulation.run(&["a"], 60);
    for key in [WRITE, READ] {
        simulation.report(object(), "a", key, PluginStatus::Error, None);
    }
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("True", "PluginError"));
    for _ in 0..9 {
        simulation.advance(30);
        for key in [WRITE, READ] {
            simulation.report(object(), "a", key, PluginStatus::Healthy, None);
        }
        simulation.reconcile();
    }
    assert_eq!(simulation.degraded(), ("False", "AsExpected"));
    assert_eq!(reconcile_and_remove(&mut simulation), ["a 1", "a 2"], "the old reports in the root object");
    simulation.advance(30);
    simulation.report_status("a", WRITE, PluginStatus::Error);
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("True", "PluginError"), "back in the root object");
}
