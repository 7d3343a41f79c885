//! `outrigger kms-inject` as a user meets it: on files, and on a real API server.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod files;
mod fixture;
mod live;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("inject")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        files::a_pod_is_printed_in_the_notation_it_came_in,
        files::done_again_it_changes_nothing_and_without_keys_the_pod_is_as_before,
        files::what_is_wrong_is_told_in_one_line,
        files::wrong_usage_ends_with_two,
        live::a_deployment_gets_its_plugins_and_is_not_changed_again,
        live::a_deployment_loses_plugins_whose_keys_are_gone_and_at_last_all,
        live::a_secret_that_is_not_there_leaves_the_pod_as_it_is,
        live::a_revision_is_ready_only_when_its_pod_and_its_secret_agree,
        live::static_pods_are_taken_by_the_api_server,
    ]
    .run()
}
