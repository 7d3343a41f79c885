//! Reporter and aggregator together: next to a real API server that encrypts Secrets with the probed plugin, and in static pods of real
//! nodes. Scenario ids: docs/reference/scenarios-kms.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic; clippy only knows #[test] functions"
)]

mod api_server;
mod fixture;
mod nodes;
mod pod;

testbed::suite![
    // The tests mostly wait.
    concurrency = 3;
    api_server::broken_plugin_is_degraded_until_repaired,
    api_server::api_server_starts_without_working_reporter,
    nodes::only_reports_of_removed_nodes_are_removed,
];
