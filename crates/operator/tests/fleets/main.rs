//! Black-box tests of fleets: the operator binary against a real API server.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

mod children;
#[path = "../node_operator/fixture.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod fixture;
mod fleet;
mod rollouts;

testbed::suite![
    children::fleet_creates_scales_and_reports_its_nodes,
    children::retained_nodes_outlive_their_fleet,
    children::foreign_node_is_not_touched,
    children::labels_of_others_survive_updates,
    rollouts::rollout_keeps_the_budget_with_a_killed_operator,
    rollouts::bad_image_stalls_after_one_node_and_the_next_edit_fixes_it,
    rollouts::revision_returns_by_annotation,
];
