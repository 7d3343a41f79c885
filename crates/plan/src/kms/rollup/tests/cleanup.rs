//! T-G8, T-G9, T-G11: which entries go, and which never do.

use api::kms::HealthStatus;

use super::world::{READ, WRITE, World};
use crate::kms::rollup::{Form, Removal};

fn gone(world: &mut World) -> Vec<String> {
    let made = world.look();
    let name = |removal: &Removal| match removal {
        Removal::Condition { node } => format!("condition {node}"),
        Removal::Typed { node, key, .. } => format!("{node} {key}"),
    };
    let names = made.removals.iter().map(name).collect();
    world.remove(&made.removals);
    names
}

/// T-G9: a node that is removed.
#[test]
fn an_entry_of_a_node_that_is_gone_goes_after_eight_silent_intervals() {
    let mut world = World::of(&["a", "b"]);
    world.well_for(60);
    world.well("b");
    world.look();
    world.expected.nodes.retain(|node| node.name == "a");
    let made = world.look();
    assert!(made.removals.is_empty() && made.look_at.is_some());
    for passed in [120, 120] {
        world.pass(passed);
        world.well("a");
        assert_eq!(gone(&mut world), Vec::<String>::new());
    }
    world.pass(1);
    assert_eq!(gone(&mut world), ["b 1", "b 2"]);
    assert_eq!(gone(&mut world), Vec::<String>::new());
    assert_eq!(world.reports.readable.len(), 2);
}

/// T-G9: a node that is replaced under its name, and nodes that come and go.
#[test]
fn who_comes_back_keeps_his_entry() {
    let mut world = World::of(&["a", "b"]);
    world.well_for(60);
    world.expected.nodes.retain(|node| node.name == "a");
    world.pass(200);
    assert_eq!(gone(&mut world), Vec::<String>::new());
    world.expect("b");
    world.well("b");
    world.look();
    world.pass(300);
    world.well("a");
    assert_eq!(gone(&mut world), Vec::<String>::new(), "it is silent, but expected");
    assert_eq!(world.degraded().1, "ReporterStale");
}

/// T-G11: a reporter that lives is never fought, whatever is expected and whatever its clock says.
#[test]
fn a_live_entry_never_goes() {
    for off in [0, -86_400, 86_400] {
        let mut world = World::of(&["a"]);
        world.clocks.insert("b".into(), off);
        for _ in 0..200 {
            world.well("a");
            world.well("b");
            world.say("a", "7", HealthStatus::Error);
            assert_eq!(gone(&mut world), Vec::<String>::new());
            world.pass(30);
        }
        world.expected.kms = false;
        for _ in 0..200 {
            world.well("a");
            assert!(gone(&mut world).iter().all(|name| !name.starts_with("a 1") && !name.starts_with("a 2")));
            world.pass(30);
        }
    }
}

/// T-G11: a process that begins to look has not seen anybody silent yet.
#[test]
fn a_restart_removes_nothing_at_once_however_old_an_entry_looks() {
    let mut world = World::of(&["a"]);
    world.clocks.insert("b".into(), -86_400);
    world.well("b");
    assert_eq!(gone(&mut world), Vec::<String>::new());
    world.pass(240);
    assert_eq!(gone(&mut world), Vec::<String>::new());
    world.pass(1);
    assert_eq!(gone(&mut world), ["b 1", "b 2"]);
}

#[test]
fn an_entry_of_a_key_that_is_no_longer_deployed_goes() {
    let mut world = World::of(&["a"]);
    world.well_for(60);
    world.node("a").keys.retain(|key| key.key_id == WRITE);
    for _ in 0..8 {
        world.say("a", WRITE, HealthStatus::Healthy);
        assert_eq!(gone(&mut world), Vec::<String>::new());
        world.pass(30);
    }
    assert_eq!(gone(&mut world), ["a 1"]);
}

/// T-G8.
#[test]
fn without_kms_an_entry_goes_as_soon_as_it_is_stale() {
    let mut world = World::of(&["a"]);
    world.well("a");
    world.report(Form::Condition, "b", WRITE, HealthStatus::Healthy, None);
    world.garble("c");
    world.look();
    world.expected = crate::kms::rollup::Expected::default();
    world.pass(120);
    assert_eq!(gone(&mut world), Vec::<String>::new());
    world.pass(1);
    assert_eq!(gone(&mut world), ["condition b", "condition c", "a 1", "a 2"]);
}

#[test]
fn a_condition_goes_when_nothing_in_it_is_needed() {
    let mut world = World::of(&["a"]);
    for key in [WRITE, READ] {
        world.report(Form::Condition, "a", key, HealthStatus::Healthy, None);
    }
    world.look();
    world.node("a").keys.retain(|key| key.key_id == WRITE);
    world.pass(1000);
    assert_eq!(gone(&mut world), Vec::<String>::new(), "one of its keys is expected");
    // The reporter was told to publish in the other form.
    world.say("a", WRITE, HealthStatus::Healthy);
    assert_eq!(gone(&mut world), ["condition a"]);
    assert_eq!(world.degraded().1, "AsExpected");
}
