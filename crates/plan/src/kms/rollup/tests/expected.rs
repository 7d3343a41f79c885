//! Which reporters are expected, by the pods of API servers, the reports and the spec.

use std::collections::BTreeMap;

use api::kms::{ExpectedKey, KeyRole, PluginStatus};

use super::simulation::{READ, Simulation, WRITE};
use crate::kms::reporter_args::ReporterArgs;
use crate::kms::rollup::{ApiServer, Inputs, PluginState, ReportFormat, UnavailableInput};

/// Returns the pod of an API server whose reporter has these arguments; without a reporter if there are none.
pub(super) fn server(node: &str, args: &str) -> ApiServer {
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    let reporter = (!args.is_empty()).then(|| ReporterArgs::parse(&[], &args, &BTreeMap::new()));
    ApiServer { node: node.into(), reporter, has_started: true }
}

/// Arguments of a reporter of both keys.
pub(super) const ARGS: &str = "--kms-sockets=unix:///run/kms-2.sock,unix:///run/kms-1.sock --write-keys=2";

/// Returns a simulation in which each of these nodes runs an API server with a reporter.
pub(super) fn with_pods(nodes: &[&str]) -> Simulation {
    let mut simulation = Simulation::new(&[]);
    let servers = nodes.iter().map(|node| server(node, ARGS)).collect();
    simulation.inputs = Some(Inputs { servers, ..Inputs::default() });
    simulation
}

/// Reconciles, and returns node, key, role and state of each expected plugin.
fn observe(simulation: &mut Simulation) -> Vec<String> {
    let decision = simulation.reconcile();
    let text = |role| if role == KeyRole::Write { "write" } else { "read" };
    decision
        .plugins
        .iter()
        .map(|one| {
            let assumed = if one.is_role_assumed { " assumed" } else { "" };
            format!("{}/{} {}{assumed} {}", one.node, one.key, text(one.role), one.state.as_str())
        })
        .collect()
}

#[test]
fn keys_of_each_node_are_those_of_its_reporter() {
    let mut simulation = with_pods(&["a"]);
    simulation.inputs().servers.push(server("b", "--kms-sockets=unix:///run/kms-1.sock --write-keys=1"));
    simulation.inputs().servers.push(server("without", ""));
    assert_eq!(
        observe(&mut simulation),
        ["a/2 write NotYetObserved", "a/1 read NotYetObserved", "b/1 write NotYetObserved"]
    );
    let (_, reason) = simulation.condition("KMSPluginsProgressing");
    assert_eq!(reason, "KeySetsDiffer");
}

/// In the first stage of a rotation, the newest key is a read key.
#[test]
fn write_key_is_the_configured_one() {
    let sockets = "--kms-sockets=unix:///run/kms-2.sock,unix:///run/kms-1.sock";
    let mut simulation = with_pods(&[]);
    simulation.inputs().servers = vec![server("a", &format!("{sockets} --write-keys=1"))];
    simulation.report_healthy("a");
    assert_eq!(observe(&mut simulation), ["a/2 read Healthy", "a/1 write Healthy"], "arguments");

    simulation.inputs().servers = vec![server("a", sockets)];
    assert_eq!(observe(&mut simulation), ["a/2 write Healthy", "a/1 read Healthy"], "order of the sockets");

    let key = |key: &str, role| ExpectedKey { key_id: key.into(), role };
    simulation.inputs().only_keys = vec![key("1", KeyRole::Write), key("2", KeyRole::Read)];
    assert_eq!(observe(&mut simulation), ["a/2 read Healthy", "a/1 write Healthy"], "spec");

    simulation.inputs().only_keys.clear();
    for report in &mut simulation.reports.valid {
        report.role = Some(if report.key == READ { KeyRole::Write } else { KeyRole::Read });
    }
    assert_eq!(observe(&mut simulation), ["a/2 read Healthy", "a/1 write Healthy"], "reports");

    simulation.inputs().servers.clear();
    assert_eq!(observe(&mut simulation), ["a/2 read Healthy", "a/1 write Healthy"], "reports without pods");

    simulation.reports.valid.iter_mut().for_each(|report| report.role = None);
    let assumed = ["a/2 write assumed Healthy", "a/1 read assumed Healthy"];
    assert_eq!(observe(&mut simulation), assumed, "the highest number");
    simulation.report_status("a", READ, PluginStatus::Error);
    simulation.reconcile();
    assert!(
        simulation.message().contains("\na keyID=1 role=read(assumed) Error since "),
        "{}",
        simulation.message()
    );
}

#[test]
fn several_write_keys_are_expected() {
    let mut simulation = with_pods(&[]);
    let args = "--kms-sockets=unix:///run/kms-2.sock,unix:///run/kms-1.sock --write-keys=1,2";
    simulation.inputs().servers = vec![server("a", args), server("b", args)];
    simulation.report_healthy("a");
    simulation.report_healthy("b");
    assert_eq!(
        observe(&mut simulation),
        ["a/2 write Healthy", "a/1 write Healthy", "b/2 write Healthy", "b/1 write Healthy"]
    );
    assert_eq!(simulation.condition("KMSRemoteKeyConverged").1, "Settling");
}

#[test]
fn gone_node_is_forgotten_and_its_report_removed() {
    let mut simulation = with_pods(&["a", "b", "c"]);
    simulation.run(&["a", "b", "c"], 60);
    simulation.inputs().servers.retain(|server| server.node != "c");
    simulation.inputs().servers.push(server("d", ARGS));
    assert_eq!(observe(&mut simulation).len(), 6);
    assert_eq!(simulation.degraded(), ("False", "NotYetObserved"));
    simulation.run(&["a", "b", "d"], 240);
    assert_eq!(simulation.degraded(), ("False", "AsExpected"));
    let removals = simulation.reconcile().removals;
    assert_eq!(removals.len(), 2, "{removals:?}");
    simulation.remove(&removals);
    assert!(simulation.reports.valid.iter().all(|report| report.node != "c"));
    assert_eq!(simulation.reconcile().removals, []);
}

#[test]
fn switched_off_kms_clears() {
    let mut simulation = with_pods(&["a", "b"]);
    simulation.run(&["a", "b"], 60);
    simulation.inputs().servers = vec![server("a", ""), server("b", ARGS)];
    simulation.run(&["b"], 60);
    assert_eq!(simulation.degraded(), ("False", "AsExpected"), "b still uses KMS");
    simulation.inputs().servers = vec![server("a", ""), server("b", "")];
    simulation.reconcile();
    assert_eq!(simulation.degraded().0, "False", "fresh reports of reporters outside of pods are valid");
    simulation.advance(151);
    let removals = simulation.reconcile().removals;
    assert_eq!((simulation.stored.len(), removals.len()), (0, 4), "{removals:?}");
}

#[test]
fn without_pods_reporting_nodes_are_expected() {
    let mut simulation = with_pods(&[]);
    assert_eq!(simulation.reconcile().conditions, None, "nothing is known");
    simulation.run(&["a", "b"], 60);
    simulation.run(&["a"], 150);
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterStale"));
    simulation.run(&["a"], 120);
    assert_eq!(simulation.degraded(), ("False", "AsExpected"), "b is gone");
    // Nothing tells whether all nodes are gone, or all reporters stopped.
    simulation.advance(10_000);
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterStale"));
}

#[test]
fn listed_nodes_are_the_only_ones() {
    let mut simulation = with_pods(&["a", "b"]);
    simulation.inputs().only_nodes = ["b", "c"].map(str::to_owned).into();
    simulation.report_healthy("a");
    assert_eq!(
        observe(&mut simulation),
        [
            "b/2 write NotYetObserved",
            "b/1 read NotYetObserved",
            "c/2 write NotYetObserved",
            "c/1 read NotYetObserved"
        ]
    );
    simulation.inputs().servers.clear();
    simulation.reports.valid.clear();
    assert_eq!(
        observe(&mut simulation),
        ["b/- write NotYetObserved", "c/- write NotYetObserved"],
        "no key is known"
    );
}

#[test]
fn planned_node_is_awaited_until_the_rollout_timeout() {
    let mut simulation = with_pods(&["a"]);
    simulation.inputs().planned_nodes = ["a", "new"].map(str::to_owned).into();
    simulation.inputs().servers.push(server("without", ""));
    simulation.inputs().planned_nodes.insert("without".into());
    simulation.report_healthy("a");
    assert_eq!(
        observe(&mut simulation),
        ["a/2 write Healthy", "a/1 read Healthy", "new/2 write NotYetObserved", "new/1 read NotYetObserved"]
    );
    simulation.run(&["a"], 600);
    assert_eq!(simulation.degraded(), ("False", "NotYetObserved"));
    simulation.run(&["a"], 60);
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterMissing"));
}

#[test]
fn unavailable_pods_leave_reports_evaluated() {
    let forbidden = UnavailableInput { what: "pods in kube-system".into(), why: "forbidden".into() };
    let mut simulation = with_pods(&[]);
    simulation.inputs().unavailable.push(forbidden.clone());
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("Unknown", "InputUnavailable"), "nothing is known");
    simulation.run(&["a", "b"], 360);
    assert_eq!(simulation.degraded(), ("Unknown", "InputUnavailable"));
    assert_eq!(simulation.condition("KMSRemoteKeyConverged"), ("Unknown", "InputUnavailable"));
    simulation.report_status("b", WRITE, PluginStatus::Error);
    simulation.reconcile();
    assert_eq!(simulation.degraded(), ("True", "PluginError"));
    // Whether a node is gone is unknown.
    simulation.run(&["a"], 600);
    assert_eq!(simulation.degraded(), ("Unknown", "ReporterStale"));
    assert_eq!(simulation.reconcile().removals, []);
    simulation.inputs().unavailable.clear();
    simulation.inputs().servers.push(server("a", ARGS));
    simulation.run(&["a"], 30);
    assert_eq!(simulation.degraded(), ("False", "AsExpected"));
    assert_eq!(simulation.reconcile().removals.len(), 2);
    // The last known pods may be outdated.
    simulation.inputs().unavailable.push(forbidden);
    assert_eq!(simulation.reconcile().removals, []);
}

/// Two reporters of one node are two writers with entries of their own.
#[test]
fn instances_of_a_node_are_expected_separately() {
    let mut simulation = with_pods(&["a"]);
    simulation.inputs().servers.push(server("a", &format!("{ARGS} --instance=blue")));
    simulation.report_healthy("a");
    let blue = |simulation: &mut Simulation, status| {
        for key in ["2@blue", "1@blue"] {
            simulation.report(ReportFormat::Condition, "a", key, status, None);
        }
    };
    blue(&mut simulation, PluginStatus::Healthy);
    assert_eq!(
        observe(&mut simulation),
        ["a/2@blue write Healthy", "a/2 write Healthy", "a/1@blue read Healthy", "a/1 read Healthy"]
    );
    assert_eq!(simulation.condition("KMSPluginsProgressing").1, "AsExpected");
    assert_eq!(simulation.condition("KMSRemoteKeyConverged").1, "Settling");
    blue(&mut simulation, PluginStatus::Error);
    simulation.reconcile();
    assert!(
        simulation.message().contains("\na keyID=2@blue role=write Error since "),
        "{}",
        simulation.message()
    );
}

#[test]
fn interval_of_pod_applies_to_reports_without_one() {
    let mut simulation = with_pods(&[]);
    simulation.inputs().servers = vec![
        server("fast", &format!("{ARGS} --interval=5s")),
        server("slow", &format!("{ARGS} --interval=60s")),
        server("default", ARGS),
    ];
    simulation.rules.interval = std::time::Duration::from_secs(3600);
    simulation.reconcile();
    ["fast", "slow", "default"].into_iter().for_each(|node| simulation.report_healthy(node));
    simulation.reconcile();
    let mut stale_after = |seconds, expected: &[&str]| {
        simulation.advance(seconds);
        let plugins = simulation.reconcile().plugins;
        let stale = plugins.iter().filter(|one| one.key == WRITE && one.state == PluginState::Stale);
        assert_eq!(stale.map(|one| one.node.as_str()).collect::<Vec<_>>(), expected);
    };
    stale_after(20, &[]);
    stale_after(1, &["fast"]);
    stale_after(99, &["fast"]);
    stale_after(1, &["default", "fast"]);
    stale_after(119, &["default", "fast"]);
    stale_after(1, &["default", "fast", "slow"]);
}
