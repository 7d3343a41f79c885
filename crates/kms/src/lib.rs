//! KMS v2 plugin health for Kubernetes API servers: the reporter next to each API server, the aggregator, the injector of plugins into
//! pods, and the preflight check of a configuration.
//!
//! Decisions are in `plan::kms`, wire formats in `api::kms`.
//!
//! # Invariants
//!
//! | invariant | guarded by |
//! |---|---|
//! | the report of a failing plugin is stored, also where the upstream reporter's is rejected | `api_servers::published_schema_accepts_all_our_reports`, `plugins::any_plugin_message_is_stored` |
//! | a failing plugin does not affect the reports of others | `plugins::hanging_plugin_does_not_affect_others` |
//! | a failed connect is reported immediately, and a replaced plugin is found | `probe::connect_failure_is_returned_immediately`, `plugins::restarted_plugin_is_found_without_leaks` |
//! | at most one connection per plugin is cached, and only while its socket file is the same | `probe::connection_is_reused_only_for_same_socket_file`, `probe::replaced_plugin_is_found_without_leaking_connections` |
//! | once its flags are valid, only a signal ends the reporter | `process::late_credentials_are_found`, `api_servers::reporter_survives_api_server_outage`, `process::next_container_starts_without_working_reporter`, `api_server::api_server_starts_without_working_reporter` |
//! | a signal ends the reporter within a second | `process::sigterm_ends_reporter_within_a_second` |
//! | invalid flags are rejected in the order of the upstream reporter | `process::invalid_flag_exits_with_one_line` |
//! | a persisting failure is logged once, and so is its end | `api_servers::every_api_error_is_logged_once_and_retried` |
//! | reporters that overload an API server write less often and say so; changes are not delayed | `contention::slow_server_delays_only_unchanged_reports`, `contention::stale_write_is_rejected_and_retried` |
//! | a reporter owns the reports of its node and no others | `server_side_apply::each_reporter_owns_only_its_reports` |
//! | reports and logs contain no secrets | `plugins::any_plugin_message_is_stored`, `api_servers::rotated_token_and_ca_are_reloaded` |
//! | the reporter's metrics match the catalog | `reporter::metrics::tests::registered_metrics_match_catalog` |
//! | injection is idempotent, also for pods with fields defaulted by the API server | `files::injection_is_idempotent_and_reversible`, `cluster::deployment_gets_plugins_once`, `cluster::api_server_accepts_injected_static_pod` |
//! | a revision whose pod and Secret differ is out of sync | `cluster::check_fails_until_pod_matches_revisioned_secret` |
//! | a fault of a plugin fails its step of the check, with its cause | `check::each_plugin_fault_fails_its_step` |
//! | a failed check is stored whatever the plugin returned, and stays degraded until it is over | `results::failed_check_is_stored_and_retried_on_request`, `results::failure_without_key_id_is_stored` |
//! | a result is stored only for the checked configuration | `config_change::changed_config_restarts_check_in_every_state` |
//! | a completed check leaves only its RBAC, and causes no further writes | `results::successful_check_is_stored_and_cleaned_up` |
//! | a check succeeds only if it succeeds on every control plane node | `per_node::check_fails_if_one_node_fails`, `per_node::check_restarts_if_a_pod_is_deleted` |
//! | the stored result is what the plugin in the check pod returned | `real_pods::config_is_checked_by_its_plugin_in_a_real_pod` |
//! | a failed check is retried after its delay | `results::failed_check_is_retried_after_delay` |
//! | aggregators of different ClusterOperators do not share a Lease | `settings::tests::each_cluster_operator_has_its_own_lease`, `rbac::aggregator_rbac_is_sufficient_and_minimal` |
//! | only the leader acts, and a standby takes over | `leader_election::standby_takes_over_from_killed_leader` |
//! | all invalid settings of the aggregator are reported together | `settings::tests::all_invalid_settings_are_reported_together`, `startup::invalid_settings_exit_with_2` |
//! | a failing plugin degrades the rollup in every report format | `kinds::every_kind_is_rolled_up_in_both_formats` |
//! | in steady state the aggregator writes nothing, however many reports arrive | `health::steady_state_writes_nothing`, `leader_election::concurrent_aggregators_converge` |
//! | the report of a live reporter is never removed | `cleanup::only_reports_without_live_reporter_are_removed`, `nodes::only_reports_of_removed_nodes_are_removed` |
//! | the rollup agrees with the API server's own health check of the plugin | `api_server::broken_plugin_is_degraded_until_repaired` |
//! | a reporter changes only entries of its own node | `policy::reporter_may_change_only_its_own_entries` |
//! | generated RBAC is sufficient, and every permission is used | `rbac::aggregator_rbac_is_sufficient_and_minimal`, `rbac::reporter_rbac_is_sufficient_and_minimal`, `rbac::controller_rbac_is_sufficient_and_minimal`, `manifests::tests::no_role_lists_secrets_or_grants_wildcards` |

pub mod aggregator;
pub mod alerts;
pub mod check;
#[cfg(test)]
mod docs;
pub mod inject;
pub mod manifests;
pub mod preflight;
pub mod preflight_controller;
pub mod probe;
pub mod reporter;
mod resource;
mod socket;

mod proto {
    #![allow(dead_code, missing_docs, clippy::all, reason = "generated from kms.proto")]
    tonic::include_proto!("v2");
}
