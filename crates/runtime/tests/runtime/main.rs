//! The runtime on a real API server, through faults: a toy controller lives in a process of its own, which is this program
//! told to be it.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod admin;
mod ending;
mod faults;
mod leadership;
mod metadata;
mod process;
mod scale;
mod toy;
mod traces;
mod writes;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("runtime")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    if std::env::var_os(process::ROLE).is_some() {
        return toy::main();
    }
    suite![
        faults::watches_of_one_kind_die_and_heal_and_others_are_undisturbed,
        faults::a_watch_that_falls_into_a_black_hole_comes_back,
        faults::an_object_that_cannot_be_read_harms_only_itself,
        faults::an_api_server_that_refuses_for_a_while_is_not_flooded,
        faults::an_api_server_that_restarts_is_found_again,
        metadata::secrets_are_watched_by_their_metadata,
        writes::nothing_is_sent_when_nothing_would_change,
        writes::a_field_that_is_no_longer_wanted_is_taken_away,
        writes::a_field_of_somebody_else_is_not_taken_from_them,
        writes::a_stale_status_is_refused,
        writes::a_lost_answer_is_unknown_and_a_refusal_is_not,
        writes::a_delete_hits_only_the_object_that_was_seen,
        writes::without_a_claim_nothing_is_sent,
        leadership::a_leader_that_was_stopped_writes_nothing_after_the_next_one,
        leadership::a_lease_that_cannot_be_renewed_is_given_up_and_taken_again,
        ending::a_process_that_is_told_to_end_finishes_its_write_and_gives_the_lease_back,
        admin::it_tells_whether_it_lives_what_it_does_and_what_it_costs,
        traces::each_reconciliation_is_a_trace,
        scale::five_thousand_objects_at_rest,
    ]
    .run()
}
