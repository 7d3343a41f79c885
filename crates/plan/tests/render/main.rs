//! What is rendered for nodes, without a cluster: golden files, shapes, and the scripts in a real shell.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

mod cases;
mod golden;
mod policy;
mod scripts;
mod shape;
mod wish;

use api::SeiNode;

/// The node of a case. Its name is nobody's idea of a default, so that names which were mixed up show.
fn node(case: &str) -> SeiNode {
    let case = cases::all().into_iter().find(|one| one.name == case).expect("a case of that name");
    case.node("tide-3", "reef")
}
