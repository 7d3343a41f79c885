//! The fault proxy with real clients and a real API server.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes only libtest tests")]

mod crashes;
mod fixture;
mod identities;
mod records;
mod requests;
mod views;
mod watches;

use crashes::*;
use identities::*;
use records::*;
use requests::*;
use views::*;
use watches::*;

testbed::suite![
    rbac_and_audit_log_see_the_real_user,
    token_is_passed_through_to_the_api_server,
    certificate_of_another_ca_is_rejected,
    injected_status_is_not_forwarded,
    request_is_delayed_before_forwarding,
    response_is_delayed_after_the_write,
    reset_request_is_not_forwarded,
    lost_response_of_applied_write_is_a_reset,
    lost_response_of_applied_write_is_a_504,
    fault_applies_only_to_matching_requests,
    upgrades_are_rejected,
    unreachable_api_server_resets_the_connection,
    kill_before_forwarding_loses_the_write,
    kill_before_response_keeps_the_write,
    kill_after_response_blocks_later_writes,
    requests_of_a_dying_client_are_blocked,
    failed_kill_is_reported,
    open_watches_are_reset,
    open_watches_end_with_an_error,
    black_hole_silences_watches_until_removed,
    matching_events_are_dropped,
    frozen_view_returns_past_state_and_thaws_in_order,
    new_watch_in_frozen_view_starts_in_the_past,
    view_can_be_frozen_at_a_past_revision,
    frozen_view_respects_rbac,
    journal_records_requests_without_secrets,
    unwritable_journal_stops_the_proxy,
    connections_end_with_the_proxy,
];
