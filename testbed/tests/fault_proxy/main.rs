//! The fault proxy, seen from real clients before a real API server.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod bench;
mod crashes;
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
    rbac_and_the_audit_log_see_who_really_asked,
    a_token_is_passed_on_for_the_api_server_to_judge,
    a_certificate_of_another_authority_is_refused,
    a_chosen_status_is_answered_without_asking_the_api_server,
    a_request_is_delayed_before_it_is_forwarded,
    an_answer_is_delayed_after_the_write,
    a_reset_request_is_never_forwarded,
    a_write_is_applied_and_its_answer_lost_in_a_reset,
    a_write_is_applied_and_its_answer_becomes_504,
    a_fault_hits_only_whom_it_is_meant_for,
    upgrades_are_refused,
    an_api_server_that_is_away_looks_like_a_broken_connection,
    a_process_killed_before_its_write_is_forwarded,
    a_process_killed_before_it_hears_of_its_write,
    a_process_killed_after_it_heard_of_its_write,
    nothing_of_a_dying_client_gets_through,
    a_kill_that_fails_surfaces,
    open_watches_are_reset,
    open_watches_end_with_an_error,
    a_black_hole_swallows_watches_until_it_is_lifted,
    chosen_events_are_dropped,
    a_frozen_view_shows_the_past_and_thaws_in_order,
    a_watch_that_begins_in_a_frozen_view_begins_with_the_past,
    a_view_frozen_earlier_makes_a_client_travel_in_time,
    a_frozen_view_opens_nothing_that_is_forbidden,
    the_journal_tells_what_happened_and_no_secrets,
    a_journal_that_cannot_be_written_stops_everything,
    everything_ends_with_the_proxy,
];
