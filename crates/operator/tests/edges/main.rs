//! The operator at its edges: the sidecar client against HTTP and TLS servers, Secrets and events on a real API server.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

mod background;
mod crds;
mod events;
mod responses;
mod secrets;
mod server;
mod tls;

testbed::suite![
    responses::response_mapping_is_stable,
    responses::chain_responses_are_mapped,
    responses::dry_run_responses_are_mapped,
    responses::requests_use_pod_host_and_share_a_connection,
    responses::closed_idle_connection_is_replaced,
    responses::rotated_token_is_used_immediately,
    responses::no_request_is_sent_without_a_token,
    responses::refused_connection_and_missing_pod_ip_are_unreachable,
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
    secrets::secret_is_read_once_per_version,
    secrets::forbidden_secret_is_reported_unreadable,
    crds::missing_or_outdated_crd_stops_startup,
    events::events_are_recorded_on_the_node,
    events::unreachable_api_server_drops_events_only,
    events::burst_of_a_thousand_events_is_recorded,
];
