//! Rules of the degraded condition: each alone, and every pair.

use api::kms::{ExpectedKey, KeyRole, PluginStatus};

use super::simulation::{READ, Simulation, WRITE};
use crate::kms::rollup::ReportFormat;

/// Drives a node; called every ten seconds.
type Behavior = fn(&mut Simulation, &str, i64);

/// Rules in order of precedence: status, reason and the node behavior that triggers it.
const RULES: [(&str, &str, Behavior); 11] = [
    ("True", "PluginUnhealthy", |simulation, node, at| {
        report_failing(simulation, node, at, WRITE, PluginStatus::Unhealthy)
    }),
    ("True", "PluginError", |simulation, node, at| {
        report_failing(simulation, node, at, WRITE, PluginStatus::Error)
    }),
    ("True", "ReadPluginUnhealthy", |simulation, node, at| {
        report_failing(simulation, node, at, READ, PluginStatus::Unhealthy)
    }),
    ("True", "ReadPluginUnhealthy", |simulation, node, at| {
        report_failing(simulation, node, at, READ, PluginStatus::Error)
    }),
    ("True", "PluginFlapping", |simulation, node, at| {
        if at % 30 == 0 {
            simulation.report_healthy(node);
            if at % 60 == 0 && at < 300 {
                simulation.report_status(node, WRITE, PluginStatus::Error);
            }
        }
    }),
    ("Unknown", "ReporterStale", |simulation, node, at| {
        if at % 30 == 0 && at <= 60 {
            simulation.report_healthy(node);
        }
    }),
    ("Unknown", "ReportMalformed", |simulation, node, _| simulation.report_malformed(node)),
    ("Unknown", "ReporterMissing", |_, _, _| {}),
    ("Unknown", "ReporterClockSkew", |simulation, node, at| {
        if at == 0 {
            simulation.clocks.insert(node.into(), 3600);
            simulation.report_healthy(node);
        }
    }),
    ("False", "NotYetObserved", |simulation, node, _| simulation.node(node).running = false),
    ("False", "AsExpected", |simulation, node, at| {
        if at % 30 == 0 {
            simulation.report_healthy(node);
        }
    }),
];

fn report_failing(simulation: &mut Simulation, node: &str, at: i64, key: &str, status: PluginStatus) {
    if at % 30 == 0 {
        simulation.report_healthy(node);
        simulation.report_status(node, key, status);
    }
}

fn simulate(nodes: &[(&str, Behavior)]) -> Simulation {
    let names: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
    let mut simulation = Simulation::new(&names);
    for at in (0..=400).step_by(10) {
        for (node, behavior) in nodes {
            behavior(&mut simulation, node, at);
        }
        simulation.reconcile();
        simulation.advance(10);
    }
    simulation
}

#[test]
fn each_rule_sets_its_reason() {
    for (status, reason, behavior) in RULES {
        let simulation = simulate(&[("a", behavior), ("b", RULES[10].2)]);
        assert_eq!(simulation.degraded(), (status, reason), "{}", simulation.message());
    }
}

#[test]
fn first_rule_sets_reason_and_all_are_listed() {
    for (first, (status, reason, one)) in RULES.into_iter().enumerate() {
        for (_, other_reason, other) in RULES.into_iter().skip(first) {
            for nodes in [[("a", one), ("b", other)], [("a", other), ("b", one)]] {
                let simulation = simulate(&nodes);
                assert_eq!(
                    simulation.degraded(),
                    (status, reason),
                    "with {other_reason}: {}",
                    simulation.message()
                );
                let good = |reason| reason == "AsExpected";
                for node in ["a", "b"] {
                    let bad = nodes.iter().any(|(name, of)| {
                        let rule = RULES.into_iter().find(|rule| std::ptr::fn_addr_eq(rule.2, *of)).unwrap();
                        *name == node && !good(rule.1)
                    });
                    let listed = simulation.message().lines().skip(1).any(|line| {
                        line.starts_with(&format!("{node} keyID="))
                            || line.starts_with("2 nodes: a, b keyID=")
                    });
                    assert_eq!(listed, bad, "{node} in {}", simulation.message());
                }
            }
        }
    }
}

#[test]
fn no_plugin_removes_conditions() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.run_healthy(60);
    assert_eq!(simulation.stored.len(), 4);
    simulation.expected.kms = false;
    let decision = simulation.reconcile();
    assert_eq!((decision.conditions, simulation.stored.len()), (None, 0));
    let mut simulation = Simulation::new(&[]);
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("False", "NotYetObserved"));
}

#[test]
fn stale_reporter_does_not_hide_failing_plugin() {
    let mut simulation = Simulation::new(&["a", "b"]);
    simulation.run_healthy(60);
    simulation.report_healthy("a");
    simulation.advance(200);
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterStale"));
    simulation.report_status("b", READ, PluginStatus::Error);
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("True", "ReadPluginUnhealthy"));
}

#[test]
fn read_plugin_failure_can_be_non_degrading() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.rules.read_degrades = false;
    simulation.report_healthy("a");
    simulation.report_status("a", READ, PluginStatus::Error);
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("False", "AsExpected"));
    assert!(simulation.message().contains("a keyID=1 role=read Error since "), "{}", simulation.message());
}

#[test]
fn unavailable_only_if_all_write_plugins_fail() {
    let mut simulation = Simulation::new(&["a", "b", "c"]);
    let available = |simulation: &Simulation| simulation.condition("KMSPluginsAvailable").0.to_owned();
    simulation.reconcile();
    assert_eq!(available(&simulation), "True", "no reports");
    for (node, expected) in [("a", "True"), ("b", "True"), ("c", "False")] {
        simulation.report_status(node, WRITE, PluginStatus::Error);
        simulation.reconcile();
        assert_eq!(available(&simulation), expected, "{node}");
    }
    simulation.advance(100);
    simulation.report_status("a", WRITE, PluginStatus::Error);
    simulation.report_status("b", WRITE, PluginStatus::Unhealthy);
    simulation.advance(100);
    simulation.reconcile();
    assert_eq!(available(&simulation), "True", "unknown does not count");
    let mut lone = Simulation::new(&["a"]);
    lone.report_status("a", WRITE, PluginStatus::Unhealthy);
    lone.report_status("a", READ, PluginStatus::Healthy);
    lone.reconcile();
    assert_eq!(lone.condition("KMSPluginsAvailable"), ("False", "WritePluginDown"));
}

#[test]
fn differing_keys_are_progressing() {
    let progressing = |simulation: &Simulation| simulation.condition("KMSPluginsProgressing").1.to_owned();
    let mut simulation = Simulation::new(&["a", "b"]);
    simulation.run_healthy(30);
    assert_eq!(progressing(&simulation), "AsExpected");
    simulation.report_key_id("b", "another");
    simulation.reconcile();
    assert_eq!(progressing(&simulation), "RemoteKeysDiffer");
    simulation.report_key_id("b", "kek");
    simulation.node("b").keys.push(ExpectedKey { key_id: "3".into(), role: KeyRole::Read });
    simulation.reconcile();
    assert_eq!(progressing(&simulation), "KeySetsDiffer", "deployed keys");
    simulation.node("a").keys.push(ExpectedKey { key_id: "3".into(), role: KeyRole::Read });
    simulation.report_status("b", "3", PluginStatus::Healthy);
    simulation.reconcile();
    assert_eq!(progressing(&simulation), "KeySetsDiffer", "reported keys");
    simulation.report_status("a", "3", PluginStatus::Healthy);
    simulation.reconcile();
    assert_eq!(progressing(&simulation), "AsExpected");
}

#[test]
fn newer_report_format_wins() {
    let mut simulation = Simulation::new(&["a"]);
    simulation.report(ReportFormat::Condition, "a", WRITE, PluginStatus::Error, None);
    simulation.report(ReportFormat::Condition, "a", READ, PluginStatus::Healthy, None);
    simulation.reconcile();
    assert_eq!(simulation.degraded().1, "PluginError");
    simulation.advance(30);
    simulation.report_healthy("a");
    simulation.reconcile();
    assert_eq!(simulation.degraded().1, "AsExpected");
}
