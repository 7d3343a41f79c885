//! The node sidecar: HTTP task API, task engine, ledger, and one file per task kind. A drop-in replacement for upstream's
//! `seictl serve`.
//!
//! Dependencies point downward: `http` -> `engine` -> `kinds` -> `node` -> `ledger`. A task has four shapes: the wire request
//! (`http::request_body`), the stored row ([`ledger::TaskRow`]), the running execution ([`ledger::Execution`]) and the wire response
//! (`http::task_response`).
//!
//! # Invariants
//!
//! | invariant | guarded by |
//! |---|---|
//! | only new and failed tasks start | `ledger::command::tests::only_new_and_failed_tasks_start` |
//! | a stranded release runs again only if it is newer than every hold | `engine::recovery::tests::stranded_release_restarts_only_if_newer_than_every_hold` |
//! | ledger times sort as text, and submission times are unique | `ledger::time::tests::parsed_times_sort_as_text_in_time_order`, `ledger::time::tests::clock_is_strictly_increasing` |
//! | every spelling of an ID refers to the same task | `ledger::schema::tests::every_uuid_spelling_has_one_canonical_id` |
//! | an interrupted migration is resumed | `ledger::schema::tests::interrupted_migration_is_resumed_at_the_next_open` |
//! | newer and corrupt ledgers are rejected and not changed | `ledger::schema::tests::newer_and_corrupt_ledgers_are_rejected_unchanged` |
//! | every task type has a deadline, and is supported or rejected with a reason | `kinds::tests::only_the_snapshot_upload_loop_has_no_deadline`, `kinds::tests::every_task_type_is_supported_or_rejected_with_a_reason` |
//! | a panic fails one task, and an exceeded deadline is stored | `engine::tests::panicking_task_fails_and_engine_survives`, `engine::tests::exceeded_deadline_is_stored_as_failure` |
//! | a cancelled task stores no error, and keeps its locks until its threads end | `engine::tests::error_after_cancellation_is_not_stored_but_success_is`, `engine::tests::deleted_task_keeps_its_lock_until_its_threads_end` |
//! | threads that do not stop fail the liveness probe | `engine::tests::stuck_threads_are_reported_by_liveness` |
//! | only one sidecar uses a home | `node::home::tests::home_lock_is_exclusive` |
//! | an accepted task is durable | `sidecar::accepted_tasks_survive_sigkill` |
//! | with a private directory, a restart resumes only what this sidecar has accepted and not finished; a hold stays, and a publishing node continues to upload | `sidecar::tasks_written_into_the_ledger_are_not_executed`, `sidecar::tasks_of_a_previous_pod_are_submitted_again`, `engine::recovery::tests::only_accepted_tasks_restart`, `engine::recovery::tests::publishing_node_restarts_one_upload`, `ledger::accepted::tests::record_is_of_one_execution`, `ledger::accepted::tests::stale_records_are_removed_at_start` |
//! | a ledger failure is 503, never 404 and never an empty list | `sidecar::locked_ledger_returns_503` |
//! | a volume that becomes read-only loses nothing, and no task starts on it | `sidecar::read_only_volume_at_runtime_returns_503_and_loses_nothing` |
//! | a home can be switched to upstream's `seictl` and back | `sidecar::home_can_switch_to_upstream_and_back`, `sidecar::rows_written_by_upstream_meanwhile_are_adopted` |
//! | archives cannot write outside their target | `sidecar::archives_with_path_traversal_are_rejected` |
//! | the state of the chain is that of seid, height and app hash belong together, and a seid that does not answer is 503 | `sidecar::chain_status_follows_real_seid`, `sidecar::malformed_rpc_responses_return_503` |
//! | a dry-run fails with the error of the task, writes nothing and stores no task, also on a read-only volume | `sidecar::dry_run_fails_like_the_task_and_changes_nothing`, `sidecar::dry_run_works_on_a_read_only_volume` |
//! | dry-runs neither wait long for tasks nor multiply without limit | `engine::tests::dry_run_does_not_wait_for_a_running_task`, `engine::tests::concurrent_dry_runs_are_limited` |
//! | callers cannot multiply the queries of seid without limit | `sidecar::slow_rpc_is_queried_by_few_callers_at_a_time` |
//! | unauthenticated endpoints expose no caller input | `sidecar::metrics_expose_no_caller_input` |
//! | the API is authenticated by default, and never reachable from other hosts | `settings::tests::default_is_authenticated_on_loopback`, `sidecar::sidecar_listens_on_loopback_only` |
//! | on a Unix socket, the TCP port serves healthz only, and a live socket is not taken over | `sidecar::unix_socket_serves_the_api_and_loopback_only_healthz`, `http::listener::tests::stale_socket_is_replaced_and_live_one_is_an_error` |
//! | a task is of the type that the proxy authorized | `sidecar::task_kind_header_must_match_the_body` |
//! | other processes of the same user cannot read environment and memory | `sidecar::process_is_unreadable_for_the_same_user` |
//! | the control directory of seid is not trusted, and no request outlives its task | `sidecar::forged_state_is_never_trusted`, `sidecar::stop_and_restart_through_the_control_directory`, `node::process::control::tests::directories_in_place_of_the_request_are_removed` |
//! | all invalid settings are reported together | `settings::tests::all_invalid_settings_are_reported_together` |
//! | path-style and virtual-host S3 addressing work | `bucket::tests::virtual_host_endpoint_contains_bucket_name_once` |
//! | S3 works in an image without a CA bundle | `sidecar::s3_works_without_system_ca_bundle` |
//! | restored snapshot metadata lists only existing snapshots | `kinds::snapshot::index::tests::prune_keeps_only_records_of_existing_snapshots` |
//! | files are written atomically, also several together, and no temporary files remain | `node::files::tests::write_is_atomic_and_leaves_no_temporary_files`, `node::config::tests::patch_that_fails_for_one_file_changes_none` |
//! | a task that is killed before any of its writes runs once or is recovered | `sidecar::crash_during_config_task_leaves_config_consistent`, `sidecar::crash_during_ceremony_creates_one_identity`, `sidecar::crash_during_restore_or_reset_is_recovered`, `sidecar::crash_during_release_or_hold_is_recovered`, `sidecar::crash_with_torn_wal_keeps_a_prefix_of_tasks` |
//! | a ceremony reuses its keys and gentx and never creates them twice | `sidecar::rerun_of_ceremony_keeps_keys_and_gentx` |
//! | seid runs with the genesis, keys and config of the sidecar | `sidecar::four_seid_nodes_run_the_chain_of_four_sidecars`, `sidecar::seid_starts_with_config_of_every_mode` |
//!
//! # Known risks of upstream
//!
//! | risk | mitigation | tested by |
//! |---|---|---|
//! | path traversal in `config-patch` | only three file names are accepted | `sidecar::config_patch_accepts_only_config_files` |
//! | path traversal and decompression bombs in archives | entries are created relative to a directory handle, links are not followed; bytes and entries are limited | `sidecar::archives_with_path_traversal_are_rejected`, `sidecar::archive_bombs_and_corrupt_archives_are_rejected` |
//! | documents that abort the process | nesting is limited; snapshot metadata is read by a child process with little memory and time; entries without content have none | `sidecar::nested_json_from_the_bucket_fails_only_the_task`, `sidecar::malformed_snapshot_metadata_fails_only_the_task`, `sidecar::directories_with_content_are_rejected` |
//! | state sync that trusts one server | two on different hosts, with different node IDs, must agree on the trusted block | `sidecar::state_sync_requires_two_agreeing_servers`, `kinds::configure_state_sync::tests::one_host_or_node_id_is_one_witness` |
//! | data sent to a bucket chosen by the caller | `result-export` uses the sidecar's settings | `sidecar::result_export_goes_to_the_configured_bucket_only` |
//! | a validator that loses the record of its last signature | `reset-data` needs a confirmation | `sidecar::reset_data_of_a_validator_requires_confirmation` |
//! | private keys in a bucket | only the node ID is uploaded; a gentx is parsed before it is uploaded | `sidecar::ceremony_produces_genesis_without_leaking_keys`, `sidecar::four_seid_nodes_run_the_chain_of_four_sidecars` |
//! | execution of a program chosen by the caller | the task type is rejected | `sidecar::unsupported_task_types_are_rejected` |
//! | requests to hosts chosen by the caller (SSRF) | only http and https, no redirects, size and time limits, validated host names | `sidecar::configure_state_sync_uses_rpc_servers`, `sidecar::discover_peers_changes_only_persistent_peers` |
//! | unlimited request bodies | 1 MiB | `sidecar::oversized_and_slow_requests_are_rejected` |
//! | ledger failures reported as normal responses | always 503 with Retry-After | `sidecar::locked_ledger_returns_503` |
//! | unlimited tasks and rows | limits on tasks in progress and working tasks, one task per resource, pruning | `sidecar::tasks_in_progress_are_limited`, `sidecar::old_tasks_are_pruned_except_the_newest_hold`, `engine::tests::deleted_task_keeps_its_lock_until_its_threads_end` |
//! | unknown caller | the caller is stored and logged | `sidecar::caller_is_stored_and_logged_but_not_params` |
//! | leaked keyring passphrase | it is never read; the only keyring that is opened is the one the ceremony creates | `settings::tests::keyring_passphrase_is_never_read` |
//! | tasks without a deadline | every type has one, and so has each upload of the periodic task | `kinds::tests::only_the_snapshot_upload_loop_has_no_deadline`, `engine::tests::exceeded_deadline_is_stored_as_failure` |
//! | markers that ignore parameters | they record the parameters, and a difference is reported | `node::marker::tests::marker_records_params_and_reports_differences`, `sidecar::snapshot_is_restored_once` |
//! | SIGKILL of a validator | only after a halt height was reached and SIGTERM timed out; never by stop-seid and restart-seid | `sidecar::stop_seid_sends_sigterm_only` |
//! | leaked task parameters | they are never logged; messages contain no secrets | `sidecar::caller_is_stored_and_logged_but_not_params`, `sidecar::s3_errors_include_a_hint` |
//! | signals to the wrong process | the start script signals its own child; without it, only `seid start` matches | `node::process::signals::tests::find_matches_only_seid_start` |
//! | partial or wrong genesis file | renamed into place after the hash check, which also runs if the marker exists | `sidecar::configure_genesis_verifies_hash` |
//! | race of a release and a hold | the later submission wins | `sidecar::concurrent_release_and_hold_are_consistent` |
//! | times that do not sort | fixed-width text | `ledger::time::tests::parsed_times_sort_as_text_in_time_order` |
//! | shutdown that abandons tasks | it waits for them | `sidecar::graceful_shutdown_resumes_task_at_next_start` |
//! | authentication mode that is validated too late | all settings are validated first | `sidecar::invalid_settings_exit_before_any_work` |
//! | several spellings of one task ID | one canonical form | `ledger::schema::tests::every_uuid_spelling_has_one_canonical_id` |
//! | one ID submitted with different parameters | kept for compatibility: clients rely on it | `sidecar::resubmission_restarts_only_failed_tasks` |
//! | metrics without authentication | labels from a closed list | `sidecar::metrics_expose_no_caller_input` |
//! | one permission for all tasks of a node | the proxy can authorize each type, by a header that must match | `sidecar::task_kind_header_must_match_the_body` |

pub mod archive;
pub mod bucket;
pub mod engine;
pub mod http;
pub mod kinds;
pub mod ledger;
pub mod metrics;
pub mod node;
mod roots;
mod run;
pub mod settings;

pub use self::kinds::run_snapshot_metadata_pruner;
pub use self::run::{Error, run};
pub use self::settings::{Args, Settings};
