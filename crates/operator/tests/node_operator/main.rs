//! Black-box tests: the operator binary against a real API server.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

mod creation;
mod edits;
mod eviction;
mod failures;
mod fixture;
mod history;
mod keys;
mod pacing;
mod policy;
mod protection;
mod refusals;
mod regressions;
mod repair;
mod resume;
mod startup;
mod status;
mod storage;

testbed::suite![
    startup::missing_settings_are_reported_before_any_request,
    startup::invalid_settings_are_reported_before_any_request,
    startup::removed_settings_are_reported_before_any_request,
    startup::missing_permission_for_tokens_stops_startup,
    failures::failed_task_fails_node_until_next_edit,
    failures::retry_annotation_retries_a_failed_node_at_once,
    failures::unreachable_sidecar_is_retried_without_duplicate_tasks,
    failures::task_is_retried_after_backoff_until_max_retries,
    failures::failed_update_keeps_node_running_and_next_edit_applies,
    failures::slow_sidecar_does_not_delay_other_nodes,
    creation::new_node_converges_without_further_writes,
    creation::plan_is_stored_before_it_is_executed,
    creation::task_ids_are_unique_and_params_match_the_plan,
    creation::each_node_kind_runs_its_own_tasks,
    edits::image_edit_is_one_plan_and_one_pod_cycle,
    edits::each_edit_is_one_plan_and_at_most_one_pod_cycle,
    edits::combined_edit_is_one_plan_and_one_pod_cycle,
    edits::update_replaces_the_pod_of_an_unready_node,
    edits::slow_pod_is_deleted_once_and_foreign_pods_never,
    edits::paused_node_is_untouched_and_reports_pending_edits,
    edits::paused_plan_resumes,
    edits::bad_edit_replaces_no_pod,
    edits::rejected_dry_run_replaces_no_pod,
    resume::restarted_operator_resumes_the_plan,
    resume::operator_killed_during_update_deletes_one_pod,
    resume::unknown_task_in_stored_plan_fails_the_plan,
    resume::conflicting_status_writers_leave_one_plan,
    resume::missing_mirrors_are_not_drift_until_first_edit,
    status::mirrors_follow_the_running_pod,
    status::failing_image_is_reported_and_next_edit_applies,
    status::failing_image_of_new_node_is_reported,
    status::quick_edits_never_report_an_image_before_it_runs,
    status::deleted_pod_is_marked_ready_again,
    status::restarted_sidecar_is_marked_ready_with_one_event_each,
    status::mark_ready_plan_keeps_the_update_condition,
    status::late_health_answer_changes_no_status,
    repair::deleted_objects_are_restored_without_a_new_pod,
    repair::modified_objects_are_restored_without_a_new_pod,
    repair::deleted_stateful_set_is_restored_with_a_new_pod,
    eviction::validator_is_evicted_only_with_the_annotation,
    refusals::forbidden_repair_is_reported_and_backs_off,
    refusals::repair_denied_as_invalid_is_reported_and_backs_off,
    refusals::repair_beyond_a_quota_is_reported_and_backs_off,
    refusals::repair_during_an_overload_is_reported_and_backs_off,
    refusals::repair_during_an_outage_is_reported_and_backs_off,
    refusals::repair_of_a_missing_kind_is_reported_and_backs_off,
    refusals::setup_beyond_a_quota_waits_for_it,
    storage::unusable_claim_fails_the_node,
    storage::unready_claim_is_waited_for,
    storage::foreign_claim_is_not_adopted,
    storage::node_deletion_keeps_imported_and_deletes_created_objects,
    storage::larger_size_is_applied_in_place_if_the_class_allows_it,
    storage::pod_is_kept_while_its_claim_is_being_deleted,
    storage::rejected_finalizer_removal_is_retried_with_backoff,
    keys::missing_keys_are_waited_for,
    keys::missing_permission_for_secrets_is_reported_with_its_fix,
    keys::malformed_keys_fail_the_node_until_replaced,
    keys::malformed_keyrings_fail_the_node_until_replaced,
    protection::retained_claim_is_reported_and_taken_over,
    protection::edited_deletion_policy_keeps_the_pod,
    protection::owned_claim_of_a_validator_is_retained_after_takeover,
    protection::second_node_with_a_signing_key_is_refused,
    protection::imported_claim_of_another_node_is_refused,
    regressions::update_recreates_missing_proxy_config,
    regressions::slow_failing_task_is_submitted_once,
    regressions::rejected_task_fails_the_plan_with_the_sidecar_error,
    pacing::changed_default_sidecar_image_disrupts_few_nodes,
    regressions::failed_update_stays_visible,
    regressions::image_edited_during_plan_is_not_reported_before_it_runs,
    regressions::bootstrap_is_deleted_before_the_stateful_set_is_created,
    regressions::bootstrap_uses_imported_volume_and_node_security_context,
    regressions::finished_bootstrap_is_recognized_after_restart,
    regressions::rejected_spec_is_reported_in_status,
    regressions::hanging_sidecar_is_reported_unreachable,
    regressions::changed_proxy_config_replaces_the_pod,
];
