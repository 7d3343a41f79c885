//! Freshness, clock skew, deadlines, flapping and write frequency.

use api::kms::PluginStatus;

use super::simulation::{Simulation, WRITE};
use crate::kms::rollup::PluginState;
use crate::kms::union::{CONDITION_RULES, Inertia, OperatorCondition, union_condition};

fn state(simulation: &mut Simulation, node: &str) -> PluginState {
    let decision = simulation.reconcile();
    decision.plugins.iter().find(|one| one.node == node && one.key == WRITE).unwrap().state
}

#[test]
fn report_is_stale_after_four_intervals() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.reconcile();
    simulation.report_healthy("a");
    let decision = simulation.reconcile();
    let due = decision.requeue_at.unwrap() - simulation.now().monotonic;
    assert_eq!(due.as_secs(), 120, "requeued when it becomes stale");
    for (passed, expected) in [
        (119, PluginState::Healthy),
        (1, PluginState::Healthy),
        (1, PluginState::Stale),
        (10_000, PluginState::Stale),
    ] {
        simulation.advance(passed);
        assert_eq!(state(&mut simulation, "a"), expected);
    }
    simulation.report_healthy("a");
    assert_eq!(state(&mut simulation, "a"), PluginState::Healthy);
}

#[test]
fn reported_interval_determines_staleness() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.reconcile();
    simulation.report_healthy("a");
    for report in &mut simulation.reports.valid {
        report.interval = Some(std::time::Duration::from_secs(60));
    }
    simulation.reconcile();
    simulation.advance(240);
    assert_eq!(state(&mut simulation, "a"), PluginState::Healthy);
    simulation.advance(1);
    assert_eq!(state(&mut simulation, "a"), PluginState::Stale);
}

/// A changing report proves that its reporter is alive, whatever its clock says.
#[test]
fn node_clock_skew_is_harmless_while_reports_change() {
    for clocks in [[3600; 4], [-3600; 4], [0, 3600, -3600, 50]] {
        let mut simulation = Simulation::new(&["a"]);
        simulation.reconcile();
        for off in clocks {
            simulation.clocks.insert("a".into(), off);
            simulation.report_healthy("a");
            assert_eq!(state(&mut simulation, "a"), PluginState::Healthy, "{off}");
            simulation.advance(30);
            assert_eq!(state(&mut simulation, "a"), PluginState::Healthy, "{off}");
        }
        simulation.advance(121);
        assert_eq!(state(&mut simulation, "a"), PluginState::Stale, "must become stale: {clocks:?}");
    }
}

#[test]
fn local_wall_clock_may_jump() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.run_healthy(60);
    for jump in [7200, -7200, 0] {
        simulation.local_clock_offset = jump;
        assert_eq!(state(&mut simulation, "a"), PluginState::Healthy, "{jump}");
        simulation.advance(30);
        simulation.report_healthy("a");
        assert_eq!(state(&mut simulation, "a"), PluginState::Healthy, "{jump}");
    }
}

/// A restarted process has only clocks to determine freshness.
#[test]
fn restarted_process_uses_clocks_with_margin() {
    for (off, expected) in [
        (0, PluginState::Healthy),
        (-180, PluginState::Healthy),
        (-181, PluginState::Stale),
        (-86_400, PluginState::Stale),
        (60, PluginState::Healthy),
        (61, PluginState::ClockSkew),
    ] {
        let mut simulation = Simulation::new(&["a"]);
        simulation.clocks.insert("a".into(), off);
        simulation.report_healthy("a");
        assert_eq!(state(&mut simulation, "a"), expected, "{off}");
        simulation.advance(121);
        let later =
            if expected == PluginState::ClockSkew { PluginState::ClockSkew } else { PluginState::Stale };
        if off < 60 {
            assert_eq!(state(&mut simulation, "a"), later, "{off}: unchanged since the start");
        }
        simulation.report_healthy("a");
        assert_eq!(state(&mut simulation, "a"), PluginState::Healthy, "{off}: changed");
    }
}

/// A stale report stays stale after a restart, immediately and without a write.
#[test]
fn restart_with_stale_reports_writes_nothing() {
    let mut simulation = Simulation::new(&["a", "b"]);
    simulation.run_healthy(60);
    simulation.advance(300);
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterStale"));
    let (writes, stored) = (simulation.writes, simulation.stored.clone());
    simulation.restart();
    simulation.advance(5);
    simulation.reconcile();
    assert_eq!((simulation.writes, &simulation.stored), (writes, &stored));
}

#[test]
fn missing_reporter_deadline_survives_restart() {
    let mut simulation = Simulation::new(&["a"]);
    assert_eq!(state(&mut simulation, "a"), PluginState::NotYetObserved);
    simulation.advance(120);
    assert_eq!(state(&mut simulation, "a"), PluginState::NotYetObserved);
    simulation.advance(1);
    assert_eq!(state(&mut simulation, "a"), PluginState::NeverReported);
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterMissing"));
    let stored = simulation.stored.clone();
    simulation.restart();
    assert_eq!(state(&mut simulation, "a"), PluginState::NeverReported);
    simulation.advance(5);
    assert_eq!(state(&mut simulation, "a"), PluginState::NeverReported);
    assert_eq!(simulation.stored, stored);
    simulation.report_healthy("a");
    assert_eq!(state(&mut simulation, "a"), PluginState::Healthy);
}

/// The deadline starts when the API server runs.
#[test]
fn reporter_of_stopped_api_server_is_not_missing() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.node("a").running = false;
    simulation.reconcile();
    simulation.advance(1000);
    assert_eq!(state(&mut simulation, "a"), PluginState::NotYetObserved);
    simulation.node("a").running = true;
    assert_eq!(state(&mut simulation, "a"), PluginState::NotYetObserved);
    simulation.advance(121);
    assert_eq!(state(&mut simulation, "a"), PluginState::NeverReported);
}

/// Returns the degraded status of the ClusterOperator for the stored conditions.
fn cluster_operator(simulation: &Simulation) -> String {
    let parts: Vec<OperatorCondition> = simulation
        .stored
        .iter()
        .map(|one| OperatorCondition {
            type_: one.type_.clone(),
            status: one.status.clone(),
            changed: one.last_transition_time.0,
            reason: one.reason.clone(),
            message: one.message.clone(),
        })
        .collect();
    union_condition(CONDITION_RULES[0], &parts, &Inertia::default(), simulation.now().wall).0.status
}

/// The plugin is unhealthy for half of each period; the reporter probes about every 30 seconds.
#[test]
fn flapping_plugin_degrades_cluster_operator() {
    for (period, begin) in [(20, 7), (90, 0), (300, 0)] {
        let mut simulation = Simulation::new(&["a"]);
        simulation.run_healthy(60);
        let (mut degraded, mut recoveries) = (false, 0);
        for at in (0..1800).step_by(5) {
            let unhealthy = (at + begin) % period >= period / 2;
            // Not a multiple of the period.
            if at % 35 == 0 {
                simulation.report_healthy("a");
                if unhealthy {
                    simulation.report_status("a", WRITE, PluginStatus::Unhealthy);
                }
            }
            simulation.reconcile();
            let shown = cluster_operator(&simulation) == "True";
            recoveries += usize::from(degraded && !shown && at > 900);
            degraded = shown;
            simulation.advance(5);
        }
        assert!(degraded, "period of {period} s is not reported: {}", simulation.message());
        assert_eq!(recoveries, 0, "period of {period} s recovers in between");
        // Flapping ends ten minutes after the last change.
        simulation.run_healthy(660);
        assert_eq!(simulation.degraded(), ("False", "AsExpected"), "{period}");
    }
}

#[test]
fn three_changes_in_ten_minutes_are_flapping() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.run_healthy(30);
    for status in [PluginStatus::Error, PluginStatus::Healthy, PluginStatus::Error] {
        simulation.advance(30);
        simulation.report_status("a", WRITE, status);
        simulation.reconcile();
        assert_ne!(simulation.degraded().1, "PluginFlapping");
    }
    simulation.advance(30);
    simulation.report_status("a", WRITE, PluginStatus::Healthy);
    let decision = simulation.reconcile();
    assert_eq!(simulation.degraded(), ("True", "PluginFlapping"));
    assert!(decision.requeue_at.is_some());
    simulation.run_healthy(540);
    assert_eq!(simulation.degraded().1, "PluginFlapping", "still three changes in the window");
    simulation.run_healthy(60);
    assert_eq!(simulation.degraded().1, "AsExpected");
}

#[test]
fn steady_state_writes_nothing() {
    let mut simulation = Simulation::new(&["a", "b", "c"]);
    simulation.expect("silent");
    simulation.node("silent").running = true;
    let hour = |simulation: &mut Simulation| {
        for _ in 0..120 {
            for node in ["a", "b"] {
                simulation.report_healthy(node);
            }
            simulation.report_status("c", WRITE, PluginStatus::Error);
            simulation.report_status("c", "1", PluginStatus::Healthy);
            simulation.reconcile();
            simulation.advance(30);
        }
    };
    hour(&mut simulation);
    let (writes, stored) = (simulation.writes, simulation.stored.clone());
    assert!(writes <= 4, "{writes} writes until steady state");
    hour(&mut simulation);
    assert_eq!(simulation.writes, writes, "{} became {}", stored[0].message, simulation.message());
    simulation.restart();
    hour(&mut simulation);
    assert_eq!(simulation.writes, writes, "a restarted process writes nothing: {}", simulation.message());
}

/// For every mix of states, two reconciles of the same states produce the same message.
#[test]
fn messages_are_stable_across_reconciles() {
    for mix in 0..7_u32.pow(3) {
        let mut simulation = Simulation::new(&["a", "b", "c"]);
        let mut distinct = Vec::new();
        for round in 0..24 {
            for (index, node) in ["a", "b", "c"].into_iter().enumerate() {
                match mix / 7_u32.pow(u32::try_from(index).unwrap()) % 7 {
                    0 => simulation.report_healthy(node),
                    1 => simulation.report_status(node, WRITE, PluginStatus::Unhealthy),
                    2 => simulation.report_status(node, WRITE, PluginStatus::Error),
                    3 if round < 2 => simulation.report_healthy(node),
                    4 => simulation.report_malformed(node),
                    5 => simulation.node(node).running = false,
                    _ => {}
                }
            }
            simulation.reconcile();
            let messages: Vec<String> = simulation.stored.iter().map(|one| one.message.clone()).collect();
            // All deadlines have passed after ten minutes.
            if round > 20 {
                distinct.push(messages);
            }
            simulation.advance(30);
        }
        distinct.dedup();
        assert_eq!(distinct.len(), 1, "mix {mix}: {distinct:#?}");
    }
}
