//! The preflight controller and checker on a real API server with OpenShift's published CRDs. Pod status is patched by the tests, except
//! in `real_pods`. Scenario ids: docs/reference/scenarios-kms.md.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests may panic; clippy only knows #[test] functions"
)]

mod config_change;
mod fixture;
mod flags;
mod leader_election;
mod per_node;
#[path = "../common/permissions.rs"]
mod permissions;
mod pod_failures;
mod rbac;
mod real_pods;
mod results;

testbed::suite![
    // The tests mostly wait, and each has its own control plane.
    concurrency = 6;
    flags::invalid_flags_are_rejected,
    results::successful_check_is_stored_and_cleaned_up,
    results::failed_check_is_stored_and_retried_on_request,
    results::failure_without_key_id_is_stored,
    results::authentication_resource_is_supported,
    results::failed_check_is_retried_after_delay,
    per_node::check_fails_if_one_node_fails,
    per_node::check_restarts_if_a_pod_is_deleted,
    leader_election::standby_takes_over_from_killed_leader,
    rbac::controller_rbac_is_sufficient_and_minimal,
    config_change::changed_config_restarts_check_in_every_state,
    config_change::check_is_removed_when_not_requested,
    config_change::missing_reference_is_degraded_until_created,
    pod_failures::pod_failure_is_reported_in_degraded,
    real_pods::checker_posts_result_before_pod_ends,
    real_pods::config_is_checked_by_its_plugin_in_a_real_pod,
];
