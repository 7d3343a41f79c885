//! Rendered objects of nodes, without a cluster: golden files, properties, and the scripts in a real shell.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

mod cases;
mod desired_hash;
mod golden;
mod images;
mod policy;
mod scheduling;
mod scripts;
mod shape;

use api::SeiNode;

/// Returns the node of a case. Its name and namespace are not defaults of anything, so that mixed-up names show.
fn node(case: &str) -> SeiNode {
    let case = cases::all().into_iter().find(|one| one.name == case).expect("the case exists");
    case.node("tide-3", "reef")
}
