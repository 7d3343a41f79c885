//! The conformance suite of the proxy: runs every scenario of `docs/reference/scenarios-proxy.md` against a real API server with
//! real tokens, RBAC and certificates.
//!
//! With OUTRIGGER_PEER_PROXY=PATH each scenario also runs against kube-rbac-proxy. `differences.yaml` lists where it differs and
//! why; the suite fails on unlisted differences and on listed ones that no longer exist.
//! OUTRIGGER_CONFORMANCE=whole adds scenarios that take minutes (cache expiry, large bodies) or measure time under attack.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic; clippy only recognizes those of the default harness"
)]

mod attr;
mod authn;
mod authz;
mod cache;
mod case;
mod cfg;
mod checks;
mod cli;
mod differences;
mod dos;
mod fixture;
mod fuzz;
mod fwd;
mod hdr;
mod oidc;
mod ops;
mod path;
mod proxy;
mod raw_request;
mod smug;
mod tls;
mod upstream;
mod verb;
mod ws;
mod x509;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::ExitCode;

use testbed::TestResult;
use testbed::harness::Suite;
use testbed::harness::raw_http::RawConnection;
use testbed::harness::wait;

use crate::case::{Case, Schedule};
use crate::checks::Implementation;

/// Whether the full suite runs, including scenarios that take minutes.
pub fn is_full_run() -> bool {
    std::env::var("OUTRIGGER_CONFORMANCE").is_ok_and(|value| value == "whole")
}

/// Waits for a listener.
pub async fn wait_for_listener(address: Ipv4Addr, port: u16) -> testbed::Result<()> {
    let address = SocketAddr::from((address, port));
    wait::until(format!("a listener on {address}"), fixture::SOON, || RawConnection::connect(address))
        .await
        .map(drop)
}

/// Adds each scenario to the suite, once per implementation.
macro_rules! scenarios {
    ($suite:ident, $ids:ident; $($id:literal $module:ident::$name:ident $(($argument:literal))? $($schedule:ident)?),* $(,)?) => {
        $(
            $ids.push($id);
            let schedule = Schedule::parse(stringify!($($schedule)?));
            if is_full_run() || schedule == Schedule::Concurrent {
                fn scenario<'a>(case: &'a Case<'a>) -> Pin<Box<dyn Future<Output = TestResult> + 'a>> {
                    Box::pin($module::$name(case $(, $argument)?))
                }
                $suite = $suite.test(concat!("ours-", $id, "-", stringify!($name)), |cx| {
                    Box::pin(case::run(cx, $id, Implementation::Ours, Schedule::parse(stringify!($($schedule)?)), scenario))
                });
                if std::env::var_os(proxy::PEER).is_some() {
                    $suite = $suite.test(concat!("peer-", $id, "-", stringify!($name)), |cx| {
                        Box::pin(case::run(cx, $id, Implementation::Peer, Schedule::parse(stringify!($($schedule)?)), scenario))
                    });
                }
            }
        )*
    };
}

/// The ids of all scenarios.
pub static IDS: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();

fn main() -> ExitCode {
    if std::env::var_os(proxy::PEER).is_none() {
        eprintln!("conformance: {} is not set: skipping the comparison with kube-rbac-proxy", proxy::PEER);
    }
    let mut ids = Vec::new();
    let mut suite = Suite::new("conformance")
        .test("differences_name_existing_scenarios", |cx| Box::pin(differences::name_existing_scenarios(cx)))
        .test("unlisted_or_stale_differences_fail", |cx| {
            Box::pin(differences::unlisted_or_stale_differences_fail(cx))
        })
        .test("fuzz", |cx| Box::pin(fuzz::run(cx)));
    scenarios![suite, ids;
        "CACHE-04" cache::allowed_decisions_expire_after_5m slow,
        "CACHE-02" cache::token_reviews_expire_after_2m slow,
        "X509-07" x509::client_ca_is_reloaded slow,
        "OPS-06" ops::service_account_token_is_reloaded slow,
        "OPS-07" ops::api_server_ca_is_reloaded slow,
        "FWD-15" upstream::idle_upstream_connections_close_within_58s slow,
        "AUTHN-12" authn::unresponsive_api_server_returns_401 slow,
        "CACHE-03" cache::denied_decisions_expire_after_30s slow,
        "OPS-04" ops::open_stream_does_not_block_shutdown slow,
        "CLI-01" cli::defaults_apply_without_flags,
        "CLI-02" cli::flag_spellings_are_accepted,
        "CLI-03" cli::list_flags_split_at_commas,
        "CLI-04" cli::invalid_glob_is_rejected,
        "CLI-05" cli::allow_and_ignore_paths_are_exclusive,
        "CLI-06" cli::invalid_tls_settings_are_rejected,
        "CLI-07" cli::qps_without_burst_is_rejected,
        "CLI-08" cli::missing_listen_address_is_rejected,
        "CLI-09" cli::deprecated_logging_flags_are_accepted,
        "CLI-10" cli::invalid_arguments_are_rejected,
        "CFG-01" cfg::all_resource_attributes_are_reviewed,
        "CFG-02" cfg::group_key_is_ignored,
        "CFG-03" cfg::keys_are_case_insensitive,
        "CFG-04" cfg::empty_config_does_not_crash,
        "CFG-05" cfg::rewrites_without_attributes_review_the_path,
        "CFG-06" cfg::templates_expand_in_every_attribute,
        "CFG-07" cfg::invalid_template_is_rejected,
        "CFG-08" cfg::yaml_1_1_scalars_are_strings,
        "VERB-01" verb::methods_map_to_verbs,
        "ATTR-01" attr::path_is_reviewed_without_attributes,
        "ATTR-02" attr::static_attributes_are_reviewed,
        "ATTR-03" attr::query_parameter_fills_template,
        "ATTR-04" attr::missing_query_parameter_is_rejected,
        "ATTR-05" attr::header_lines_are_reviewed_separately,
        "ATTR-06" attr::missing_header_is_rejected,
        "ATTR-07" attr::query_and_header_values_are_all_reviewed,
        "ATTR-08" attr::long_values_are_not_cached,
        "AUTHN-01" authn::missing_credentials_return_401,
        "AUTHN-02" authn::basic_credentials_return_401,
        "AUTHN-03" authn::two_spaces_before_token_return_401,
        "AUTHN-04" authn::text_after_token_is_ignored,
        "AUTHN-05" authn::scheme_is_case_insensitive,
        "AUTHN-06" authn::two_authorization_headers_are_rejected,
        "AUTHN-07" authn::token_for_other_audience_is_rejected,
        "AUTHN-08" authn::review_without_audiences_is_rejected,
        "AUTHN-09" authn::unauthenticated_review_returns_401,
        "AUTHN-10" authn::failed_token_review_is_retried,
        "AUTHN-11" authn::forbidden_token_review_is_not_retried,
        "AUTHN-13" authn::unauthorized_response_matches_kube_rbac_proxy,
        "AUTHN-14" authn::token_is_neither_forwarded_nor_logged,
        "X509-01" x509::trusted_certificate_authenticates_user,
        "X509-02" x509::certificate_of_other_ca_is_rejected,
        "X509-03" x509::expired_certificate_is_rejected,
        "X509-04" x509::server_certificate_is_rejected,
        "X509-05" x509::certificate_without_name_is_rejected,
        "X509-06" x509::trusted_certificate_wins_over_token,
        "X509-08" x509::unrequested_certificate_is_ignored,
        "OIDC-01" oidc::valid_id_token_authenticates_user,
        "OIDC-02" oidc::invalid_id_tokens_return_401,
        "OIDC-03" oidc::claims_and_prefixes_are_configurable,
        "WS-01" ws::subprotocol_token_is_accepted_and_stripped,
        "WS-02" ws::two_subprotocol_tokens_are_rejected,
        "WS-03" ws::malformed_subprotocol_token_is_rejected,
        "WS-04" ws::tunnel_forwards_bytes_both_ways,
        "WS-05" ws::half_close_keeps_the_other_direction_open,
        "WS-06" ws::unexpected_protocol_switch_returns_502,
        "WS-07" ws::only_authorized_websocket_upgrades,
        "AUTHZ-01" authz::allowed_request_is_forwarded,
        "AUTHZ-02" authz::denied_request_returns_403,
        "AUTHZ-03" authz::explicit_denial_returns_403,
        "AUTHZ-04" authz::contradictory_review_returns_500,
        "AUTHZ-05" authz::failed_access_review_returns_500,
        "AUTHZ-06" authz::retry_after_is_honored,
        "AUTHZ-07" authz::static_rules_need_no_review,
        "AUTHZ-08" authz::static_rule_with_groups_matches_members_only,
        "CACHE-01" cache::repeated_requests_are_reviewed_once,
        "CACHE-05" cache::rejected_tokens_are_cached_but_failures_are_not,
        "CACHE-06" cache::concurrent_requests_share_token_review,
        "CACHE-07" cache::concurrent_requests_share_access_review,
        "CACHE-08" cache::new_token_is_reviewed_separately,
        "HDR-01" hdr::spoofed_identity_headers_are_replaced,
        "HDR-02" hdr::spoofed_headers_are_stripped_when_disabled,
        "HDR-03" hdr::spoofed_headers_are_stripped_on_ignored_paths,
        "HDR-04" hdr::connection_header_cannot_drop_identity,
        "HDR-05" hdr::hop_by_hop_headers_are_not_forwarded,
        "HDR-06" hdr::x_forwarded_for_appends_client_address,
        "HDR-07" hdr::host_is_forwarded_unchanged,
        "HDR-08" hdr::only_te_trailers_is_forwarded,
        "HDR-09" hdr::system_authenticated_is_always_a_group,
        "HDR-10" hdr::group_with_separator_is_not_split,
        "HDR-11" hdr::unencodable_identity_returns_502,
        "HDR-12" hdr::request_trailers_are_forwarded_without_identity,
        "PATH-01" path::double_slashes_are_rejected,
        "PATH-02" path::dot_segments_are_rejected,
        "PATH-03" path::encoded_dot_segments_are_rejected,
        "PATH-04" path::encoded_slash_is_rejected,
        "PATH-05" path::encoded_backslash_is_rejected,
        "PATH-06" path::nul_and_invalid_escapes_are_rejected,
        "PATH-07" path::path_is_forwarded_as_written,
        "PATH-08" path::trailing_slash_is_significant,
        "PATH-09" path::absolute_form_must_match_host,
        "PATH-10" path::targets_without_path_are_rejected,
        "PATH-11" path::fragments_and_non_ascii_are_rejected,
        "FWD-01" fwd::upstream_path_and_query_are_prepended,
        "FWD-02" fwd::query_is_forwarded_unchanged,
        "FWD-03" fwd::large_bodies_are_streamed,
        "FWD-04" fwd::response_chunks_are_flushed_immediately,
        "FWD-05" fwd::response_trailers_are_forwarded,
        "FWD-06" fwd::expect_continue_is_forwarded,
        "FWD-07" fwd::early_hints_are_dropped,
        "FWD-08" upstream::truncated_response_is_not_completed,
        "FWD-09" upstream::client_disconnect_cancels_upstream_request,
        "FWD-10" upstream::unreachable_upstream_returns_502,
        "FWD-11" upstream::upstream_connections_are_reused,
        "FWD-12" upstream::http_1_0_clients_are_served,
        "FWD-13" upstream::h2c_upstream_is_supported,
        "FWD-14" upstream::tls_upstream_is_verified,
        "FWD-16" fwd::bodies_are_forwarded_for_every_method,
        "SMUG-01" smug::ambiguous_framing_is_rejected("SMUG-01"),
        "SMUG-02" smug::ambiguous_framing_is_rejected("SMUG-02"),
        "SMUG-03" smug::ambiguous_framing_is_rejected("SMUG-03"),
        "SMUG-04" smug::ambiguous_framing_is_rejected("SMUG-04"),
        "SMUG-05" smug::ambiguous_framing_is_rejected("SMUG-05"),
        "SMUG-06" smug::ambiguous_framing_is_rejected("SMUG-06"),
        "SMUG-07" smug::ambiguous_framing_is_rejected("SMUG-07"),
        "SMUG-08" smug::ambiguous_framing_is_rejected("SMUG-08"),
        "SMUG-09" smug::ambiguous_framing_is_rejected("SMUG-09"),
        "SMUG-10" smug::ambiguous_framing_is_rejected("SMUG-10"),
        "SMUG-11" smug::ambiguous_framing_is_rejected("SMUG-11"),
        "SMUG-12" smug::ambiguous_framing_is_rejected("SMUG-12"),
        "SMUG-13" smug::ambiguous_framing_is_rejected("SMUG-13"),
        "SMUG-14" smug::ambiguous_framing_is_rejected("SMUG-14"),
        "SMUG-21" smug::ambiguous_framing_is_rejected("SMUG-21"),
        "SMUG-22" smug::ambiguous_framing_is_rejected("SMUG-22"),
        "SMUG-15" smug::h2_control_characters_are_rejected,
        "SMUG-16" smug::h2_connection_headers_are_rejected,
        "SMUG-17" smug::h2_invalid_path_or_host_is_rejected,
        "SMUG-18" smug::h2_wrong_content_length_is_rejected,
        "SMUG-19" smug::upgrade_body_is_not_a_second_request,
        "SMUG-20" smug::unread_body_is_not_a_second_request,
        "SMUG-23" smug::ambiguous_framing_is_rejected_when_pipelined,
        "TLS-01" tls::minimum_tls_version_is_enforced,
        "TLS-02" tls::cipher_suites_are_restricted,
        "TLS-03" tls::alpn_prefers_h2,
        "TLS-04" tls::renamed_certificate_is_reloaded,
        "TLS-05" tls::swapped_secret_volume_is_reloaded,
        "TLS-06" tls::mismatched_key_keeps_previous_certificate,
        "TLS-07" tls::self_signed_certificate_names_the_host,
        "TLS-08" tls::client_certificate_is_optional,
        "OPS-01" ops::endpoints_port_serves_healthz_only,
        "OPS-02" ops::sigterm_drains_requests_in_flight,
        "OPS-03" ops::second_signal_stops_immediately,
        "OPS-05" ops::unreachable_api_server_serves_ignored_paths,
        "OPS-08" ops::descriptor_exhaustion_neither_exits_nor_spins,
        "DOS-01" dos::slow_request_heads_do_not_delay_others exclusive,
        "DOS-02" dos::stalled_handshakes_do_not_delay_others,
        "DOS-03" dos::idle_connections_use_bounded_memory,
        "DOS-04" dos::rapid_reset_does_not_delay_others exclusive,
        "DOS-05" dos::endless_h2_head_closes_connection,
        "DOS-06" dos::random_tokens_do_not_delay_others exclusive,
        "DOS-07" dos::many_valid_tokens_use_bounded_memory slow,
        "DOS-08" dos::oversized_heads_are_rejected,
        "DOS-09" dos::stalled_clients_time_out slow,
        "DOS-10" dos::header_floods_do_not_delay_others exclusive,
    ];
    let _ = IDS.set(ids);
    // Scenarios mostly wait: for processes to start, for RBAC to propagate, for responses that must not arrive.
    suite.concurrency(8).run()
}
