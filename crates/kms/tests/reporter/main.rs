//! The reporter as a process, with fake plugins and a real API server with OpenShift's published CRDs. Scenario ids:
//! docs/reference/scenarios-kms.md.
//!
//! Long scenarios are shortened by default. Full forms: OUTRIGGER_KMS_RESTARTS=1000 (plugin restarts), OUTRIGGER_KMS_OUTAGE=600 (seconds
//! without an API server), OUTRIGGER_KMS_ROUNDS=20000 (rounds with constant memory).

#![allow(clippy::expect_used, reason = "tests may panic; clippy only knows #[test] functions")]

mod api_servers;
mod contention;
mod fixture;
mod plugins;
mod process;
mod reporter_process;
mod server_side_apply;

testbed::suite![
    plugins::healthy_plugin_is_reported_in_every_format,
    plugins::any_plugin_message_is_stored,
    plugins::plugin_slower_than_timeout_is_an_error,
    plugins::hanging_plugin_does_not_affect_others,
    plugins::missing_or_stale_socket_is_reported_immediately,
    plugins::restarted_plugin_is_found_without_leaks,
    plugins::socket_without_permission_is_reported,
    plugins::non_grpc_listener_is_an_error,
    plugins::versions_and_key_ids_are_validated,
    plugins::grpc_errors_are_reported_by_code,
    plugins::hundred_plugins_fit_in_one_publish,
    plugins::round_trip_detects_decrypt_failure,
    api_servers::published_schema_accepts_all_our_reports,
    api_servers::reporter_survives_api_server_outage,
    api_servers::slow_api_server_times_out,
    contention::slow_server_delays_only_unchanged_reports,
    contention::stale_write_is_rejected_and_retried,
    api_servers::every_api_error_is_logged_once_and_retried,
    api_servers::invalid_report_is_sent_in_smallest_form,
    api_servers::object_created_late_gets_reports,
    api_servers::schema_without_health_reports_is_logged,
    api_servers::rotated_token_and_ca_are_reloaded,
    api_servers::fallback_server_is_used,
    api_servers::report_of_another_manager_is_taken_over,
    server_side_apply::each_reporter_owns_only_its_reports,
    server_side_apply::restart_removes_report_of_removed_plugin,
    server_side_apply::removing_last_report_needs_explicit_list,
    server_side_apply::instance_separates_reporters_with_same_node,
    server_side_apply::concurrent_status_updates_are_kept,
    server_side_apply::longest_node_name_is_accepted,
    server_side_apply::restart_keeps_transition_time_and_key_id,
    process::sigterm_ends_reporter_within_a_second,
    process::second_signal_exits_immediately,
    process::invalid_flag_exits_with_one_line,
    process::late_credentials_are_found,
    process::reporter_runs_on_read_only_root,
    process::next_container_starts_without_working_reporter,
    process::memory_is_constant_over_many_rounds,
    process::fifty_reporters_are_spread_by_jitter,
    process::overrunning_round_is_followed_immediately,
];
