//! End-to-end tests in real pods: the released image, installed with the shipped manifests.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes libtest tests only")]

mod access;
mod attack;
mod fixture;
mod install;
mod nodes;
mod snapshots;
mod takeover;
mod tls;

testbed::suite![
    // Tests mostly wait.
    concurrency = 16;
    last = install::requests_of_all_tests_are_granted_by_the_roles;
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
    nodes::shared_node_restarts_seid_and_becomes_isolated,
    snapshots::node_restores_uploaded_snapshot,
    takeover::legacy_node_is_adopted_without_pod_cycle,
    tls::tls_is_enabled_renewed_switched_and_disabled,
    attack::network::network_client_without_token_is_refused,
    attack::network::admin_endpoints_are_unreachable_from_pods,
    attack::account::account_without_rights_is_refused,
    attack::account::right_to_one_task_kind_is_no_right_to_others,
    attack::container::seid_sees_no_process_or_secret_of_its_neighbors,
    attack::container::seid_cannot_act_as_the_operator_on_loopback,
    attack::container::seid_cannot_replace_the_proxy,
    attack::author::node_author_cannot_use_objects_of_other_nodes,
    attack::author::node_author_cannot_impersonate_a_node,
    attack::token::token_of_a_proxy_opens_nothing_else,
    attack::token::token_for_one_node_opens_no_other,
    attack::token::token_of_the_operator_is_limited,
    attack::content::hostile_genesis_is_reported_and_sidecar_survives,
    attack::content::hostile_snapshot_is_reported_and_sidecar_survives,
    attack::kms::malicious_kms_plugin_is_reported_and_contained,
    attack::kms::stolen_reporter_token_changes_only_its_own_node,
];
