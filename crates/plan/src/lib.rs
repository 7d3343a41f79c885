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
//! | An unhealthy plugin is always reported, and the first matching rule sets the reason. | `degraded::each_rule_sets_its_reason`, `degraded::first_rule_sets_reason_and_all_are_listed` |
//! | Node clocks are irrelevant while reports change. | `time::node_clock_skew_is_harmless_while_reports_change`, `time::local_wall_clock_may_jump` |
//! | Steady state causes no writes, also after a restart. | `time::steady_state_writes_nothing`, `time::messages_are_stable_across_reconciles` |
//! | Stale, missing or unhealthy reports never count as key convergence. | `agreement::stale_reports_are_not_converged`, `agreement::missing_unhealthy_or_empty_is_not_converged` |
//! | The report of a live reporter is never removed. | `cleanup::live_report_is_never_removed`, `removal::tests::updated_report_is_kept` |
//! | Injected pods match golden files, and injection is idempotent. | `inject::injected_pods_match_golden_files`, `inject::injection_is_idempotent` |
//! | Injection removes what a previous injection added, and nothing else. | `inject::injected_parts_are_removed_completely`, `inject::foreign_content_is_kept_and_comes_first` |
//! | An invalid Secret is rejected with the name of its key. | `errors::invalid_secret_error_names_the_key`, `kms::secret_layout::tests::malformed_key_error_names_key_and_missing_part` |
//! | The hash of a KMS configuration matches other implementations. | `kms::config_hash::tests::config_hash_matches_test_vectors` |
//! | The result of another KMS configuration is ignored. | `kms::preflight::tests::pod_of_other_configuration_is_deleted` |
//! | A preflight check with a missing pod has no result, unless it failed. | `kms::preflight::tests::missing_pod_restarts_check_unless_it_failed` |
//! | A failed KMS configuration is stored and retried. | `kms::preflight::tests::failure_is_stored_once_and_pod_kept`, `kms::preflight::tests::failed_check_is_retried_with_backoff` |
//! | why seid has ended is told in its own words, and who ends a pod ends seid in good order | `scripts::why_seid_has_ended_is_kept_although_it_says_much_behind_it`, `stories::a_seid_that_ends_again_and_again_is_told_with_its_last_words`, `stories::a_seid_that_has_failed_is_believed_once_it_has_run_for_a_while`, `scripts::a_seid_that_is_ended_writes_down_what_it_has` |
//! | nobody reaches a sidecar who was not named | `policy::a_platform_without_clients_lets_nobody_reach_the_sidecar` |
//! | Reporters of one object limit their share of API server time, changes are not delayed, and a report contains the time of the next one. | `kms::pace::tests::unchanged_report_waits_and_change_does_not`, `kms::pace::tests::promised_interval_is_bounded_and_recovers` |
//! | A KMS plugin is evaluated with the rules of kube-apiserver. | `kms::verdict::tests::status_is_evaluated_like_api_server`, `kms::verdict::tests::version_change_is_unhealthy` |
//! | A report always contains cause and hint, even with a long error text. | `kms::verdict::tests::long_detail_keeps_cause_and_hint` |

pub mod kms;
pub mod node;
pub mod platform;
pub mod quantity;
pub mod render;

pub use platform::Platform;
