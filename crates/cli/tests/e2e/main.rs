//! Everything together, in real pods: our image, installed with the manifests that are shipped.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod access;
mod ground;
mod install;
mod nodes;
mod snapshots;
mod takeover;
mod tls;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("e2e")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        install::the_manifests_install_an_operator_of_which_another_takes_over,
        install::an_operator_without_settings_says_what_is_missing_where_people_look,
        nodes::a_validator_makes_blocks,
        nodes::a_full_node_follows,
        nodes::an_image_that_cannot_be_pulled_is_named_and_mended_by_the_next_edit,
        nodes::a_setting_that_seid_cannot_start_with_is_told_in_its_words_and_mended_by_the_next_edit,
        access::a_sidecar_is_reached_through_its_proxy_only,
        access::an_account_drives_the_node_that_it_may_and_no_other,
        access::a_dead_sidecar_is_502_and_is_taken_up_again,
        snapshots::a_node_begins_with_a_snapshot_that_another_has_uploaded,
        takeover::a_node_of_the_operator_before_us_is_taken_over_without_a_pod_cycle,
        tls::tls_is_switched_on_renewed_swapped_and_switched_off,
    ]
    // Most of each is waiting.
    .at_once(16)
    .run()
}
