//! The operator's edges for real: sidecars that are servers of HTTP and TLS, Secrets and events on a real API server.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod answers;
mod background;
mod definitions;
mod memory;
mod server;
mod telling;
mod tls;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("edges")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        answers::each_answer_means_one_thing_and_says_it_in_the_same_words,
        answers::questions_name_the_pod_and_share_a_connection,
        answers::a_connection_that_was_closed_unnoticed_costs_no_answer,
        answers::a_token_that_was_replaced_is_shown_at_once,
        answers::without_a_token_nothing_is_sent,
        answers::where_nothing_listens_nothing_is_known,
        tls::a_certificate_without_authority_is_accepted_until_the_next_is_served,
        tls::only_the_certificate_of_the_secret_is_accepted,
        tls::a_renewed_certificate_is_accepted_while_it_is_on_its_way,
        tls::how_it_is_served_is_seen_and_not_assumed,
        background::an_answer_that_takes_long_holds_nothing_up_and_wakes_its_node,
        background::a_task_is_given_once_however_long_the_answer_takes,
        background::a_question_about_another_task_replaces_the_one_before,
        background::a_sidecar_that_hangs_is_unreachable_in_its_time,
        background::sidecars_that_hang_are_not_all_asked_at_once,
        background::nothing_is_kept_of_a_node_that_is_gone,
        memory::a_secret_is_read_once_in_each_version,
        memory::a_secret_that_may_not_be_read_says_so,
        definitions::without_our_kinds_or_with_older_ones_it_says_so_and_ends,
        telling::events_arrive_on_the_node,
        telling::an_api_server_that_is_away_costs_events_and_nothing_else,
        telling::a_thousand_events_at_once_all_arrive,
    ]
    .run()
}
