//! The aggregator as a process, on the real API server with the kinds that OpenShift publishes, and with our own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic; clippy recognizes only those of the usual runner"
)]

mod cleanup;
mod ground;
mod health;
mod kinds;
mod leaders;
mod policy;
mod rights;
mod shown;
mod startup;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("aggregator")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        startup::wrong_settings_are_told_at_once_with_code_two,
        health::a_sick_plugin_degrades_and_a_mended_one_does_not_and_each_change_is_told_once,
        health::a_reporter_that_dies_is_unknown_and_its_clock_does_not_matter,
        health::a_node_that_never_reports_is_missed_after_its_deadline,
        health::a_plugin_that_flaps_stays_degraded,
        health::where_nothing_changes_nothing_is_written,
        health::a_restart_with_a_stale_object_writes_nothing,
        cleanup::entries_of_nodes_that_are_gone_go_and_those_of_live_reporters_never_do,
        cleanup::a_full_object_takes_new_nodes_once_the_old_ones_are_removed,
        cleanup::without_kms_conditions_and_entries_go_and_nothing_comes_back,
        kinds::every_kind_is_rolled_up_in_both_forms,
        kinds::a_rollout_is_judged_by_what_each_node_runs,
        leaders::two_that_both_believe_to_lead_agree_and_rest,
        leaders::one_that_is_killed_is_followed_by_the_other,
        shown::conditions_reach_the_cluster_operator_and_rest,
        policy::a_reporter_changes_its_own_entry_and_nothing_else,
        rights::an_aggregator_may_do_what_it_does_and_nothing_else,
        rights::a_reporter_may_do_what_it_does_and_nothing_else,
    ]
    // They wait for intervals to pass, most of the time.
    .at_once(6)
    .run()
}
