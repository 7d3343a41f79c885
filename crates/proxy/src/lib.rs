//! The authorizing reverse proxy: a drop-in for kube-rbac-proxy. `docs/decisions/0006-authorizing-proxy.md` tells how it is built.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | identity headers that a client sends never reach the upstream, in whatever spelling, nor behind a body (W1, W2) | `request::protected::tests::the_family_and_the_configured_names_are_covered_in_every_spelling`, `request::protected::tests::every_line_of_them_is_removed_and_nothing_else` |
//! | nobody can have our identity headers dropped (W3) | `request::connection::tests::a_request_that_asks_to_drop_an_identity_is_refused` |
//! | nobody speaks another protocol past authorization (W4) | `smoke::a_known_caller_is_forwarded_and_nobody_else` |
//! | a query or a path that could be read in two ways is refused (W5, W6, W14) | `request::query::tests::a_query_that_others_could_read_differently_is_refused`, `request::path::tests::what_two_readers_could_understand_differently_is_refused` |
//! | what cannot be a token costs no call, and one client cannot use up all calls (W7) | `authentication::bearer::tests::what_cannot_be_a_token_is_known_without_asking`, `reviews::limiter::tests::one_who_has_used_up_his_share_waits_and_others_do_not` |
//! | caches are bounded in entries and bytes, and the same is asked once at a time (W8) | `cache::bounded::tests::neither_entries_nor_bytes_exceed_their_bound_and_what_is_used_stays`, `cache::lookups::tests::a_hundred_who_ask_the_same_are_one_look_up_also_when_the_first_goes_away` |
//! | a static rule for groups fits their members only (W9) | `config::tests::a_rule_for_groups_fits_their_members_only` |
//! | slow and idle clients are not waited for (W10) | `serve::activity::tests::a_first_head_that_does_not_come_is_not_waited_for`, `serve::activity::tests::a_client_that_does_not_read_or_send_is_stalled` |
//! | a group that holds the separator is not taken for two (W11) | `identity::tests::what_no_header_can_say_is_not_said` |
//! | an outage is told as wanted, and the host can be pinned (W13, W17) | `smoke::an_api_server_that_is_down_is_told_as_wanted`, `smoke::a_token_of_another_audience_is_of_no_use` |
//! | what is risky is told at the start (W12, W18) | `settings::tests::what_is_risky_is_told` |
//! | a token must be for one of the audiences, and silence is no yes (W12) | `authentication::tokens::tests::a_token_must_be_for_one_of_the_audiences_and_silence_is_no_yes`, `smoke::a_token_of_another_audience_is_of_no_use` |
//! | a head whose end others could find elsewhere is refused and its connection closed | `serve::framing::tests::heads_that_can_be_read_in_two_ways_are_refused`, `serve::framing::tests::they_are_found_behind_any_number_of_good_ones` |
//! | a certificate that is not good names nobody | `tls::clients::tests::a_certificate_that_is_not_good_names_nobody` |
//! | a token that nobody signed names nobody | `authentication::oidc::tests::a_signature_is_good_with_its_own_key_only` |
//! | a dead upstream is 502 and never 503 | `outcome::tests::every_outcome_has_a_reason_of_its_own_and_a_dead_upstream_is_never_503` |
//! | a bad certificate on disk keeps the good one in use | `tls::reload::tests::what_is_good_is_used_and_what_is_bad_keeps_the_old` |
//! | many requests share connections to a quick upstream, and a slow one holds up nobody | `upstream::places::tests::who_finds_no_place_gets_the_next_that_is_free`, `smoke::answers_that_do_not_come_hold_up_nobody` |
//! | a signal lets requests under way end, within a bound | `smoke::a_signal_lets_requests_under_way_end` |
//! | docs/reference/proxy.md is what the code says | `pages::the_documentation_is_what_the_code_says` |
//! | metrics are those that are described | `metrics::tests::what_is_registered_is_what_is_described` |

mod authentication;
mod authorization;
mod cache;
mod config;
pub mod flags;
mod identity;
mod metrics;
mod outcome;
#[cfg(test)]
mod pages;
mod request;
mod reviews;
mod run;
mod serve;
pub mod settings;
mod tls;
mod upstream;

pub use self::metrics::METRICS;
pub use self::run::{Error, run};
pub use self::settings::Settings;
