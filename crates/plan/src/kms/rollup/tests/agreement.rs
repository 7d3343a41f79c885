//! T-G14: whether nodes agree on a key of the KMS.

use api::kms::HealthStatus;

use super::world::{WRITE, World};

const NODES: [&str; 3] = ["a", "b", "c"];

fn after(world: &mut World, seconds: i64, ids: [&str; 3]) -> (String, String) {
    for _ in 0..seconds / 30 {
        for (node, id) in NODES.into_iter().zip(ids) {
            world.uses(node, id);
        }
        world.look();
        world.pass(30);
    }
    let (status, reason) = world.stands("KMSRemoteKeyConverged");
    (status.into(), reason.into())
}

fn said(status: &str, reason: &str) -> (String, String) {
    (status.into(), reason.into())
}

fn message(world: &World) -> String {
    world.stored.iter().find(|one| one.type_ == "KMSRemoteKeyConverged").unwrap().message.clone()
}

#[test]
fn one_key_is_relied_on_after_five_minutes() {
    let mut world = World::of(&NODES);
    assert_eq!(after(&mut world, 300, ["x", "x", "x"]), said("False", "Settling"));
    assert_eq!(after(&mut world, 30, ["x", "x", "x"]), said("True", "Converged"));
    assert!(message(&world).starts_with("all 3 nodes use sha256:2d711642b726 since "), "{}", message(&world));
}

#[test]
fn one_that_differs_is_told_with_its_key_and_begins_the_wait_anew() {
    let mut world = World::of(&NODES);
    after(&mut world, 330, ["x", "x", "x"]);
    assert_eq!(after(&mut world, 30, ["x", "y", "x"]), said("False", "Diverged"));
    assert_eq!(message(&world), "sha256:2d711642b726 on a, c; sha256:a1fce4363854 on b");
    assert_eq!(after(&mut world, 300, ["x", "x", "x"]), said("False", "Settling"));
    assert_eq!(after(&mut world, 30, ["x", "x", "x"]), said("True", "Converged"));
}

/// A rotation in the KMS: nodes notice one after the other.
#[test]
fn a_rotation_diverges_and_settles_on_the_new_key() {
    let mut world = World::of(&NODES);
    after(&mut world, 330, ["x", "x", "x"]);
    assert_eq!(after(&mut world, 60, ["y", "x", "x"]), said("False", "Diverged"));
    assert_eq!(after(&mut world, 60, ["y", "y", "x"]), said("False", "Diverged"));
    assert_eq!(after(&mut world, 60, ["y", "y", "y"]), said("False", "Settling"));
    assert_eq!(after(&mut world, 270, ["y", "y", "y"]), said("True", "Converged"));
    // All at once is another key too, although nobody ever differed.
    assert_eq!(after(&mut world, 30, ["z", "z", "z"]), said("False", "Settling"));
}

#[test]
fn what_is_missing_sick_or_empty_is_no_agreement() {
    let mut world = World::of(&NODES);
    assert_eq!(after(&mut world, 600, ["", "", ""]), said("False", "Incomplete"), "all empty");
    assert_eq!(after(&mut world, 600, ["x", "unknown", "x"]), said("False", "Incomplete"), "a placeholder");
    assert_eq!(after(&mut world, 600, ["unknown", "unknown", "unknown"]), said("False", "Incomplete"));
    let mut world = World::of(&NODES);
    world.uses("a", "x");
    world.uses("b", "x");
    world.look();
    assert_eq!(world.stands("KMSRemoteKeyConverged"), ("False", "Incomplete"), "one is missing");
    assert_eq!(message(&world), "no key is known on c");
    let mut world = World::of(&NODES);
    after(&mut world, 330, ["x", "x", "x"]);
    world.say("b", WRITE, HealthStatus::Unhealthy);
    world.look();
    assert_eq!(world.stands("KMSRemoteKeyConverged"), ("False", "Incomplete"), "one is sick");
}

#[test]
fn stale_data_is_never_agreement() {
    let mut world = World::of(&NODES);
    after(&mut world, 330, ["x", "x", "x"]);
    world.pass(100);
    world.uses("a", "x");
    world.uses("b", "x");
    world.look();
    assert_eq!(world.stands("KMSRemoteKeyConverged"), ("Unknown", "ReportsStale"));
    world.uses("c", "x");
    world.look();
    assert_eq!(world.stands("KMSRemoteKeyConverged"), ("False", "Settling"));
}

#[test]
fn a_restart_keeps_what_was_relied_on_and_does_not_shorten_a_wait() {
    let mut world = World::of(&NODES);
    after(&mut world, 240, ["x", "x", "x"]);
    world.restart();
    assert_eq!(after(&mut world, 270, ["x", "x", "x"]), said("False", "Settling"));
    assert_eq!(after(&mut world, 60, ["x", "x", "x"]), said("True", "Converged"));
    let stored = world.stored.clone();
    world.restart();
    after(&mut world, 60, ["x", "x", "x"]);
    assert_eq!(world.stored, stored);
    world.restart();
    assert_eq!(after(&mut world, 60, ["y", "y", "y"]), said("False", "Settling"), "another key");
}
