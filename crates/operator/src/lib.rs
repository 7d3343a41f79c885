//! The operator: settings, the node controller, the sidecar client, Secrets, metrics and install manifests.
//!
//! # Invariants
//!
//! | invariant | test |
//! |---|---|
//! | all invalid settings are reported together, with flag, environment variable and fix | `settings::tests::all_invalid_settings_are_reported_together`, `settings::tests::every_required_setting_is_reported_when_missing` |
//! | the operator does not start with CRDs older than itself, since they would drop fields that it stores | `crds::missing_or_outdated_crd_stops_startup` |
//! | manifests of the upstream controller keep working | `settings::tests::upstream_flags_are_accepted_and_reported_as_ignored`, `settings::args::tests::every_operator_environment_variable_is_read` |
//! | the shipped RBAC rules are sufficient and minimal | `permissions::shipped_rbac_is_sufficient_and_minimal`, `install::tests::rbac_has_no_wildcards_and_limits_secrets_to_node_namespaces`, `install::tests::rbac_allows_requests_of_the_sidecar_api`, `install::tests::rbac_allows_tokens_of_the_operator_only` |
//! | the namespaced installation needs no cluster-wide permission | `operator_needs_no_cluster_wide_permissions` |
//! | a refused write is reported once and retried with backoff | `storage::rejected_finalizer_removal_is_retried_with_backoff`, `refusals::forbidden_repair_is_reported_and_backs_off`, `refusals::repair_denied_as_invalid_is_reported_and_backs_off`, `refusals::repair_beyond_a_quota_is_reported_and_backs_off`, `refusals::repair_during_an_overload_is_reported_and_backs_off`, `refusals::repair_during_an_outage_is_reported_and_backs_off`, `refusals::repair_of_a_missing_kind_is_reported_and_backs_off`, `refusals::setup_beyond_a_quota_waits_for_it` |
//! | the annotation `outrigger.dev/retry` retries a failed node at once | `failures::retry_annotation_retries_a_failed_node_at_once` |
//! | a larger volume is requested in place, and what the API server refuses is in a condition | `storage::larger_size_is_applied_in_place_if_the_class_allows_it` |
//! | a validator is evicted only with an annotation | `eviction::validator_is_evicted_only_with_the_annotation` |
//! | an edit that is refused, or that would lose the data volume, replaces no pod | `edits::bad_edit_replaces_no_pod`, `storage::pod_is_kept_while_its_claim_is_being_deleted` |
//! | an edit whose configuration the running sidecar rejects writes nothing but its report, and a sidecar without an answer blocks no edit | `edits::rejected_dry_run_replaces_no_pod`, `responses::dry_run_responses_are_mapped`, `background::slow_dry_run_wakes_node_and_times_out` |
//! | uninstalling the operator leaves CRDs, nodes, pods and volumes, and installing it again replaces no pod | `uninstalled_operator_leaves_crds_nodes_and_data` |
//! | the claim of a deleted validator stays, is reported once, and is used by the next node of that name | `protection::retained_claim_is_reported_and_taken_over`, `protection::owned_claim_of_a_validator_is_retained_after_takeover`, `controller::deletions::tests::only_a_leader_records_deletions_and_takes_each_once` |
//! | two nodes never use one signing key or one claim, also after a restart and while the first is being deleted | `protection::second_node_with_a_signing_key_is_refused`, `protection::imported_claim_of_another_node_is_refused` |
//! | of two nodes that are reconciled at the same time, one gets a signing key, and it keeps it | `controller::reservations::tests::one_of_two_concurrent_nodes_gets_the_key`, `controller::reservations::tests::reservation_counts_more_than_age_and_is_kept`, `controller::reservations::tests::released_reservation_is_kept_for_a_while` |
//! | every image field of the CRDs is in the allow-list policy, which also lets other fields of older objects be edited | `install::allowed_images::tests::every_image_field_of_the_crds_is_checked`, `allowed_images::allow_list_of_images_is_enforced` |
//! | node pods satisfy the restricted Pod Security Standard | `pod_security::node_pods_satisfy_the_restricted_standard` |
//! | debug state and log level are served on loopback only | `settings::tests::admin_server_listens_on_loopback_only` |
//! | two processes never share a Lease identity | `settings::tests::every_process_has_a_unique_identity` |
//! | the token is sent only to a server that presents the certificate of the node's Secret, one issued by its CA, or one that the Secret had while the same pod ran and that was replaced at most ten minutes ago | `tls::only_certificate_of_secret_is_accepted`, `tls::ca_issued_renewal_is_accepted_during_rollout`, `tls::previous_certificate_is_accepted_until_renewal_is_served`, `previous_certificate_is_accepted_for_its_pod_and_ten_minutes` |
//! | a token is requested for one node, sent to no other and to no path that needs none, and not in logs | `tokens::token_of_a_node_is_requested_once_and_only_for_it`, `tokens::token_is_sent_to_no_pod_of_another_audience` |
//! | a server that rejects tokens causes one TokenRequest a minute | `tokens::rejected_token_is_replaced_once`, `sidecar::token::tests::replacement_of_a_rejected_token_is_replaced_once_a_minute` |
//! | a token that is still valid is used while the API server is unavailable, and the number of tokens is bounded | `sidecar::token::tests::valid_token_is_used_while_it_cannot_be_renewed`, `sidecar::token::tests::token_cache_is_bounded_and_keeps_valid_tokens` |
//! | pods of previous versions get a token only with the flag for it, and a rotated one is used immediately | `tokens::no_request_is_sent_without_a_legacy_token`, `tokens::rotated_legacy_token_is_used_immediately` |
//! | an operator that cannot request tokens does not start, and says why | `startup::missing_permission_for_tokens_stops_startup`, `tokens::missing_permission_for_tokens_is_reported_and_stops_startup` |
//! | removed settings are refused with their replacement | `settings::tests::removed_token_settings_are_rejected_with_their_replacement`, `startup::removed_settings_are_reported_before_any_request` |
//! | no sidecar blocks a reconcile, and its late response triggers another one | `background::slow_response_does_not_block_and_wakes_node`, `background::hanging_sidecar_times_out` |
//! | a sidecar without the state of the chain is known as such, and a response is returned although the height in question changes | `responses::chain_responses_are_mapped`, `background::slow_chain_response_is_kept_for_another_height` |
//! | a stalled node is compared only with nodes of its own chain that answer | `chain_progress::tests::stalled_node_is_compared_with_the_others_of_its_chain`, `chain_progress::tests::others_are_asked_for_the_app_hash_of_a_stalled_node` |
//! | one health answer that is late or lost changes no status, and the first readiness is not delayed | `probe_failures::tests::single_failure_of_a_ready_sidecar_does_not_count`, `probe_failures::tests::failures_count_after_a_second`, `probe_failures::tests::sidecar_that_was_not_ready_is_reported_at_once`, `status::late_health_answer_changes_no_status` |
//! | the number of concurrent sidecar calls is bounded, and no call is lost | `background::concurrent_calls_are_bounded` |
//! | a process that may have lost the Lease submits no task | `background::submission_without_valid_claim_is_not_sent` |
//! | a task is submitted once, however long the response takes | `background::slow_submission_is_sent_once` |
//! | no state is kept for a deleted node | `background::deleted_node_leaves_no_calls`, `metrics::tests::deleted_node_has_no_series`, `metrics::tests::certificate_expiration_is_exported_while_a_node_has_tls`, `tls_lifecycle_on_a_running_node`, `probe_failures::tests::sidecar_that_was_not_ready_is_reported_at_once` |
//! | the message of a sidecar error does not change from retry to retry | `responses::response_mapping_is_stable` |
//! | Secrets are read by name and at a bounded rate, and a Secret that a node waits for is noticed within ten seconds | `secrets::copy_of_a_secret_is_used_until_it_is_outdated`, `keys::missing_keys_are_waited_for` |
//! | a replaced certificate does not make a node unready | `tls_lifecycle_on_a_running_node` |
//! | a namespace without the Role for Secrets is reported with the fix | `keys::missing_permission_for_secrets_is_reported_with_its_fix` |
//! | a private key that does not belong to its certificate is reported | `secrets::key_pair::tests::private_key_must_belong_to_the_first_certificate` |
//! | the Secret that cert-manager issued for a node is deleted with the Certificate or the node, and a Secret of the user is not touched | `tls_lifecycle_on_a_running_node` |
//! | private keys are not kept in memory | `secrets::tests::private_key_of_tls_secret_is_redacted`, `secrets::tests::other_secrets_keep_only_their_shape` |
//! | a rollout of a fleet replaces each pod once and keeps its budget, also if the operator is killed | `rollouts::rollout_keeps_the_budget_with_a_killed_operator` |
//! | a fleet writes only its own nodes, and only its own fields of them | `children::foreign_node_is_not_touched`, `children::labels_of_others_survive_updates`, `children::retained_nodes_outlive_their_fleet` |
//! | events never block a reconcile, and none is recorded twice | `events::events_are_recorded_on_the_node`, `events::burst_of_a_thousand_events_is_recorded` |
//! | the events of a whole fleet are recorded when it starts at once | `events::burst_of_a_thousand_events_is_recorded` |
//! | a node is reconciled when a claim or peer that it references changes, or the pod that uses one of its Secrets is gone, and for no other | `controller::reference_index::tests::node_is_found_by_its_references_until_they_change` |
//! | a plan is measured once, and a phase when the node leaves it | `metrics::tests::plan_duration_is_recorded_once_per_plan`, `metrics::tests::phase_duration_is_recorded_for_the_phase_left` |

mod chain_progress;
mod controller;
mod crds;
pub mod install;
pub mod metrics;
mod probe_failures;
mod run;
pub mod secrets;
pub mod settings;
pub mod sidecar;

pub use crds::Error as CrdError;
pub use run::{Error, run};
