//! Content and size of messages.

use api::kms::{MESSAGE_BUDGET, PluginStatus};

use super::simulation::{READ, Simulation, WRITE};
use crate::kms::rollup::ReportFormat;

#[test]
fn line_contains_all_fields() {
    let mut simulation = Simulation::new(&["b", "a"]);
    simulation.reconcile();
    simulation.report_healthy("a");
    simulation.report_status("b", WRITE, PluginStatus::Healthy);
    simulation.report_status("b", READ, PluginStatus::Error);
    simulation.report(ReportFormat::Typed, "a", WRITE, PluginStatus::Unhealthy, Some("the key\nis disabled"));
    simulation.reconcile();
    assert_eq!(
        simulation.message(),
        "2/4 plugins healthy, 0 stale, 0 missing\n\
         a keyID=2 role=write Unhealthy since 2027-01-15T08:00:00Z cause=Unspecified: the key is disabled\n\
         b keyID=1 role=read Error since 2027-01-15T08:00:00Z cause=Timeout: no answer within 5s"
    );
}

#[test]
fn nodes_with_same_problem_share_a_line() {
    let nodes = ["a", "b", "c", "d", "e", "f", "g"];
    let mut simulation = Simulation::new(&nodes);
    simulation.reconcile();
    for node in nodes {
        simulation.report_healthy(node);
        simulation.report_status(node, WRITE, PluginStatus::Error);
        simulation.reconcile();
        simulation.advance(1);
    }
    let line = simulation.message().lines().nth(1).unwrap();
    assert_eq!(
        line,
        "7 nodes: a, b, c, d, e and 2 more keyID=2 role=write Error since 2027-01-15T08:00:00Z cause=Timeout: no answer within 5s"
    );
    let stored = simulation.stored.clone();
    simulation.restart();
    simulation.reconcile();
    assert_eq!(simulation.stored, stored, "unnamed nodes keep their time, too");
}

/// 60 nodes with three keys and a detail of about one kilobyte each.
#[test]
fn long_message_is_truncated_with_count() {
    let names: Vec<String> = (0..60).map(|n| format!("{n:02}-{}", "n".repeat(240))).collect();
    let mut simulation = Simulation::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for (index, node) in names.iter().enumerate() {
        let third = api::kms::ExpectedKey { key_id: "3".into(), role: api::kms::KeyRole::Read };
        simulation.node(node).keys.push(third);
        for key in ["1", "2", "3"] {
            let detail = format!("{index} {key} {}", "鍵".repeat(1020));
            simulation.report(ReportFormat::Typed, node, key, PluginStatus::Error, Some(&detail));
        }
    }
    simulation.reconcile();
    let message = simulation.message();
    assert!(message.len() < MESSAGE_BUDGET, "{} bytes", message.len());
    assert!(message.starts_with("0/180 plugins healthy, 0 stale, 0 missing\n"));
    let (whole, last) = message.rsplit_once('\n').unwrap();
    let left_out: usize = last.strip_prefix("and ").unwrap().strip_suffix(" more").unwrap().parse().unwrap();
    assert_eq!(whole.lines().count() - 1 + left_out, 180);
    assert!(whole.lines().count() > 5, "{}", whole.lines().count());
}

#[test]
fn cause_is_parsed_strictly() {
    let mut simulation = Simulation::new(&["a"]);
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
        simulation.report(ReportFormat::Typed, "a", WRITE, PluginStatus::Error, Some(detail));
        simulation.reconcile();
        let line = simulation.message().lines().nth(1).unwrap();
        assert!(line.ends_with(expected), "{line}");
    }
}
