//! The authorizing reverse proxy: a drop-in for kube-rbac-proxy. `docs/decisions/ADR-6.md` tells how it is built.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | identity headers that a client sends never reach the upstream, in whatever spelling, nor behind a body (W1, W2) | `request::protected::tests::the_family_and_the_configured_names_are_covered_in_every_spelling`, `request::protected::tests::every_line_of_them_is_removed_and_nothing_else` |
//! | nobody can have our identity headers dropped (W3) | `request::connection::tests::a_request_that_asks_to_drop_an_identity_is_refused` |
//! | a query or a path that could be read in two ways is refused (W5, W6, W14) | `request::query::tests::a_query_that_others_could_read_differently_is_refused`, `request::path::tests::what_two_readers_could_understand_differently_is_refused` |
//! | what cannot be a token costs no call, and one client cannot use up all calls (W7) | `authentication::bearer::tests::what_cannot_be_a_token_is_known_without_asking`, `reviews::limiter::tests::one_who_has_used_up_his_share_waits_and_others_do_not` |
//! | caches are bounded in entries and bytes, and the same is asked once at a time (W8) | `cache::bounded::tests::neither_entries_nor_bytes_exceed_their_bound_and_what_is_used_stays`, `cache::lookups::tests::a_hundred_who_ask_the_same_are_one_look_up_also_when_the_first_goes_away` |
//! | a static rule for groups fits their members only (W9) | `config::tests::a_rule_for_groups_fits_their_members_only` |
//! | slow and idle clients are not waited for (W10) | `serve::activity::tests::a_first_head_that_does_not_come_is_not_waited_for`, `serve::activity::tests::a_client_that_does_not_read_or_send_is_stalled` |
//! | a group that holds the separator is not taken for two (W11) | `identity::tests::what_no_header_can_say_is_not_said` |
//! | a dead upstream is 502 and never 503 | `outcome::tests::every_outcome_has_a_reason_of_its_own_and_a_dead_upstream_is_never_503` |
//! | a bad certificate on disk keeps the good one in use | `tls::reload::tests::what_is_good_is_used_and_what_is_bad_keeps_the_old` |
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
