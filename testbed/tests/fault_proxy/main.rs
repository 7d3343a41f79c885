//! The fault proxy with real clients and a real API server.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes only libtest tests")]

mod crashes;
mod fixture;
mod identities;
mod records;
mod requests;
mod views;
mod watches;

testbed::suite![
    identities::rbac_and_audit_log_see_the_real_user,
    identities::token_is_passed_through_to_the_api_server,
    identities::certificate_of_another_ca_is_rejected,
    requests::injected_status_is_not_forwarded,
    requests::request_is_delayed_before_forwarding,
    requests::response_is_delayed_after_the_write,
    requests::reset_request_is_not_forwarded,
    requests::lost_response_of_applied_write_is_a_reset,
    requests::lost_response_of_applied_write_is_a_504,
    requests::fault_applies_only_to_matching_requests,
    requests::upgrades_are_rejected,
    requests::unreachable_api_server_resets_the_connection,
    crashes::kill_before_forwarding_loses_the_write,
    crashes::kill_before_response_keeps_the_write,
    crashes::kill_after_response_blocks_later_writes,
    crashes::requests_of_a_dying_client_are_blocked,
    crashes::failed_kill_is_reported,
    watches::open_watches_are_reset,
    watches::open_watches_end_with_an_error,
    watches::black_hole_silences_watches_until_removed,
    watches::matching_events_are_dropped,
    views::frozen_view_returns_past_state_and_thaws_in_order,
    views::new_watch_in_frozen_view_starts_in_the_past,
    views::view_can_be_frozen_at_a_past_revision,
    views::frozen_view_respects_rbac,
    records::journal_records_requests_without_secrets,
    records::unwritable_journal_stops_the_proxy,
    records::connections_end_with_the_proxy,
];
