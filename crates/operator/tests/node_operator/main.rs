//! The operator as its users meet it: the real binary against the real API server.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod begin;
mod defects;
mod diary;
mod edits;
mod failures;
mod ground;
mod keys;
mod repair;
mod resume;
mod startup;
mod storage;
mod truth;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("node_operator")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        startup::without_settings_everything_that_is_missing_is_told_before_any_request,
        startup::three_wrong_settings_are_told_in_one_message_before_any_request,
        failures::a_task_that_fails_fails_the_node_until_an_edit_mends_it,
        failures::a_sidecar_that_cannot_be_reached_is_asked_again_and_given_nothing_twice,
        failures::a_task_with_a_budget_is_tried_again_after_its_wait_and_until_its_budget_is_spent,
        failures::a_failed_update_leaves_the_node_running_and_the_next_edit_is_taken_up_at_once,
        failures::a_sidecar_that_hangs_or_answers_late_delays_nobody_else,
        begin::a_new_node_runs_and_rests,
        begin::a_plan_is_visible_before_anything_of_it_is_done,
        begin::ids_are_unique_and_parameters_arrive_as_they_were_stored,
        begin::each_kind_of_node_comes_up_by_its_own_tasks,
        edits::an_image_edit_is_one_plan_and_one_pod_cycle,
        edits::each_edit_alone_is_one_plan_and_at_most_one_pod_cycle,
        edits::everything_in_one_edit_is_one_plan_and_one_pod_cycle,
        edits::an_update_replaces_the_pod_of_a_node_that_is_not_ready,
        edits::a_pod_that_ends_slowly_is_deleted_once_and_those_of_others_never,
        edits::a_paused_node_is_left_alone_and_says_what_waits,
        edits::a_plan_that_is_paused_goes_on_where_it_was,
        resume::an_operator_that_is_killed_goes_on_where_it_was,
        resume::an_operator_that_is_killed_in_mid_update_deletes_one_pod,
        resume::an_unknown_task_in_a_stored_plan_fails_it_visibly,
        resume::of_two_writers_of_a_status_one_is_refused_and_one_plan_survives,
        resume::what_was_never_observed_is_no_drift_until_the_first_edit,
        truth::mirrors_are_stamped_from_the_running_pod_and_never_before,
        truth::an_image_that_cannot_run_is_named_and_the_next_edit_is_taken_up_at_once,
        truth::a_new_node_whose_image_cannot_run_says_so_and_is_mended_by_an_edit,
        truth::after_two_quick_edits_status_never_names_an_image_that_the_pod_does_not_run,
        truth::a_pod_that_was_deleted_is_told_to_start_as_soon_as_its_sidecar_answers,
        truth::a_sidecar_that_restarts_is_told_again_and_events_come_once,
        truth::a_plan_that_only_lets_seid_start_says_nothing_of_the_last_update,
        repair::each_deleted_object_is_put_back_and_told_without_a_new_pod,
        repair::each_object_that_was_changed_by_hand_is_put_back_and_told_without_a_new_pod,
        repair::a_stateful_set_that_was_deleted_with_its_pod_comes_back_with_another,
        storage::a_claim_that_can_never_be_used_fails_the_node_and_says_why,
        storage::a_claim_that_is_not_there_yet_is_waited_for_and_then_used,
        storage::a_claim_of_somebody_else_is_not_taken_and_the_node_goes_on_when_it_is_gone,
        storage::deletion_keeps_what_was_given_and_removes_what_was_made,
        storage::a_finalizer_that_may_not_be_removed_is_asked_about_less_and_less,
        keys::keys_that_come_late_are_waited_for_and_then_used,
        keys::malformed_keys_fail_the_node_and_better_ones_bring_it_on,
        keys::malformed_keyrings_fail_the_node_and_better_ones_bring_it_on,
        defects::defect_1_an_update_makes_the_proxys_configuration_that_is_missing,
        defects::defect_2_a_task_that_fails_slowly_is_given_once_and_its_failure_is_seen,
        defects::defect_3_a_task_that_is_refused_fails_the_plan_in_the_sidecars_words,
        defects::defect_4_a_failed_update_stays_visible,
        defects::defect_5_an_image_that_is_edited_in_mid_plan_is_not_stamped_before_it_runs,
        defects::defect_6_the_bootstrap_is_gone_before_the_nodes_own_pod_comes,
        defects::defect_7_the_bootstrap_uses_the_imported_volume_and_runs_as_the_node_does,
        defects::defect_8_a_bootstrap_that_ended_while_nobody_looked_has_succeeded,
        defects::defect_13_a_spec_that_cannot_be_applied_says_why_in_its_status,
        defects::defect_15_a_sidecar_that_never_answers_is_given_up_and_told,
        defects::defect_17_a_changed_configuration_of_the_proxy_makes_a_new_pod,
    ]
    .run()
}
