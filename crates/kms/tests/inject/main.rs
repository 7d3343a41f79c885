//! `outrigger kms-inject` with files and with a real API server. Scenario ids: docs/reference/scenarios-kms.md.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only knows #[test] functions")]

mod cluster;
#[path = "../common/encryption_config.rs"]
mod encryption_config;
mod files;
mod fixture;

testbed::suite![
    files::pod_is_printed_in_its_input_format,
    files::injection_is_idempotent_and_reversible,
    files::invalid_input_fails_with_one_line,
    files::usage_error_exits_with_2,
    cluster::deployment_gets_plugins_once,
    cluster::plugins_of_removed_keys_are_removed,
    cluster::missing_secret_leaves_pod_unchanged,
    cluster::check_fails_until_pod_matches_revisioned_secret,
    cluster::api_server_accepts_injected_static_pod,
];
