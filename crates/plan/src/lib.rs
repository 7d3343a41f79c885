//! The decisions of Outrigger: pure functions of the spec, the status, the observed state and the time. There is no client, runtime
//! or clock here; the architecture tests of the testbed check the dependencies.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | without faults, a node converges to its spec from every reachable state | `model::scopes::new_node_converges_whatever_happens`, `model::scopes::running_node_converges_whatever_happens`, `model::scopes::two_running_nodes_converge_whatever_happens` |
//! | a plan is stored before any of its tasks is executed | `lifecycle::new_plan_is_stored_before_it_is_executed` |
//! | one edit is one plan and at most one pod replacement, whatever it changes | `edits::image_and_tls_edit_is_one_plan_and_one_pod_replacement`, `edits::each_pod_field_edit_is_one_plan_and_one_pod_replacement` |
//! | a field that was never observed is not drift until the spec is edited | `edits::takeover_replaces_no_pod_until_the_spec_is_edited`, `safety::adopted_node_is_not_touched_until_its_spec_is_edited` |
//! | a node that has just become Running gets no second plan | `edits::new_running_node_gets_no_second_plan` |
//! | a sidecar task is submitted once for each attempt, also by an operator that was killed | `lifecycle::plan_continues_after_a_killed_operator`, `failures::retry_is_counted_before_it_is_submitted` |
//! | the evidence of completed tasks is deleted only after their completion is stored | `lifecycle::bootstrap_is_deleted_only_after_its_completion_is_stored` |
//! | a failure stays in the status until it is resolved, and an edit is picked up at once | `failures::failed_update_keeps_node_running_and_retries_with_backoff`, `failures::edit_resolves_a_failed_update_at_once`, `lifecycle::failed_mark_ready_plan_is_resolved_by_a_ready_sidecar` |
//! | a failure that no edit must fix is retried with backoff, and any failure on request | `failures::failed_setup_is_retried_with_backoff_without_an_edit`, `failures::failure_of_the_spec_waits_for_an_edit_or_a_retry_request`, `failures::retry_request_ends_the_backoff_of_an_update_once` |
//! | a plan stores what it changes, and plans of previous versions continue | `failures::changes_of_a_failed_update_are_kept_also_for_legacy_plans`, `failures::legacy_plan_in_progress_completes` |
//! | every reconcile converges; a refused write is attempted once in it, and is reported | `failures::refused_repair_is_reported_and_not_repeated`, `failures::refused_write_of_a_plan_is_reported_and_retried`, `model::scopes::running_node_converges_whatever_happens` |
//! | all waits of a task share one deadline | `failures::waits_of_a_task_share_one_deadline` |
//! | a bad edit starts no plan, and only what a plan applies is judged | `failures::bad_edit_leaves_a_running_node_alone`, `failures::bad_spec_of_a_new_node_gets_no_plan_until_it_is_corrected`, `failures::settings_that_an_edit_does_not_apply_are_not_judged` |
//! | objects that are lost while an edit is held back are restored from the previous configuration | `failures::lost_objects_are_restored_while_an_edit_is_invalid`, `references::running_node_is_untouched_and_its_edits_are_refused` |
//! | an update that waits or fails before it changes what the pod runs with holds neither seid nor lost objects back, and is completed or undone later | `failures::pending_update_does_not_hold_seid_back`, `failures::interrupted_update_is_completed_or_undone`, `model::scopes::waiting_update_does_not_hold_seid_back_whatever_happens` |
//! | seid never runs in a pod whose configuration was not written completely | `failures::pod_of_an_unfinished_update_is_not_marked_ready`, `rollback::pod_of_a_failed_update_is_not_marked_ready` |
//! | a configuration that the running sidecar rejects changes nothing, is not tried again without the user, and holds no other node back | `dry_run::rejected_dry_run_changes_nothing_until_the_next_edit`, `dry_run::withdrawn_edit_after_a_rejected_dry_run_leaves_no_trace`, `dry_run::retry_request_repeats_a_rejected_dry_run`, `dry_run::rejected_dry_run_holds_no_other_node_back` |
//! | a dry-run never blocks an update that may repair the sidecar or seid | `dry_run::sidecar_without_an_answer_does_not_block_an_update`, `dry_run::late_answer_to_a_dry_run_is_awaited_for_seconds`, `dry_run::new_sidecar_image_is_not_judged_by_the_running_one`, `dry_run::rollback_and_unfinished_update_have_no_dry_run`, `dry_run::lost_stateful_set_is_restored_after_a_rejected_dry_run` |
//! | an update that skips its dry-run says so, and costs no further write | `dry_run::skipped_dry_run_is_reported_without_further_writes` |
//! | a sidecar that does not answer is polled with backoff | `lifecycle::sidecar_without_an_answer_is_polled_with_backoff` |
//! | an update that fails after the pod was replaced returns to the previous configuration, and is not repeated without the user | `safety::update_that_fails_after_the_pod_is_replaced_is_rolled_back`, `safety::edit_during_or_after_a_rollback_is_applied`, `safety::failed_rollback_is_retried`, `safety::update_is_not_rolled_back_if_seid_may_have_run`, `model::scopes::failed_update_is_rolled_back_whatever_happens`, `rollback::pause_after_a_rollback_is_no_new_attempt`, `rollback::failed_mark_ready_after_a_rollback_is_no_new_attempt` |
//! | an image never runs on data that a later one may have changed, and a failed update never runs | `rollback::update_that_ran_is_not_skipped_by_a_later_rollback`, `rollback::killed_operator_does_not_hide_that_seid_may_have_run`, `rollback::submission_of_mark_ready_is_stored_before_it_is_sent`, `model::scopes::update_that_may_have_run_is_not_undone_whatever_happens`, `rollback::pod_of_a_failed_update_is_not_marked_ready` |
//! | a change of the platform during an update is part of it | `rollback::platform_change_during_an_update_is_part_of_it` |
//! | drift that no edit caused waits for its turn, and an edit does not | `safety::platform_drift_waits_for_a_slot_and_edits_do_not`, `safety::changed_settings_and_objects_wait_for_a_slot`, `safety::queued_node_continues_with_a_slot_or_without_drift`, `model::scopes::platform_change_is_paced_whatever_happens` |
//! | few nodes are disrupted at a time, only in a chain that works, and validators last | `node::pace::tests::at_most_the_limit_is_disrupted`, `node::pace::tests::other_nodes_of_the_chain_must_work`, `node::pace::tests::validators_are_last_and_one_at_a_time`, `node::pace::tests::state_follows_from_status`, `model::scopes::validators_are_updated_last_and_one_at_a_time` |
//! | deadlines do not run while a node is paused or no operator is active, and a pending answer is awaited | `safety::time_while_paused_does_not_count`, `safety::deadline_missed_without_an_operator_is_extended`, `safety::pending_answer_at_the_deadline_is_awaited`, `safety::pending_answer_to_a_submission_is_awaited_at_the_deadline`, `model::scopes::pending_answer_is_awaited_whatever_happens` |
//! | a paused node is left alone, and its plans do not fail | `model::scopes::paused_node_is_left_alone_whatever_happens` |
//! | `Ready` follows the chain, needs a seid that answers, and blocks cause no writes | `safety::ready_follows_the_chain_and_blocks_cause_no_writes`, `safety::first_answer_of_seid_makes_a_new_node_ready`, `safety::older_sidecar_falls_back_to_the_readiness_of_the_pod`, `node::chain::tests::missing_answers_keep_the_last_state_for_a_while` |
//! | no pod is deleted while its claim is being deleted, which is reported in every phase | `lifecycle::pod_is_not_replaced_while_its_claim_is_being_deleted`, `lifecycle::bootstrap_job_is_not_deleted_while_its_claim_is_being_deleted`, `lifecycle::claim_of_a_paused_node_is_reported_when_it_is_being_deleted`, `lifecycle::claim_of_a_new_or_failed_node_is_reported_when_it_is_being_deleted`, `model::scopes::pod_keeps_its_claim_whatever_happens` |
//! | an edit that a bootstrap pod or a task of the sidecar holds back says so | `lifecycle::edit_is_queued_while_a_bootstrap_pod_works`, `edits::edit_is_queued_while_the_answer_of_the_sidecar_is_pending` |
//! | refused writes of a node that is being deleted are reported | `retention::claim_of_deleted_validator_loses_owner_before_finalizer` |
//! | seid has two minutes to terminate | `shape::both_pods_give_seid_two_minutes_to_terminate` |
//! | the claim of a signing node outlives it unless the spec says otherwise, and follows every edit of the policy without a plan | `retention::policy_decides_who_deletes_the_claim`, `retention::edited_policy_is_applied_without_a_plan`, `retention::owned_claim_of_a_validator_becomes_retained`, `retention::claim_of_deleted_validator_loses_owner_before_finalizer` |
//! | a new node takes over only the data of a node of the same name, chain and role that no other node uses, and never bootstraps it again | `retention::new_node_takes_over_the_claim_of_the_same_name`, `retention::claim_of_another_chain_or_role_is_refused`, `retention::claim_that_another_node_imports_is_not_taken_over`, `retention::data_that_was_set_up_is_not_bootstrapped_again` |
//! | a signing key and a claim are used by one node, also while a deleted node still has a pod | `exclusive::signing_key_in_use_is_refused_until_its_node_is_gone`, `exclusive::older_node_gets_the_signing_key_and_then_the_name_decides`, `exclusive::reserved_signing_key_is_refused`, `exclusive::edit_to_a_key_in_use_replaces_no_pod`, `exclusive::imported_claim_of_another_node_is_refused` |
//! | a larger volume needs neither a plan nor a new pod, and does not wait for one | `volume::growth_is_applied_in_place_and_reported_until_it_is_complete`, `volume::growth_does_not_wait_for_a_plan`, `volume::growth_of_a_retained_volume_can_be_withdrawn` |
//! | a volume is never shrunk, and never resized because of a default | `volume::shrink_is_refused_with_field_size_and_fix`, `volume::platform_default_never_resizes_an_existing_claim` |
//! | a validator is evicted only with the annotation, which is honored also while an update hangs | `budget::only_validators_have_a_budget_and_it_blocks_evictions`, `budget::annotation_allows_evictions_until_it_is_removed`, `budget::annotation_is_honored_while_an_update_hangs` |
//! | new fields and defaults of a version replace no running pod | `edits::node_of_the_previous_version_is_not_replaced_for_new_fields` |
//! | a pod never leaves its node pool because of the affinity in its spec | `scheduling::every_node_selector_term_requires_the_node_pool`, `scheduling::empty_node_selector_term_stays_empty` |
//! | conditions of a Certificate count only for its current generation | `node::check::tls_secret::tests::conditions_of_an_older_generation_do_not_count` |
//! | conditions never disappear | `model::scopes::paused_node_is_left_alone_whatever_happens` |
//! | every change of the source of a certificate is one plan and one pod replacement | `tls::every_change_of_the_source_is_one_plan_and_one_pod` |
//! | a certificate that is unfit or expired replaces no pod, and is reported once | `tls::unfit_secret_is_reported_and_the_pod_is_kept`, `tls::expiry_is_reported_at_its_transitions_and_keeps_the_pod`, `tls::expired_issued_certificate_does_not_flap_while_it_is_retried`, `tls::rollback_does_not_wait_for_an_unexpired_certificate` |
//! | an issued Secret is deleted with its Certificate, and one that the user names never | `tls::certificate_stays_until_its_secret_has_an_owner`, `tls::renewed_secret_gets_its_owner_again_without_a_plan`, `tls::issued_secret_that_the_user_names_survives_its_certificate`, `tls::secret_of_another_certificate_or_node_gets_no_owner`, `tls::owner_that_cert_manager_has_set_is_not_changed` |
//! | a lost volume is never replaced under a node that signs, also if its set-up has failed | `lifecycle::lost_volume_is_recreated_unless_the_node_signs`, `lifecycle::lost_volume_of_a_validator_is_not_recreated_after_a_failed_setup` |
//! | the API server accepts rendered objects without a warning, and stores them as written | `rendered::rendered_objects_are_accepted_and_stored_as_written`, `rendered::quantities_are_stored_in_canonical_form` |
//! | cached results are used only for the same spec and the same content | `node::render_cache::tests::cache_is_dropped_when_the_generation_changes`, `node::render_cache::tests::in_sync_object_is_compared_again_only_after_a_change` |
//! | rendered objects do not change unnoticed | `golden::rendered_objects_match_golden_files` |
//! | keys, credentials and tokens are accessible only to the container that needs them | `guard::tests::secrets_are_accessible_to_the_container_that_needs_them_only`, `guard::tests::directories_and_tokens_are_mounted_only_where_needed`, `guard::tests::automounted_token_is_rejected`, `guard::tests::bootstrap_pod_with_signing_key_is_rejected` |
//! | only the sidecar gets the IAM role of the pod's ServiceAccount | `shape::only_the_sidecar_gets_the_identity_of_the_pod` |
//! | isolated containers share only the socket of the API and the control directory of seid | `shape::isolated_containers_share_only_socket_and_control_directory` |
//! | the record of accepted tasks is out of reach of seid, and uploads of a node that does not publish end with its pod | `shape::private_directory_is_mounted_by_the_sidecar_only`, `shape::uploads_of_a_previous_pod_continue_only_if_the_node_publishes`, `isolation::uploads_end_with_an_isolated_pod_and_start_again` |
//! | a request to stop seid is executed once, also across restarts of the container, and is always answered | `scripts::request_signals_seid_once_across_restarts`, `scripts::request_without_seid_is_acknowledged`, `scripts::malformed_and_huge_requests_are_ignored`, `scripts::descendant_that_holds_stderr_does_not_keep_the_container` |
//! | an upgrade replaces no pod for its isolation, and repairs suit the running pod | `isolation::upgrade_replaces_no_pod_and_repairs_suit_the_running_one` |
//! | the proxy of a pod authorizes as its sidecar checks, also if it restarts while the isolation changes | `isolation::proxy_that_restarts_before_its_pod_is_replaced_authorizes_for_its_own_sidecar` |
//! | with strict references, a node uses only Secrets and claims that are labeled with its name | `references::unlabeled_secret_is_refused_before_anything_is_applied`, `references::secret_that_appears_during_the_setup_is_judged_as_well`, `references::running_node_is_untouched_and_its_edits_are_refused`, `references::named_certificate_needs_a_label_and_an_issued_one_does_not`, `references::imported_claim_needs_a_label` |
//! | a token is requested with the audience that the pod names, by its annotation or by the arguments of its proxy | `isolation::transport_has_the_audience_that_the_pod_names` |
//! | the status reports the error of seid, and terminating a pod shuts seid down gracefully | `scripts::error_of_seid_is_kept_in_the_termination_log`, `lifecycle::crash_loop_reports_the_error_of_seid`, `lifecycle::restarted_seid_is_ready_after_a_stable_minute`, `scripts::terminated_container_shuts_seid_down` |
//! | only configured clients reach a sidecar | `policy::platform_without_clients_blocks_the_sidecar` |
//! | pods of nodes reach only configured destinations, if there are any | `policy::egress_is_limited_to_configured_destinations` |
//! | the transport of a bootstrap pod follows its certificate | `isolation::bootstrap_transport_follows_the_mounted_certificate` |
//! | a rollout never takes down more nodes than allowed, whatever is edited or broken, and restarts each node once | `rollouts::at_most_max_unavailable_nodes_are_down`, `rollouts::several_bad_edits_never_take_down_more_nodes`, `rollouts::more_broken_nodes_than_the_budget_are_fixed_one_by_one`, `rollouts::edit_during_a_rollout_supersedes_it` |
//! | a node that fails an update stops the rollout, and the next edit goes to it first | `rollouts::bad_image_stops_after_one_node_and_the_next_edit_goes_there`, `rollouts::refused_spec_of_a_node_stalls_at_once` |
//! | nodes that do not answer are not restarted | `rollouts::unreachable_nodes_are_left_alone_and_suspected`, `rollouts::node_that_catches_up_counts_and_is_not_restarted` |
//! | an update never takes a third of the voting power of a chain without permission | `fleet::quorum::tests::exactly_a_third_halts_the_chain`, `quorum::four_equal_validators_are_updated_one_at_a_time`, `quorum::unknown_voting_power_holds_the_rollout`, `children::removal_that_halts_the_chain_is_held` |
//! | what is no part of the template is no revision, and neither is a default of a newer version | `revisions::scaling_pausing_and_strategy_are_no_revision`, `revisions::stored_revision_without_a_defaulted_field_is_the_same` |
//! | nodes of the upstream controller are taken over without a restart, and foreign ones are never written | `adoption::upstream_nodes_are_taken_over_without_a_restart`, `adoption::foreign_node_is_never_written_and_others_continue`, `adoption::retained_nodes_are_adopted_only_on_request_and_if_equal` |
//! | the status of a fleet is complete at every moment, and steady state writes nothing | `status::status_is_never_empty_during_a_rollout`, `status::missing_nodes_count_as_unavailable`, `status::steady_state_writes_nothing` |
//! | an unhealthy plugin is always reported, and the first matching rule sets the reason | `degraded::each_rule_sets_its_reason`, `degraded::first_rule_sets_reason_and_all_are_listed` |
//! | node clocks are irrelevant while reports change | `time::node_clock_skew_is_harmless_while_reports_change`, `time::local_wall_clock_may_jump` |
//! | steady state causes no writes, also after a restart | `time::steady_state_writes_nothing`, `time::messages_are_stable_across_reconciles` |
//! | stale, missing or unhealthy reports never count as key convergence | `agreement::stale_reports_are_not_converged`, `agreement::missing_unhealthy_or_empty_is_not_converged` |
//! | the report of a live reporter is never removed | `cleanup::live_report_is_never_removed`, `removal::tests::updated_report_is_kept` |
//! | injected pods match golden files, and injection is idempotent | `inject::injected_pods_match_golden_files`, `inject::injection_is_idempotent` |
//! | injection removes what a previous injection added, and nothing else | `inject::injected_parts_are_removed_completely`, `inject::foreign_content_is_kept_and_comes_first` |
//! | an invalid Secret is rejected with the name of its key | `errors::invalid_secret_error_names_the_key`, `kms::secret_layout::tests::malformed_key_error_names_key_and_missing_part` |
//! | the hash of a KMS configuration matches other implementations | `kms::config_hash::tests::config_hash_matches_test_vectors` |
//! | the result of another KMS configuration is ignored | `kms::preflight::tests::pod_of_other_configuration_is_deleted` |
//! | a preflight check with a missing pod has no result, unless it failed | `kms::preflight::tests::missing_pod_restarts_check_unless_it_failed` |
//! | a failed KMS configuration is stored and retried | `kms::preflight::tests::failure_is_stored_once_and_pod_kept`, `kms::preflight::tests::failed_check_is_retried_with_backoff` |
//! | reporters of one object limit their share of API server time, changes are not delayed, and a report contains the time of the next one | `kms::pace::tests::unchanged_report_waits_and_change_does_not`, `kms::pace::tests::promised_interval_is_bounded_and_recovers` |
//! | a KMS plugin is evaluated with the rules of kube-apiserver | `kms::plugin_health::tests::status_is_evaluated_like_api_server`, `kms::plugin_health::tests::version_change_is_unhealthy` |
//! | a report always contains cause and hint, even with a long error text | `kms::plugin_health::tests::long_detail_keeps_cause_and_hint` |
//! | a Secret is read at each poll only while the node waits for it | `tls::secret_is_read_at_each_poll_only_while_the_node_waits_for_it`, `exclusive::failed_setup_checks_its_input_every_ten_seconds` |
//! | the operator may submit exactly the tasks that plans contain | `node::compose::tests::submitted_tasks_are_those_that_plans_are_composed_of` |

pub mod fleet;
pub mod kms;
pub mod node;
pub mod platform;
pub mod quantity;
pub mod render;

pub use platform::Platform;
