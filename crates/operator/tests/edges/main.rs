//! The operator at its edges: the sidecar client against HTTP and TLS servers, Secrets and events on a real API server.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

mod background;
mod crds;
mod events;
mod responses;
mod secrets;
mod server;
mod tls;
mod tokens;

testbed::suite![
    responses::response_mapping_is_stable,
    responses::chain_responses_are_mapped,
    responses::dry_run_responses_are_mapped,
    responses::requests_use_pod_host_and_share_a_connection,
    responses::closed_idle_connection_is_replaced,
    responses::refused_connection_and_missing_pod_ip_are_unreachable,
    tokens::token_of_a_node_is_requested_once_and_only_for_it,
    tokens::rejected_token_is_replaced_once,
    tokens::token_is_sent_to_no_pod_of_another_audience,
    tokens::task_kind_is_sent_to_pods_with_an_audience,
    tokens::missing_permission_for_tokens_is_reported_and_stops_startup,
    tokens::rotated_legacy_token_is_used_immediately,
    tokens::no_request_is_sent_without_a_legacy_token,
    tls::previous_certificate_is_accepted_until_renewal_is_served,
    tls::only_certificate_of_secret_is_accepted,
    tls::ca_issued_renewal_is_accepted_during_rollout,
    tls::serving_probe_detects_scheme_and_certificate,
    background::slow_response_does_not_block_and_wakes_node,
    background::submission_without_valid_claim_is_not_sent,
    background::slow_submission_is_sent_once,
    background::call_for_another_task_replaces_previous,
    background::slow_chain_response_is_kept_for_another_height,
    background::slow_dry_run_wakes_node_and_times_out,
    background::hanging_sidecar_times_out,
    background::concurrent_calls_are_bounded,
    background::deleted_node_leaves_no_calls,
    secrets::copy_of_a_secret_is_used_until_it_is_outdated,
    secrets::forbidden_secret_is_reported_unreadable,
    crds::missing_or_outdated_crd_stops_startup,
    events::events_are_recorded_on_the_node,
    events::unreachable_api_server_drops_events_only,
    events::burst_of_a_thousand_events_is_recorded,
];
