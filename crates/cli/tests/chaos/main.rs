//! What goes wrong in clusters, at random moments while a node is edited: everything converges, nothing is lost, nothing is done
//! twice. `OUTRIGGER_CHAOS_ROUNDS` says how often, `OUTRIGGER_CHAOS_SEED` in which order.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod fault;
mod rounds;
mod table;

use std::process::ExitCode;

use testbed::harness::Suite;

fn main() -> ExitCode {
    Suite::new("chaos")
        .test("nodes_converge_whatever_breaks_while_they_are_edited", |cx| {
            Box::pin(rounds::nodes_converge_whatever_breaks_while_they_are_edited(cx))
        })
        .run()
}
