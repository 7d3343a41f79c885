//! T-G1: each row of the rollup, and every pair of rows.

use api::kms::{ExpectedKey, HealthStatus, KeyRole};

use super::world::{READ, WRITE, World};
use crate::kms::rollup::Form;

/// What brings a node into a situation; called for every ten seconds.
type Situation = fn(&mut World, &str, i64);

/// Rows from the first to the last: status, reason, and what a node does for it.
const ROWS: [(&str, &str, Situation); 11] = [
    ("True", "PluginUnhealthy", |world, node, at| sick(world, node, at, WRITE, HealthStatus::Unhealthy)),
    ("True", "PluginError", |world, node, at| sick(world, node, at, WRITE, HealthStatus::Error)),
    ("True", "ReadPluginUnhealthy", |world, node, at| sick(world, node, at, READ, HealthStatus::Unhealthy)),
    ("True", "ReadPluginUnhealthy", |world, node, at| sick(world, node, at, READ, HealthStatus::Error)),
    ("True", "PluginFlapping", |world, node, at| {
        if at % 30 == 0 {
            world.well(node);
            if at % 60 == 0 && at < 300 {
                world.say(node, WRITE, HealthStatus::Error);
            }
        }
    }),
    ("Unknown", "ReporterStale", |world, node, at| {
        if at % 30 == 0 && at <= 60 {
            world.well(node);
        }
    }),
    ("Unknown", "ReportMalformed", |world, node, _| world.garble(node)),
    ("Unknown", "ReporterMissing", |_, _, _| {}),
    ("Unknown", "ReporterClockSkew", |world, node, at| {
        if at == 0 {
            world.clocks.insert(node.into(), 3600);
            world.well(node);
        }
    }),
    ("False", "NotYetObserved", |world, node, _| world.node(node).running = false),
    ("False", "AsExpected", |world, node, at| {
        if at % 30 == 0 {
            world.well(node);
        }
    }),
];

fn sick(world: &mut World, node: &str, at: i64, key: &str, status: HealthStatus) {
    if at % 30 == 0 {
        world.well(node);
        world.say(node, key, status);
    }
}

fn after_a_while(nodes: &[(&str, Situation)]) -> World {
    let names: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
    let mut world = World::of(&names);
    for at in (0..=400).step_by(10) {
        for (node, situation) in nodes {
            situation(&mut world, node, at);
        }
        world.look();
        world.pass(10);
    }
    world
}

#[test]
fn each_row_alone_gives_its_reason() {
    for (status, reason, situation) in ROWS {
        let world = after_a_while(&[("a", situation), ("b", ROWS[10].2)]);
        assert_eq!(world.degraded(), (status, reason), "{}", world.message());
    }
}

#[test]
fn of_every_pair_of_rows_the_first_gives_the_reason_and_both_are_told() {
    for (first, (status, reason, one)) in ROWS.into_iter().enumerate() {
        for (_, other_reason, other) in ROWS.into_iter().skip(first) {
            for nodes in [[("a", one), ("b", other)], [("a", other), ("b", one)]] {
                let world = after_a_while(&nodes);
                assert_eq!(world.degraded(), (status, reason), "with {other_reason}: {}", world.message());
                let good = |reason| reason == "AsExpected";
                for node in ["a", "b"] {
                    let bad = nodes.iter().any(|(name, of)| {
                        let row = ROWS.into_iter().find(|row| std::ptr::fn_addr_eq(row.2, *of)).unwrap();
                        *name == node && !good(row.1)
                    });
                    let told = world.message().lines().skip(1).any(|line| {
                        line.starts_with(&format!("{node} keyID="))
                            || line.starts_with("2 nodes: a, b keyID=")
                    });
                    assert_eq!(told, bad, "{node} in {}", world.message());
                }
            }
        }
    }
}

#[test]
fn without_a_plugin_there_is_no_condition_and_without_a_node_nothing_was_observed() {
    let mut world = World::of(&["a"]);
    world.well_for(60);
    assert_eq!(world.stored.len(), 4);
    world.expected.kms = false;
    let made = world.look();
    assert_eq!((made.verdict, world.stored.len()), (None, 0));
    let mut world = World::of(&[]);
    world.look();
    assert_eq!(world.degraded(), ("False", "NotYetObserved"));
}

#[test]
fn a_dead_reporter_hides_no_sick_plugin_elsewhere_and_says_nothing_bad_of_its_own() {
    let mut world = World::of(&["a", "b"]);
    world.well_for(60);
    world.well("a");
    world.pass(200);
    world.look();
    assert_eq!(world.degraded(), ("Unknown", "ReporterStale"));
    world.say("b", READ, HealthStatus::Error);
    world.look();
    assert_eq!(world.degraded(), ("True", "ReadPluginUnhealthy"));
}

#[test]
fn a_sick_plugin_that_only_decrypts_can_be_told_without_degrading() {
    let mut world = World::of(&["a"]);
    world.rules.read_degrades = false;
    world.well("a");
    world.say("a", READ, HealthStatus::Error);
    world.look();
    assert_eq!(world.degraded(), ("False", "AsExpected"));
    assert!(world.message().contains("a keyID=1 role=read Error since "), "{}", world.message());
}

#[test]
fn data_can_be_encrypted_unless_every_node_says_that_it_cannot() {
    let mut world = World::of(&["a", "b", "c"]);
    let available = |world: &World| world.stands("KMSPluginsAvailable").0.to_owned();
    world.look();
    assert_eq!(available(&world), "True", "nothing is known");
    for (node, expected) in [("a", "True"), ("b", "True"), ("c", "False")] {
        world.say(node, WRITE, HealthStatus::Error);
        world.look();
        assert_eq!(available(&world), expected, "{node}");
    }
    world.pass(100);
    world.say("a", WRITE, HealthStatus::Error);
    world.say("b", WRITE, HealthStatus::Unhealthy);
    world.pass(100);
    world.look();
    assert_eq!(available(&world), "True", "what is unknown does not count against it");
    let mut lone = World::of(&["a"]);
    lone.say("a", WRITE, HealthStatus::Unhealthy);
    lone.say("a", READ, HealthStatus::Healthy);
    lone.look();
    assert_eq!(lone.stands("KMSPluginsAvailable"), ("False", "WritePluginDown"));
}

#[test]
fn nodes_that_differ_in_their_keys_are_on_their_way() {
    let progressing = |world: &World| world.stands("KMSPluginsProgressing").1.to_owned();
    let mut world = World::of(&["a", "b"]);
    world.well_for(30);
    assert_eq!(progressing(&world), "AsExpected");
    world.uses("b", "another");
    world.look();
    assert_eq!(progressing(&world), "RemoteKeysDiffer");
    world.uses("b", "kek");
    world.node("b").keys.push(ExpectedKey { key_id: "3".into(), role: KeyRole::Read });
    world.look();
    assert_eq!(progressing(&world), "KeySetsDiffer", "by what is deployed");
    world.node("a").keys.push(ExpectedKey { key_id: "3".into(), role: KeyRole::Read });
    world.say("b", "3", HealthStatus::Healthy);
    world.look();
    assert_eq!(progressing(&world), "KeySetsDiffer", "by what is reported");
    world.say("a", "3", HealthStatus::Healthy);
    world.look();
    assert_eq!(progressing(&world), "AsExpected");
}

#[test]
fn of_two_forms_the_newer_counts() {
    let mut world = World::of(&["a"]);
    world.report(Form::Condition, "a", WRITE, HealthStatus::Error, None);
    world.report(Form::Condition, "a", READ, HealthStatus::Healthy, None);
    world.look();
    assert_eq!(world.degraded().1, "PluginError");
    world.pass(30);
    world.well("a");
    world.look();
    assert_eq!(world.degraded().1, "AsExpected");
}
