//! End-to-end tests in real pods: the released image, installed with the shipped manifests.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes libtest tests only")]

mod access;
mod fixture;
mod install;
mod nodes;
mod snapshots;
mod takeover;
mod tls;

testbed::suite![
    // Tests mostly wait.
    concurrency = 16;
    install::manifests_install_operator_with_failover,
    install::missing_settings_are_in_termination_message,
    nodes::validator_produces_blocks,
    nodes::full_node_follows_chain,
    nodes::wrong_override_keeps_validator_running,
    nodes::unpullable_image_is_reported_and_recovers,
    nodes::seid_startup_error_is_reported_and_recovers,
    access::sidecar_is_reachable_through_proxy_only,
    access::task_access_is_limited_to_one_node,
    access::dead_sidecar_returns_502_and_recovers,
    snapshots::node_restores_uploaded_snapshot,
    takeover::legacy_node_is_adopted_without_pod_cycle,
    tls::tls_is_enabled_renewed_switched_and_disabled,
];
