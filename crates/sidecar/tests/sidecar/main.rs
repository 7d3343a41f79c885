//! Tests of the sidecar as a process.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic; clippy does not recognize tests of a custom harness"
)]

mod api;
mod authn;
mod ceremony;
mod chain;
mod config;
mod control;
mod crash;
mod disk;
mod dry_run;
mod engine;
mod fake_rpc;
mod fixture;
mod forged;
mod hardening;
mod hold;
mod peer;
mod seid;
mod snapshot;
mod tasks;
mod untrusted;
mod upgrade;
mod volume;

testbed::suite![
    concurrency = 4;
    api::healthz_over_http_1_0_follows_readiness,
    api::runs_as_seictl_serve,
    api::unknown_paths_and_methods_match_go_servemux,
    api::task_requests_are_parsed_like_go,
    api::tasks_can_be_listed_read_and_deleted,
    api::oversized_and_slow_requests_are_rejected,
    api::keep_alive_connection_serves_several_requests,
    api::node_id_endpoint_reports_id_or_error,
    api::metrics_expose_no_caller_input,
    api::server_matches_openapi_document,
    authn::invalid_settings_exit_before_any_work,
    authn::exactly_one_user_header_is_required,
    authn::sidecar_listens_on_loopback_only,
    authn::unix_socket_serves_the_api_and_loopback_only_healthz,
    authn::task_kind_header_must_match_the_body,
    authn::caller_is_stored_and_logged_but_not_params,
    ceremony::ceremony_produces_genesis_without_leaking_keys,
    ceremony::rerun_of_ceremony_keeps_keys_and_gentx,
    ceremony::ceremony_rejects_invalid_params,
    chain::chain_status_follows_real_seid,
    chain::malformed_rpc_responses_return_503,
    chain::slow_rpc_is_queried_by_few_callers_at_a_time,
    config::config_apply_renders_every_mode,
    config::invalid_config_apply_writes_nothing,
    config::incremental_apply_preserves_other_keys,
    config::config_patch_accepts_only_config_files,
    config::config_validate_reports_invalid_files,
    control::stop_and_restart_through_the_control_directory,
    control::forged_state_is_never_trusted,
    crash::crash_during_config_task_leaves_config_consistent,
    crash::crash_during_ceremony_creates_one_identity,
    crash::crash_during_restore_or_reset_is_recovered,
    crash::crash_during_release_or_hold_is_recovered,
    crash::crash_with_torn_wal_keeps_a_prefix_of_tasks,
    disk::full_disk_rejects_tasks_and_loses_none,
    disk::full_disk_fails_tasks_without_side_effects,
    disk::read_only_volume_fails_startup_and_loses_nothing,
    disk::read_only_volume_at_runtime_returns_503_and_loses_nothing,
    disk::hanging_disk_fails_livez,
    dry_run::dry_run_fails_like_the_task_and_changes_nothing,
    dry_run::dry_run_requests_are_checked_like_submissions,
    dry_run::dry_run_works_on_a_read_only_volume,
    engine::resubmission_restarts_only_failed_tasks,
    engine::concurrent_submissions_of_one_id_run_once,
    engine::list_returns_newest_100_tasks_first,
    engine::accepted_tasks_survive_sigkill,
    engine::graceful_shutdown_resumes_task_at_next_start,
    engine::deleted_task_is_cancelled_and_id_is_reusable,
    engine::client_disconnect_does_not_cancel_task,
    engine::locked_ledger_returns_503,
    engine::corrupt_ledger_fails_startup_with_remedy,
    engine::torn_wal_keeps_committed_tasks,
    engine::tasks_in_progress_are_limited,
    forged::tasks_written_into_the_ledger_are_not_executed,
    forged::tasks_of_a_previous_pod_are_submitted_again,
    hardening::process_is_unreadable_for_the_same_user,
    hold::stranded_release_never_overrides_a_newer_hold,
    hold::concurrent_release_and_hold_are_consistent,
    hold::every_process_starts_with_a_hold,
    seid::four_seid_nodes_run_the_chain_of_four_sidecars,
    seid::seid_starts_with_config_of_every_mode,
    peer::http_responses_match_upstream,
    peer::task_lifecycle_matches_upstream,
    peer::home_can_switch_to_upstream_and_back,
    snapshot::snapshot_is_restored_once,
    snapshot::archives_with_path_traversal_are_rejected,
    snapshot::archive_bombs_and_corrupt_archives_are_rejected,
    snapshot::s3_works_without_system_ca_bundle,
    snapshot::killed_restore_from_s3_resumes_with_bounded_memory,
    snapshot::uploaded_snapshot_can_be_restored_from_s3,
    snapshot::s3_errors_include_a_hint,
    tasks::await_condition_waits_for_height_or_sync,
    tasks::reset_data_requires_stopped_node,
    tasks::configure_genesis_verifies_hash,
    tasks::discover_peers_changes_only_persistent_peers,
    tasks::configure_state_sync_uses_rpc_servers,
    tasks::state_sync_requires_two_agreeing_servers,
    tasks::result_export_goes_to_the_configured_bucket_only,
    tasks::reset_data_of_a_validator_requires_confirmation,
    tasks::unsupported_task_types_are_rejected,
    tasks::stop_seid_sends_sigterm_only,
    untrusted::nested_json_from_the_bucket_fails_only_the_task,
    untrusted::malformed_snapshot_metadata_fails_only_the_task,
    untrusted::directories_with_content_are_rejected,
    upgrade::ledgers_of_schema_3_and_5_are_migrated,
    upgrade::rows_written_by_upstream_meanwhile_are_adopted,
    upgrade::newer_ledger_is_rejected_unchanged,
    upgrade::old_tasks_are_pruned_except_the_newest_hold,
];
