//! The authorizing reverse proxy, a drop-in replacement for kube-rbac-proxy. Its design is described in
//! `docs/decisions/0006-authorizing-proxy.md`.
//!
//! # Invariants
//!
//! | invariant | tests |
//! |---|---|
//! | identity headers sent by a client never reach the upstream, in any spelling, not even as trailers | `request::protected::tests::remote_and_configured_names_match_in_every_spelling`, `request::protected::tests::strip_removes_all_values_and_nothing_else` |
//! | a client cannot have the proxy's identity headers dropped | `request::hop_by_hop::tests::dropping_an_identity_header_is_rejected` |
//! | a protocol upgrade does not bypass authorization | `smoke::only_authorized_callers_are_forwarded` |
//! | an ambiguous query or path is rejected | `request::query::tests::ambiguous_queries_are_rejected`, `request::path::tests::ambiguous_paths_are_rejected` |
//! | a malformed token causes no review, and one client cannot use up all reviews | `authentication::bearer::tests::malformed_token_needs_no_review`, `reviews::limiter::tests::exhausted_key_waits_without_blocking_others` |
//! | caches are bounded in entries and bytes, and identical lookups run once | `cache::bounded::tests::bounds_hold_and_used_entries_stay`, `cache::single_flight::tests::concurrent_callers_share_one_lookup_after_first_aborts` |
//! | a static rule with groups matches only their members | `config::tests::rule_with_groups_matches_members_only` |
//! | slow and idle clients time out | `serve::activity::tests::missing_request_headers_time_out`, `serve::activity::tests::client_that_neither_reads_nor_sends_is_stalled` |
//! | a group that contains the separator is not forwarded as two groups | `identity::tests::unencodable_identity_is_rejected` |
//! | the status during an API server outage is configurable, and the upstream host can be pinned | `smoke::api_server_outage_returns_configured_status`, `smoke::token_with_wrong_audience_is_rejected` |
//! | risky settings cause warnings at startup | `settings::tests::risky_settings_cause_warnings` |
//! | a token must have one of the configured audiences, and a review without audiences is rejected | `authentication::token_review::tests::missing_or_wrong_audience_is_rejected`, `smoke::token_with_wrong_audience_is_rejected` |
//! | a head with ambiguous framing is rejected and its connection closed | `serve::framing::tests::ambiguous_heads_are_rejected`, `serve::framing::tests::ambiguous_head_is_found_after_valid_requests` |
//! | an untrusted client certificate authenticates no user | `tls::client_cert::tests::untrusted_or_nameless_certificate_is_rejected` |
//! | a token without a valid signature authenticates no user | `authentication::oidc::tests::signature_is_valid_only_with_its_own_key` |
//! | an unreachable upstream is answered with 502, never with 503 | `outcome::tests::reasons_are_unique_and_upstream_errors_are_502` |
//! | an invalid certificate file keeps the previous certificate in use | `tls::reload::tests::invalid_content_keeps_previous_value` |
//! | many requests share connections to a fast upstream, and a slow one delays no other request | `upstream::concurrency::tests::waiting_request_gets_next_free_permit`, `smoke::stalled_responses_do_not_block_other_requests` |
//! | SIGTERM drains requests in flight, within a bound | `smoke::sigterm_drains_requests_in_flight` |
//! | probes are answered while others take all connections, and a connection above the limit waits | `serve::slots::tests::newest_connections_above_the_limit_stay_open`, `serve::slots::tests::waiting_connection_gets_the_next_free_slot`, `smoke::probes::probes_are_answered_while_connections_flood_in` |
//! | a decision about one subresource is not used for another, and the upstream receives the header that was authorized | `authorization::tests::digest_covers_the_subresource`, `smoke::subresource::task_kind_is_authorized_as_subresource`, `request::subresource::tests::connection_cannot_remove_the_header` |
//! | a Unix socket is used like a TCP upstream | `smoke::unix::unix_upstream_is_used_like_a_tcp_upstream`, `upstream::dial::tests::full_backlog_of_a_unix_socket_is_waited_for` |
//! | other processes of the same user cannot read the proxy's memory | `smoke::hardening::other_process_of_same_user_cannot_read_the_proxy` |
//! | docs/reference/proxy.md matches the code | `pages::documentation_matches_the_code` |
//! | the metrics match their catalog | `metrics::tests::registered_metrics_match_the_catalog` |

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
