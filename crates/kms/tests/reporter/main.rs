//! The reporter as a process, beside plugins that are well and sick, before a real API server with the schemas that OpenShift
//! publishes. Scenarios are named by the numbers of the specification of KMS health, section 6.3.
//!
//! Long scenarios run compressed. Their full forms: OUTRIGGER_KMS_RESTARTS=1000 (restarts of a plugin), OUTRIGGER_KMS_OUTAGE=600
//! (seconds without an API server), OUTRIGGER_KMS_ROUNDS=20000 (rounds with flat memory).

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod applies;
mod crowd;
mod ground;
mod plugins;
mod process;
mod reporter;
mod servers;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("reporter")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        plugins::a_healthy_plugin_is_reported_in_every_form_on_every_kind,
        plugins::whatever_a_plugin_says_is_stored,
        plugins::a_slow_plugin_is_well_and_one_that_is_too_slow_is_not,
        plugins::a_plugin_that_hangs_costs_no_other_anything,
        plugins::a_socket_that_is_missing_or_stale_is_told_at_once_and_its_return_too,
        plugins::a_plugin_that_restarts_is_found_each_time_and_costs_no_descriptor,
        plugins::a_socket_that_may_not_be_opened_is_told_as_such,
        plugins::who_does_not_speak_grpc_is_no_plugin,
        plugins::versions_and_key_ids_are_judged_as_an_api_server_does,
        plugins::every_error_of_a_plugin_is_told_by_its_code,
        plugins::a_hundred_sockets_are_one_report,
        plugins::a_deep_look_finds_a_plugin_that_cannot_decrypt,
        servers::the_published_schema_refuses_what_upstream_sends_and_takes_what_we_send,
        servers::an_api_server_that_comes_late_or_goes_is_waited_for,
        servers::a_slow_api_server_is_waited_for_as_long_as_allowed,
        crowd::where_the_server_has_no_time_for_all_old_news_wait_and_news_do_not,
        crowd::in_a_crowd_who_was_slower_is_refused_and_comes_again,
        servers::every_refusal_is_told_once_and_the_next_round_tries_again,
        servers::a_report_that_is_refused_as_invalid_is_sent_in_its_smallest_form,
        servers::an_object_that_comes_late_is_reported_on,
        servers::a_kind_without_health_reports_is_told_and_probing_goes_on,
        servers::tokens_and_authorities_are_read_again,
        servers::another_server_is_used_when_the_first_is_dead,
        servers::an_entry_that_another_manager_owns_is_taken_over,
        applies::three_reporters_own_their_own_entries,
        applies::a_plugin_that_is_gone_leaves_with_the_next_start,
        applies::what_remains_when_the_last_entry_goes,
        applies::two_reporters_with_one_node_name_erase_each_other_unless_told_apart,
        applies::a_writer_beside_the_reporter_loses_nothing,
        applies::the_longest_node_name_fits,
        applies::the_condition_keeps_its_time_over_restarts,
        process::a_signal_ends_it_within_a_second_wherever_it_is,
        process::a_second_signal_ends_it_at_once,
        process::wrong_flags_end_it_with_one_clear_line,
        process::credentials_that_come_late_are_found,
        process::it_needs_no_writable_files,
        process::the_container_behind_it_starts_whatever_it_lacks,
        process::memory_is_flat_over_many_rounds,
        process::fifty_reporters_do_not_march_in_step,
        process::a_round_that_overruns_is_followed_at_once,
    ]
    .run()
}
