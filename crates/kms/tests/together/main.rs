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

use std::process::ExitCode;

use testbed::harness::Suite;

fn main() -> ExitCode {
    Suite::new("together")
        .test("broken_plugin_is_degraded_until_repaired", |cx| {
            Box::pin(api_server::broken_plugin_is_degraded_until_repaired(cx))
        })
        .test("api_server_starts_without_working_reporter", |cx| {
            Box::pin(api_server::api_server_starts_without_working_reporter(cx))
        })
        .test("only_reports_of_removed_nodes_are_removed", |cx| {
            Box::pin(nodes::only_reports_of_removed_nodes_are_removed(cx))
        })
        // The tests mostly wait.
        .at_once(3)
        .run()
}
