//! A KMS configuration is checked before it is used: the real controller and the real checker, on a real API server with
//! OpenShift's published kinds. The kubelet is played where what a pod becomes is the point; real pods run in `nodes`.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test may panic; clippy recognizes only those of the usual runner"
)]

mod change;
mod flags;
mod ground;
mod leaders;
mod nodes;
mod outcome;
mod places;
mod pods;
mod rights;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("preflight")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        flags::wrong_flags_end_with_one_line,
        outcome::a_configuration_that_works_is_proved_and_nothing_of_the_check_is_left,
        outcome::a_failure_is_stored_told_and_tried_again_when_asked,
        outcome::a_failure_without_a_key_id_is_stored_too_and_the_old_plugin_counts,
        outcome::every_kind_of_operator_resource_is_served,
        outcome::what_failed_is_tried_again_after_its_wait,
        places::every_node_of_the_control_plane_is_checked_and_one_that_failed_is_named,
        places::a_check_that_lost_a_pod_begins_anew,
        leaders::one_that_is_killed_is_followed_by_the_other,
        rights::the_controller_may_do_what_it_does_and_nothing_else,
        change::a_configuration_that_changes_is_checked_anew_in_every_state,
        change::what_is_no_longer_asked_for_is_removed,
        change::a_configuration_that_refers_to_nothing_says_so_and_recovers,
        pods::what_keeps_a_pod_from_a_result_is_told,
        nodes::a_checker_in_a_real_pod_posts_what_it_finds,
        nodes::a_configuration_is_proved_by_its_plugin_in_a_real_pod,
    ]
    // They wait, most of the time, and each has a control plane of its own.
    .at_once(6)
    .run()
}
