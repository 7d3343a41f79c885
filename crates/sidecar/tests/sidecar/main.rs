//! The sidecar as a process: API, AUTH, ENG, HOLD, SNAP-SEC, TASK and UPG of the specification of the node's sidecar.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic; clippy recognizes only those of the usual runner"
)]

mod api;
mod authn;
mod ceremony;
mod config;
mod crash;
mod disk;
mod engine;
mod ground;
mod hold;
mod judge;
mod node;
mod peer;
mod snapshot;
mod tasks;
mod upgrade;
mod volume;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("sidecar")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        api::the_start_gate_speaks_http_1_0_and_opens_with_mark_ready,
        api::it_also_runs_as_seictl_serve,
        api::paths_and_methods_are_answered_as_the_router_of_go_does,
        api::submissions_are_read_as_go_reads_them,
        api::tasks_are_listed_read_and_deleted,
        api::s06_requests_have_limits,
        api::connections_are_kept_open,
        api::the_node_id_is_told_or_why_not,
        api::s23_metrics_show_nothing_that_a_caller_wrote,
        api::the_openapi_document_is_what_the_server_does,
        authn::s20_wrong_settings_are_all_told_before_anything_is_begun,
        authn::exactly_one_name_is_let_through,
        authn::a_trusting_sidecar_is_not_reached_from_another_host,
        authn::s09_who_gave_a_task_is_stored_and_logged,
        ceremony::s03_a_new_chain_begins_and_no_private_key_leaves_its_node,
        ceremony::what_a_ceremony_made_is_kept_when_it_is_done_again,
        ceremony::a_ceremony_refuses_what_cannot_be,
        config::settings_of_every_mode_are_written_as_the_table_says,
        config::settings_that_cannot_be_are_refused_and_nothing_is_written,
        config::a_change_keeps_everything_else,
        config::s01_only_the_files_of_settings_are_patched,
        config::settings_that_are_there_are_judged,
        crash::a_crash_before_any_write_leaves_settings_whole,
        crash::a_crash_before_any_write_of_a_ceremony_makes_one_identity,
        crash::a_crash_before_any_write_restores_and_resets_data_whole,
        crash::a_crash_before_any_write_of_a_release_or_hold_tears_nothing,
        crash::a_crash_that_tears_the_log_anywhere_leaves_a_beginning,
        disk::a_full_disk_refuses_and_loses_nothing,
        disk::a_full_disk_fails_tasks_that_change_nothing,
        disk::a_read_only_volume_is_told_at_the_start_and_nothing_is_lost,
        disk::a_read_only_volume_under_a_running_sidecar_is_told_and_nothing_is_lost,
        disk::livez_tells_a_disk_that_hangs,
        engine::the_same_id_is_the_same_task_and_only_what_failed_is_begun_again,
        engine::a_hundred_submissions_of_one_id_run_once,
        engine::the_newest_hundred_are_listed_the_newest_first,
        engine::what_was_answered_survives_a_kill,
        engine::s19_a_shutdown_waits_and_the_task_goes_on_after_it,
        engine::a_deleted_task_ends_and_its_id_is_free,
        engine::who_hangs_up_leaves_the_task,
        engine::s07_a_ledger_that_fails_is_503_everywhere,
        engine::a_damaged_ledger_is_told_with_its_cure,
        engine::a_torn_log_loses_only_what_was_not_answered,
        engine::s08_tasks_under_way_are_bounded,
        hold::a_stranded_release_never_ends_a_hold_that_is_not_older,
        hold::s17_a_live_race_leaves_no_torn_state,
        hold::every_process_begins_with_a_hold,
        judge::four_seids_make_blocks_with_what_four_sidecars_made,
        judge::seid_starts_with_the_settings_of_every_mode,
        peer::we_answer_as_the_program_that_we_replace,
        peer::tasks_become_what_they_become_with_the_program_that_we_replace,
        peer::a_home_goes_to_the_program_that_we_replace_and_back,
        snapshot::a_snapshot_is_restored_once,
        snapshot::s02_archives_that_lead_outside_are_refused,
        snapshot::s02_bombs_and_broken_archives_are_refused,
        snapshot::an_image_without_authorities_reaches_its_store,
        snapshot::a_killed_restore_from_s3_goes_on_where_it_was_with_little_memory,
        snapshot::snapshots_are_uploaded_to_s3_and_can_be_restored_from_there,
        snapshot::failures_of_s3_say_what_to_do,
        tasks::a_condition_is_awaited,
        tasks::data_is_reset_only_when_the_node_is_stopped,
        tasks::s16_a_genesis_file_is_there_as_a_whole_and_the_right_one,
        tasks::peers_are_found_and_written_without_touching_anything_else,
        tasks::state_sync_trusts_what_witnesses_say,
        tasks::what_this_build_does_not_do_is_refused_at_submission,
        tasks::seid_is_stopped_and_never_killed_by_stop_seid,
        upgrade::ledgers_of_schema_3_and_5_are_taken_over_in_place,
        upgrade::what_the_program_before_wrote_in_between_is_taken_over_too,
        upgrade::a_newer_ledger_is_refused_and_left_as_it_is,
        upgrade::s08_old_rows_are_forgotten_but_for_the_newest_hold,
    ]
    .at_once(4)
    .run()
}
