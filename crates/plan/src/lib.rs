//! Every decision of Outrigger. Pure functions of a spec, a status, the observed world and the time: no client, no runtime,
//! no clock; the architecture tests of the test-bed check what is reached from here.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | left alone, a node comes to rest as its spec says, whatever happened before | `model::a_new_node_comes_to_rest_whatever_happens`, `model::a_running_node_comes_to_rest_whatever_happens`, `model::two_running_nodes_come_to_rest_whatever_happens` |
//! | a plan is stored before anything of it is done | `stories::nothing_is_done_in_the_pass_that_makes_the_plan` |
//! | one edit is one plan and at most one pod cycle, whatever it touches | `edits::image_and_tls_in_one_edit_are_one_plan_and_one_pod_cycle`, `edits::every_other_part_of_the_pod` |
//! | what was never observed is no drift, until the spec is edited | `edits::an_operator_after_another_one_replaces_no_pod_until_the_spec_is_edited` |
//! | a node that has just become Running gets no second plan | `edits::a_node_that_has_just_become_running_gets_no_second_plan` |
//! | a sidecar's task is given once for each attempt, also by an operator that was killed | `stories::a_plan_goes_on_where_a_killed_operator_left_it`, `failures::a_retry_is_counted_before_it_is_made` |
//! | what tasks were judged by is deleted only after it is stored that they are done | `stories::a_bootstrap_is_torn_down_only_after_it_is_stored_that_it_was_done` |
//! | a failure stays told, and an edit mends it at once | `failures::an_update_that_fails_leaves_the_node_running_and_is_tried_less_and_less_often`, `failures::an_edit_mends_a_failed_update_at_once` |
//! | every wait has one deadline | `failures::a_wait_has_one_deadline_whatever_it_waits_for` |
//! | a volume that is lost is never replaced under a node that signs | `stories::a_lost_volume_is_made_again_but_not_under_a_node_that_signs` |
//! | what is rendered is taken by the API server without a warning, and is not seen as changed afterwards | `rendered::rendered_objects_are_taken_without_a_warning_and_kept_as_they_are`, `rendered::quantities_are_kept_in_their_canonical_form` |
//! | what was computed before is used only for the same spec and the same content | `node::memo::tests::another_spec_has_another_memory`, `node::memo::tests::what_was_found_as_wished_is_compared_again_only_when_it_may_differ` |
//! | rendered objects do not change unnoticed | `golden::rendered_objects_are_as_they_were` |
//! | keys reach only the container that they are for | `guard::tests::the_keyring_and_its_passphrase_reach_the_sidecar_only`, `guard::tests::a_bootstrap_pod_that_could_sign_is_refused` |
//! | a sick plugin is told whatever else is wrong, and the first row of the rollup that fits gives the reason | `rows::each_row_alone_gives_its_reason`, `rows::of_every_pair_of_rows_the_first_gives_the_reason_and_both_are_told` |
//! | a node's clock decides nothing while its reports come | `time::a_clock_that_is_wrong_or_jumps_does_no_harm_while_reports_come`, `time::our_own_clock_may_jump` |
//! | where nothing changes nothing is written, also by the next process | `time::where_nothing_changes_nothing_is_written`, `time::no_message_has_a_time_that_moves_with_every_look` |
//! | stale, missing or sick is never agreement on a key | `agreement::stale_data_is_never_agreement`, `agreement::what_is_missing_sick_or_empty_is_no_agreement` |
//! | the entry of a reporter that lives is never removed | `cleanup::a_live_entry_never_goes`, `removal::tests::an_entry_that_was_written_anew_is_left_alone` |
//! | plugins in pods do not change unnoticed, and putting them there twice changes nothing | `inject::pods_are_as_they_were`, `inject::done_again_it_changes_nothing` |
//! | what an injection puts into a pod the next one takes out, and nothing else | `inject::everything_that_is_added_is_taken_out_again`, `inject::what_others_put_there_stays_and_comes_first` |
//! | a secret that is wrong is refused by the name of its key | `refusals::a_secret_that_lacks_something_is_told_by_its_key`, `kms::secret_layout::tests::a_key_that_cannot_be_read_is_named_with_what_it_lacks` |
//! | the hash of a KMS configuration is that of other programs | `kms::config_hash::tests::hashes_are_those_of_other_programs` |
//! | what became of another KMS configuration says nothing of this one | `kms::preflight::tests::a_pod_of_another_configuration_is_removed_whatever_became_of_it` |
//! | a check that lacks a pod proves nothing, unless it has failed | `kms::preflight::tests::a_pod_that_is_missing_lets_the_check_begin_anew_unless_it_has_failed` |
//! | a KMS configuration that failed is stored, and tried again | `kms::preflight::tests::a_bad_result_is_stored_once_and_the_pod_stays`, `kms::preflight::tests::a_failed_check_is_tried_again_less_and_less_often` |
//! | why seid has ended is told in its own words, and who ends a pod ends seid in good order | `scripts::why_seid_has_ended_is_kept_although_it_says_much_behind_it`, `stories::a_seid_that_ends_again_and_again_is_told_with_its_last_words`, `stories::a_seid_that_has_failed_is_believed_once_it_has_run_for_a_while`, `scripts::a_seid_that_is_ended_writes_down_what_it_has` |
//! | nobody reaches a sidecar who was not named | `policy::a_platform_without_clients_lets_nobody_reach_the_sidecar` |
//! | reporters of one object take no more than their share of its API server, news do not wait for it, and a report tells when the next is due | `kms::pace::tests::what_says_nothing_new_waits_for_its_share_and_news_do_not`, `kms::pace::tests::a_report_promises_what_readers_can_wait_for` |
//! | a KMS plugin is judged as an API server would | `kms::verdict::tests::an_answer_is_judged_as_an_api_server_would`, `kms::verdict::tests::a_version_must_not_change` |
//! | a report always says its cause and what to look at, however much the plugin said | `kms::verdict::tests::a_long_complaint_leaves_room_for_cause_and_hint` |

pub mod kms;
pub mod node;
pub mod platform;
pub mod quantity;
pub mod render;

pub use platform::Platform;
