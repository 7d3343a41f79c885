//! Convergence of nodes on one KMS key.

use api::kms::PluginStatus;

use super::simulation::{Simulation, WRITE};

const NODES: [&str; 3] = ["a", "b", "c"];

fn after(simulation: &mut Simulation, seconds: i64, ids: [&str; 3]) -> (String, String) {
    for _ in 0..seconds / 30 {
        for (node, id) in NODES.into_iter().zip(ids) {
            simulation.report_key_id(node, id);
        }
        simulation.reconcile();
        simulation.advance(30);
    }
    let (status, reason) = simulation.condition("KMSRemoteKeyConverged");
    (status.into(), reason.into())
}

fn expected(status: &str, reason: &str) -> (String, String) {
    (status.into(), reason.into())
}

fn message(simulation: &Simulation) -> String {
    simulation.stored.iter().find(|one| one.type_ == "KMSRemoteKeyConverged").unwrap().message.clone()
}

#[test]
fn key_converges_after_five_minutes() {
    let mut simulation = Simulation::new(&NODES);
    assert_eq!(after(&mut simulation, 300, ["x", "x", "x"]), expected("False", "Settling"));
    assert_eq!(after(&mut simulation, 30, ["x", "x", "x"]), expected("True", "Converged"));
    assert!(
        message(&simulation).starts_with("all 3 nodes use sha256:2d711642b726 since "),
        "{}",
        message(&simulation)
    );
}

#[test]
fn divergent_node_is_listed_and_restarts_settling() {
    let mut simulation = Simulation::new(&NODES);
    after(&mut simulation, 330, ["x", "x", "x"]);
    assert_eq!(after(&mut simulation, 30, ["x", "y", "x"]), expected("False", "Diverged"));
    assert_eq!(message(&simulation), "sha256:2d711642b726 on a, c; sha256:a1fce4363854 on b");
    assert_eq!(after(&mut simulation, 300, ["x", "x", "x"]), expected("False", "Settling"));
    assert_eq!(after(&mut simulation, 30, ["x", "x", "x"]), expected("True", "Converged"));
}

/// After a rotation in the KMS, nodes switch one after the other.
#[test]
fn rotation_diverges_and_settles_on_new_key() {
    let mut simulation = Simulation::new(&NODES);
    after(&mut simulation, 330, ["x", "x", "x"]);
    assert_eq!(after(&mut simulation, 60, ["y", "x", "x"]), expected("False", "Diverged"));
    assert_eq!(after(&mut simulation, 60, ["y", "y", "x"]), expected("False", "Diverged"));
    assert_eq!(after(&mut simulation, 60, ["y", "y", "y"]), expected("False", "Settling"));
    assert_eq!(after(&mut simulation, 270, ["y", "y", "y"]), expected("True", "Converged"));
    // A simultaneous switch of all nodes restarts settling, too.
    assert_eq!(after(&mut simulation, 30, ["z", "z", "z"]), expected("False", "Settling"));
}

#[test]
fn missing_unhealthy_or_empty_is_not_converged() {
    let mut simulation = Simulation::new(&NODES);
    assert_eq!(after(&mut simulation, 600, ["", "", ""]), expected("False", "Incomplete"), "all empty");
    assert_eq!(
        after(&mut simulation, 600, ["x", "unknown", "x"]),
        expected("False", "Incomplete"),
        "placeholder"
    );
    assert_eq!(
        after(&mut simulation, 600, ["unknown", "unknown", "unknown"]),
        expected("False", "Incomplete")
    );
    let mut simulation = Simulation::new(&NODES);
    simulation.report_key_id("a", "x");
    simulation.report_key_id("b", "x");
    simulation.reconcile();
    assert_eq!(simulation.condition("KMSRemoteKeyConverged"), ("False", "Incomplete"), "missing report");
    assert_eq!(message(&simulation), "remote key ID unknown on c");
    let mut simulation = Simulation::new(&NODES);
    after(&mut simulation, 330, ["x", "x", "x"]);
    simulation.report_status("b", WRITE, PluginStatus::Unhealthy);
    simulation.reconcile();
    assert_eq!(simulation.condition("KMSRemoteKeyConverged"), ("False", "Incomplete"), "unhealthy plugin");
}

#[test]
fn stale_reports_are_not_converged() {
    let mut simulation = Simulation::new(&NODES);
    after(&mut simulation, 330, ["x", "x", "x"]);
    simulation.advance(100);
    simulation.report_key_id("a", "x");
    simulation.report_key_id("b", "x");
    simulation.reconcile();
    assert_eq!(simulation.condition("KMSRemoteKeyConverged"), ("Unknown", "ReportsStale"));
    simulation.report_key_id("c", "x");
    simulation.reconcile();
    assert_eq!(simulation.condition("KMSRemoteKeyConverged"), ("False", "Settling"));
}

#[test]
fn restart_keeps_convergence_and_settle_time() {
    let mut simulation = Simulation::new(&NODES);
    after(&mut simulation, 240, ["x", "x", "x"]);
    simulation.restart();
    assert_eq!(after(&mut simulation, 270, ["x", "x", "x"]), expected("False", "Settling"));
    assert_eq!(after(&mut simulation, 60, ["x", "x", "x"]), expected("True", "Converged"));
    let stored = simulation.stored.clone();
    simulation.restart();
    after(&mut simulation, 60, ["x", "x", "x"]);
    assert_eq!(simulation.stored, stored);
    simulation.restart();
    assert_eq!(after(&mut simulation, 60, ["y", "y", "y"]), expected("False", "Settling"), "different key");
}
