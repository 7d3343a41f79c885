//! T-G2 to T-G5, T-G7: what time does to reports.

use api::kms::HealthStatus;

use super::world::{WRITE, World};
use crate::kms::rollup::State;
use crate::kms::union::{Inertia, OperatorCondition, SLOTS, union};

fn state(world: &mut World, node: &str) -> State {
    let made = world.look();
    made.subjects.iter().find(|one| one.node == node && one.key == WRITE).unwrap().state
}

/// T-G2.
#[test]
fn a_report_is_stale_after_four_intervals_and_not_before() {
    let mut world = World::of(&["a"]);
    world.look();
    world.well("a");
    let made = world.look();
    let due = made.look_at.unwrap() - world.now().steady;
    assert_eq!(due.as_secs(), 120, "it is looked at when it turns");
    for (passed, expected) in
        [(119, State::Healthy), (1, State::Healthy), (1, State::Stale), (10_000, State::Stale)]
    {
        world.pass(passed);
        assert_eq!(state(&mut world, "a"), expected);
    }
    world.well("a");
    assert_eq!(state(&mut world, "a"), State::Healthy);
}

/// T-G2: a report that says how often it comes is judged by that.
#[test]
fn a_report_that_says_its_interval_is_judged_by_it() {
    let mut world = World::of(&["a"]);
    world.look();
    world.well("a");
    for report in &mut world.reports.readable {
        report.interval = Some(std::time::Duration::from_secs(60));
    }
    world.look();
    world.pass(240);
    assert_eq!(state(&mut world, "a"), State::Healthy);
    world.pass(1);
    assert_eq!(state(&mut world, "a"), State::Stale);
}

/// T-G3: who changes his report is alive, whatever his clock says and however it jumps.
#[test]
fn a_clock_that_is_wrong_or_jumps_does_no_harm_while_reports_come() {
    for clocks in [[3600; 4], [-3600; 4], [0, 3600, -3600, 50]] {
        let mut world = World::of(&["a"]);
        world.look();
        for off in clocks {
            world.clocks.insert("a".into(), off);
            world.well("a");
            assert_eq!(state(&mut world, "a"), State::Healthy, "{off}");
            world.pass(30);
            assert_eq!(state(&mut world, "a"), State::Healthy, "{off}");
        }
        world.pass(121);
        assert_eq!(state(&mut world, "a"), State::Stale, "nobody is fresh for ever: {clocks:?}");
    }
}

/// T-G3.
#[test]
fn our_own_clock_may_jump() {
    let mut world = World::of(&["a"]);
    world.well_for(60);
    for jump in [7200, -7200, 0] {
        world.our_clock = jump;
        assert_eq!(state(&mut world, "a"), State::Healthy, "{jump}");
        world.pass(30);
        world.well("a");
        assert_eq!(state(&mut world, "a"), State::Healthy, "{jump}");
    }
}

/// T-G3: a process that begins to look has only clocks to go by, and allows them to be off.
#[test]
fn a_process_that_begins_judges_by_the_clock_with_a_margin() {
    for (off, expected) in [
        (0, State::Healthy),
        (-180, State::Healthy),
        (-181, State::Stale),
        (-86_400, State::Stale),
        (60, State::Healthy),
        (61, State::ClockSkew),
    ] {
        let mut world = World::of(&["a"]);
        world.clocks.insert("a".into(), off);
        world.well("a");
        assert_eq!(state(&mut world, "a"), expected, "{off}");
        world.pass(121);
        let later = if expected == State::ClockSkew { State::ClockSkew } else { State::Stale };
        if off < 60 {
            assert_eq!(state(&mut world, "a"), later, "{off}: it did not change while we looked");
        }
        world.well("a");
        assert_eq!(state(&mut world, "a"), State::Healthy, "{off}: it changed");
    }
}

/// T-G3: an object that was stale before a restart is stale after it, at once and without a write.
#[test]
fn a_restart_with_a_stale_object_changes_nothing() {
    let mut world = World::of(&["a", "b"]);
    world.well_for(60);
    world.pass(300);
    world.look();
    assert_eq!(world.degraded(), ("Unknown", "ReporterStale"));
    let (writes, stored) = (world.writes, world.stored.clone());
    world.restart();
    world.pass(5);
    world.look();
    assert_eq!((world.writes, &world.stored), (writes, &stored));
}

/// T-G4.
#[test]
fn a_missing_reporter_is_missed_after_a_deadline_that_a_restart_does_not_renew() {
    let mut world = World::of(&["a"]);
    assert_eq!(state(&mut world, "a"), State::NotYetObserved);
    world.pass(120);
    assert_eq!(state(&mut world, "a"), State::NotYetObserved);
    world.pass(1);
    assert_eq!(state(&mut world, "a"), State::NeverReported);
    assert_eq!(world.degraded(), ("Unknown", "ReporterMissing"));
    let stored = world.stored.clone();
    world.restart();
    assert_eq!(state(&mut world, "a"), State::NeverReported);
    world.pass(5);
    assert_eq!(state(&mut world, "a"), State::NeverReported);
    assert_eq!(world.stored, stored);
    world.well("a");
    assert_eq!(state(&mut world, "a"), State::Healthy);
}

/// T-G4: the deadline begins when the API server runs.
#[test]
fn who_does_not_run_yet_is_not_missed() {
    let mut world = World::of(&["a"]);
    world.node("a").running = false;
    world.look();
    world.pass(1000);
    assert_eq!(state(&mut world, "a"), State::NotYetObserved);
    world.node("a").running = true;
    assert_eq!(state(&mut world, "a"), State::NotYetObserved);
    world.pass(121);
    assert_eq!(state(&mut world, "a"), State::NeverReported);
}

/// How a ClusterOperator shows what is stored.
fn cluster_operator(world: &World) -> String {
    let parts: Vec<OperatorCondition> = world
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
    union(SLOTS[0], &parts, &Inertia::default(), world.now().wall).0.status
}

/// T-G5: a plugin that is sick for half of each period. The reporter looks every half minute.
#[test]
fn a_plugin_that_flaps_reaches_the_cluster_operator_at_every_period() {
    for (period, begin) in [(20, 7), (90, 0), (300, 0)] {
        let mut world = World::of(&["a"]);
        world.well_for(60);
        let (mut told, mut taken_back) = (false, 0);
        for at in (0..1800).step_by(5) {
            let sick = (at + begin) % period >= period / 2;
            // Not in step with the period, as no reporter is.
            if at % 35 == 0 {
                world.well("a");
                if sick {
                    world.say("a", WRITE, HealthStatus::Unhealthy);
                }
            }
            world.look();
            let shown = cluster_operator(&world) == "True";
            taken_back += usize::from(told && !shown && at > 900);
            told = shown;
            world.pass(5);
        }
        assert!(told, "a period of {period} s is not told: {}", world.message());
        assert_eq!(taken_back, 0, "a period of {period} s is taken back");
        // It ends, ten minutes after the last change.
        world.well_for(660);
        assert_eq!(world.degraded(), ("False", "AsExpected"), "{period}");
    }
}

#[test]
fn two_changes_are_no_flapping_and_a_third_is_until_ten_minutes_have_passed() {
    let mut world = World::of(&["a"]);
    world.well_for(30);
    for status in [HealthStatus::Error, HealthStatus::Healthy, HealthStatus::Error] {
        world.pass(30);
        world.say("a", WRITE, status);
        world.look();
        assert_ne!(world.degraded().1, "PluginFlapping");
    }
    world.pass(30);
    world.say("a", WRITE, HealthStatus::Healthy);
    let made = world.look();
    assert_eq!(world.degraded(), ("True", "PluginFlapping"));
    assert!(made.look_at.is_some());
    world.well_for(540);
    assert_eq!(world.degraded().1, "PluginFlapping", "two of the changes may be old, three are not");
    world.well_for(60);
    assert_eq!(world.degraded().1, "AsExpected");
}

/// T-G7: an hour of reports in which nothing changes is no write, and no message has a time that moves.
#[test]
fn where_nothing_changes_nothing_is_written() {
    let mut world = World::of(&["a", "b", "c"]);
    world.expect("silent");
    world.node("silent").running = true;
    let hour = |world: &mut World| {
        for _ in 0..120 {
            for node in ["a", "b"] {
                world.well(node);
            }
            world.say("c", WRITE, HealthStatus::Error);
            world.say("c", "1", HealthStatus::Healthy);
            world.look();
            world.pass(30);
        }
    };
    hour(&mut world);
    let (writes, stored) = (world.writes, world.stored.clone());
    assert!(writes <= 4, "{writes} writes until it was at rest");
    hour(&mut world);
    assert_eq!(world.writes, writes, "{} became {}", stored[0].message, world.message());
    world.restart();
    hour(&mut world);
    assert_eq!(world.writes, writes, "another process writes nothing either: {}", world.message());
}

/// The property behind it: whatever the mix of states, two looks at the same states say the same.
#[test]
fn no_message_has_a_time_that_moves_with_every_look() {
    for mix in 0..7_u32.pow(3) {
        let mut world = World::of(&["a", "b", "c"]);
        let mut said = Vec::new();
        for round in 0..24 {
            for (index, node) in ["a", "b", "c"].into_iter().enumerate() {
                match mix / 7_u32.pow(u32::try_from(index).unwrap()) % 7 {
                    0 => world.well(node),
                    1 => world.say(node, WRITE, HealthStatus::Unhealthy),
                    2 => world.say(node, WRITE, HealthStatus::Error),
                    3 if round < 2 => world.well(node),
                    4 => world.garble(node),
                    5 => world.node(node).running = false,
                    _ => {}
                }
            }
            world.look();
            let messages: Vec<String> = world.stored.iter().map(|one| one.message.clone()).collect();
            // After ten minutes all deadlines are over.
            if round > 20 {
                said.push(messages);
            }
            world.pass(30);
        }
        said.dedup();
        assert_eq!(said.len(), 1, "mix {mix}: {said:#?}");
    }
}
