//! Health of KMS plugins: reporters beside API servers, their rollup, plugins in pods, and checks before use.
//!
//! Decisions are in `plan::kms`; what stands on the wire is in `api::kms`.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | the report of a plugin that fails is stored, also where the reporter before could not | `servers::the_published_schema_refuses_what_upstream_sends_and_takes_what_we_send`, `plugins::whatever_a_plugin_says_is_stored` |
//! | one plugin costs no other its report | `plugins::a_plugin_that_hangs_costs_no_other_anything` |
//! | a dial that fails is told at once, and a plugin that was replaced is found | `probe::a_dial_that_fails_is_told_at_once`, `plugins::a_plugin_that_restarts_is_found_each_time_and_costs_no_descriptor` |
//! | at most one connection to a plugin is kept, and only while it leads to its socket | `probe::a_connection_is_kept_only_while_it_leads_to_the_plugin`, `probe::a_plugin_that_was_replaced_is_found_and_one_connection_is_left` |
//! | after its flags were read, nothing ends the reporter but a signal | `process::credentials_that_come_late_are_found`, `servers::an_api_server_that_comes_late_or_goes_is_waited_for`, `process::the_container_behind_it_starts_whatever_it_lacks`, `beside::the_api_server_starts_whatever_its_reporter_lacks` |
//! | a signal ends it within a second | `process::a_signal_ends_it_within_a_second_wherever_it_is` |
//! | flags of the reporter before are refused in its order | `process::wrong_flags_end_it_with_one_clear_line` |
//! | what goes on is told once, and told again when it is over | `servers::every_refusal_is_told_once_and_the_next_round_tries_again` |
//! | reporters that are too many for an API server write less and say so, and news do not wait | `crowd::where_the_server_has_no_time_for_all_old_news_wait_and_news_do_not`, `crowd::in_a_crowd_who_was_slower_is_refused_and_comes_again` |
//! | a reporter owns the entries of its node and no others | `applies::three_reporters_own_their_own_entries` |
//! | no secret is in a report or in the log | `plugins::whatever_a_plugin_says_is_stored`, `servers::tokens_and_authorities_are_read_again` |
//! | metrics of the reporter are those that are described | `reporter::metrics::tests::what_is_registered_is_what_is_described` |
//! | putting plugins into a pod again changes nothing, also in one that the API server keeps | `files::done_again_it_changes_nothing_and_without_keys_the_pod_is_as_before`, `live::a_deployment_gets_its_plugins_and_is_not_changed_again`, `live::static_pods_are_taken_by_the_api_server` |
//! | a revision whose pod and secret do not agree is not ready | `live::a_revision_is_ready_only_when_its_pod_and_its_secret_agree` |
//! | a fault of a plugin is told at its step, with its cause | `check::each_fault_of_a_plugin_is_told_at_its_step` |
//! | a check that failed is stored, whatever the plugin said, and told until it is over | `outcome::a_failure_is_stored_told_and_tried_again_when_asked`, `outcome::a_failure_without_a_key_id_is_stored_too_and_the_old_plugin_counts` |
//! | a result is stored only for the configuration that was checked | `change::a_configuration_that_changes_is_checked_anew_in_every_state` |
//! | of a check that is over, nothing is left but its rights, and nothing is written at rest | `outcome::a_configuration_that_works_is_proved_and_nothing_of_the_check_is_left` |
//! | a configuration is used only when every node of the control plane can use it | `places::every_node_of_the_control_plane_is_checked_and_one_that_failed_is_named`, `places::a_check_that_lost_a_pod_begins_anew` |
//! | what a plugin says in its pod is what is stored of a configuration | `nodes::a_configuration_is_proved_by_its_plugin_in_a_real_pod` |
//! | what failed is tried again by itself, after its wait | `outcome::what_failed_is_tried_again_after_its_wait` |
//! | aggregators that write on different ClusterOperators do not wait for each other | `settings::tests::those_that_write_on_different_cluster_operators_hold_different_leases`, `rights::an_aggregator_may_do_what_it_does_and_nothing_else` |
//! | of several preflight controllers one acts, and another follows it | `leaders::one_that_is_killed_is_followed_by_the_other` |
//! | everything that is wrong with the aggregator's settings is told at once | `settings::tests::every_problem_is_told_at_once_with_flag_variable_and_cure`, `startup::wrong_settings_are_told_at_once_with_code_two` |
//! | a sick plugin is told in every form that a report can have | `kinds::every_kind_is_rolled_up_in_both_forms` |
//! | where nothing changes the aggregator writes nothing, however many reports come | `health::where_nothing_changes_nothing_is_written`, `leaders::two_that_both_believe_to_lead_agree_and_rest` |
//! | the entry of a live reporter is never removed | `cleanup::entries_of_nodes_that_are_gone_go_and_those_of_live_reporters_never_do`, `nodes::nodes_that_go_are_forgotten_and_those_that_stay_never_are` |
//! | what the aggregator says of a plugin is what the API server beside it lives through | `beside::a_plugin_that_breaks_is_degraded_until_it_is_mended` |
//! | a reporter speaks for its own node only | `policy::a_reporter_changes_its_own_entry_and_nothing_else` |
//! | what is shipped as rights is what is needed, and each of them is used | `rights::an_aggregator_may_do_what_it_does_and_nothing_else`, `rights::a_reporter_may_do_what_it_does_and_nothing_else`, `rights::the_controller_may_do_what_it_does_and_nothing_else`, `access::tests::nobody_may_list_secrets_or_do_what_is_not_named` |

pub mod access;
pub mod aggregator;
pub mod alerts;
pub mod check;
pub mod inject;
#[cfg(test)]
mod pages;
pub mod preflight;
pub mod preflight_controller;
pub mod probe;
pub mod reporter;
mod resource;
mod socket;

mod interface {
    #![allow(dead_code, missing_docs, clippy::all, reason = "generated from the interface definition")]
    tonic::include_proto!("v2");
}
