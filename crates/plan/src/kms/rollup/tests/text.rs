//! T-G6: what is said, and that it fits.

use api::kms::{HealthStatus, MESSAGE_BUDGET};

use super::world::{READ, WRITE, World};
use crate::kms::rollup::Form;

#[test]
fn each_line_has_node_key_role_class_time_cause_and_detail() {
    let mut world = World::of(&["b", "a"]);
    world.look();
    world.well("a");
    world.say("b", WRITE, HealthStatus::Healthy);
    world.say("b", READ, HealthStatus::Error);
    world.report(Form::Typed, "a", WRITE, HealthStatus::Unhealthy, Some("the key\nis disabled"));
    world.look();
    assert_eq!(
        world.message(),
        "2/4 plugins healthy, 0 stale, 0 missing\n\
         a keyID=2 role=write Unhealthy since 2027-01-15T08:00:00Z cause=Unspecified: the key is disabled\n\
         b keyID=1 role=read Error since 2027-01-15T08:00:00Z cause=Timeout: no answer within 5s"
    );
}

#[test]
fn nodes_that_say_the_same_share_a_line_with_the_earliest_time() {
    let nodes = ["a", "b", "c", "d", "e", "f", "g"];
    let mut world = World::of(&nodes);
    world.look();
    for node in nodes {
        world.well(node);
        world.say(node, WRITE, HealthStatus::Error);
        world.look();
        world.pass(1);
    }
    let line = world.message().lines().nth(1).unwrap();
    assert_eq!(
        line,
        "7 nodes: a, b, c, d, e and 2 more keyID=2 role=write Error since 2027-01-15T08:00:00Z cause=Timeout: no answer within 5s"
    );
    let stored = world.stored.clone();
    world.restart();
    world.look();
    assert_eq!(world.stored, stored, "also nodes that are not named keep their time");
}

/// T-G6: 60 nodes with three keys, each of which says a kilobyte of its own.
#[test]
fn any_number_of_long_details_fits_and_the_rest_is_counted() {
    let names: Vec<String> = (0..60).map(|n| format!("{n:02}-{}", "n".repeat(240))).collect();
    let mut world = World::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for (index, node) in names.iter().enumerate() {
        let third = api::kms::ExpectedKey { key_id: "3".into(), role: api::kms::KeyRole::Read };
        world.node(node).keys.push(third);
        for key in ["1", "2", "3"] {
            let detail = format!("{index} {key} {}", "鍵".repeat(1020));
            world.report(Form::Typed, node, key, HealthStatus::Error, Some(&detail));
        }
    }
    world.look();
    let message = world.message();
    assert!(message.len() < MESSAGE_BUDGET, "{} bytes", message.len());
    assert!(message.starts_with("0/180 plugins healthy, 0 stale, 0 missing\n"));
    let (whole, last) = message.rsplit_once('\n').unwrap();
    let left_out: usize = last.strip_prefix("and ").unwrap().strip_suffix(" more").unwrap().parse().unwrap();
    assert_eq!(whole.lines().count() - 1 + left_out, 180);
    assert!(whole.lines().count() > 5, "{}", whole.lines().count());
}

#[test]
fn a_cause_is_a_word_and_not_whatever_stands_before_a_colon() {
    let mut world = World::of(&["a"]);
    for (detail, expected) in [
        (
            "SocketMissing: /var/run/kmsplugin/kms-2.sock",
            "cause=SocketMissing: /var/run/kmsplugin/kms-2.sock",
        ),
        ("RpcError(Unavailable): away", "cause=RpcError(Unavailable): away"),
        ("BadVersion", "cause=BadVersion"),
        ("rpc error: code = Unavailable", "cause=Unspecified: rpc error: code = Unavailable"),
        ("ERR: x", "cause=Unspecified: ERR: x"),
        ("", "cause=Unspecified"),
    ] {
        world.report(Form::Typed, "a", WRITE, HealthStatus::Error, Some(detail));
        world.look();
        let line = world.message().lines().nth(1).unwrap();
        assert!(line.ends_with(expected), "{line}");
    }
}
