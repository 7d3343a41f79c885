//! The aggregator as a process, on a real API server with OpenShift's published CRDs and KMSHealth. Scenario ids:
//! docs/reference/scenarios-kms.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic; clippy only knows #[test] functions"
)]

mod cleanup;
mod cluster_operator;
#[path = "../common/encryption_config.rs"]
mod encryption_config;
mod fixture;
mod health;
mod kinds;
mod leader_election;
#[path = "../common/permissions.rs"]
mod permissions;
mod policy;
mod rbac;
mod startup;

testbed::suite![
    // The tests mostly wait for intervals to pass.
    concurrency = 6;
    startup::invalid_settings_exit_with_2,
    health::failing_plugin_degrades_and_emits_one_event,
    health::dead_reporter_is_stale_regardless_of_its_clock,
    health::silent_node_is_missing_after_deadline,
    health::flapping_plugin_stays_degraded,
    health::steady_state_writes_nothing,
    health::restart_with_stale_reports_writes_nothing,
    cleanup::only_reports_without_live_reporter_are_removed,
    cleanup::full_object_accepts_new_nodes_after_cleanup,
    cleanup::disabling_kms_removes_conditions_and_reports,
    kinds::every_kind_is_rolled_up_in_both_formats,
    kinds::rollout_expects_keys_of_each_nodes_revision,
    leader_election::concurrent_aggregators_converge,
    leader_election::standby_takes_over_from_killed_leader,
    cluster_operator::conditions_are_rolled_up_after_inertia,
    policy::reporter_may_change_only_its_own_entries,
    rbac::aggregator_rbac_is_sufficient_and_minimal,
    rbac::reporter_rbac_is_sufficient_and_minimal,
];
