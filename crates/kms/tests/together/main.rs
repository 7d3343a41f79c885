//! Reporter and aggregator together, beside a real API server that encrypts Secrets by the plugin they look at, and in static pods of
//! real nodes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic; clippy recognizes only those of the usual runner"
)]

mod beside;
mod ground;
mod nodes;
mod pod;

use std::process::ExitCode;

use testbed::harness::Suite;

fn main() -> ExitCode {
    Suite::new("together")
        .test("a_plugin_that_breaks_is_degraded_until_it_is_mended", |cx| {
            Box::pin(beside::a_plugin_that_breaks_is_degraded_until_it_is_mended(cx))
        })
        .test("the_api_server_starts_whatever_its_reporter_lacks", |cx| {
            Box::pin(beside::the_api_server_starts_whatever_its_reporter_lacks(cx))
        })
        .test("nodes_that_go_are_forgotten_and_those_that_stay_never_are", |cx| {
            Box::pin(nodes::nodes_that_go_are_forgotten_and_those_that_stay_never_are(cx))
        })
        // They wait, most of the time.
        .at_once(3)
        .run()
}
