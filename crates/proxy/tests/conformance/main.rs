//! Everything that the specification of the authorizing proxy lists, scenario by scenario, against the real API server with real
//! tokens, permissions and certificates.
//!
//! The program under test is ours; with OUTRIGGER_PEER_PROXY=PATH each scenario is run against the upstream program too. Where
//! that one differs, `differences.yaml` says how and why; anything else that differs fails, and so does a difference that is none.
//! OUTRIGGER_CONFORMANCE=whole adds what takes minutes, times of caches and large bodies, and what measures time under attack.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic; clippy recognizes only those of the usual runner"
)]

mod ask;
mod attr;
mod authn;
mod authz;
mod cache;
mod case;
mod cfg;
mod cli;
mod differences;
mod dos;
mod fuzz;
mod fwd;
mod ground;
mod hdr;
mod oidc;
mod ops;
mod path;
mod program;
mod smug;
mod tls;
mod upstream;
mod verb;
mod verdict;
mod ws;
mod x509;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::ExitCode;

use testbed::TestResult;
use testbed::harness::Suite;
use testbed::harness::wait;
use testbed::harness::wire::Wire;

use crate::case::{Case, Pace};
use crate::verdict::Target;

/// True when minutes may be spent.
pub fn is_whole() -> bool {
    std::env::var("OUTRIGGER_CONFORMANCE").is_ok_and(|value| value == "whole")
}

/// Waits for a listener.
pub async fn until_listens(address: Ipv4Addr, port: u16) -> testbed::Result<()> {
    let address = SocketAddr::from((address, port));
    wait::until(format!("a listener on {address}"), ground::SOON, || Wire::connect(address)).await.map(drop)
}

/// Adds a scenario for each program.
macro_rules! scenarios {
    ($suite:ident, $ids:ident; $($id:literal $module:ident::$name:ident $(($argument:literal))? $($pace:ident)?),* $(,)?) => {
        $(
            $ids.push($id);
            let pace = Pace::read(stringify!($($pace)?));
            if is_whole() || pace == Pace::Usual {
                fn scenario<'a>(case: &'a Case<'a>) -> Pin<Box<dyn Future<Output = TestResult> + 'a>> {
                    Box::pin($module::$name(case $(, $argument)?))
                }
                $suite = $suite.test(concat!("ours-", $id, "-", stringify!($name)), |cx| {
                    Box::pin(case::run(cx, $id, Target::Ours, Pace::read(stringify!($($pace)?)), scenario))
                });
                if std::env::var_os(program::PEER).is_some() {
                    $suite = $suite.test(concat!("peer-", $id, "-", stringify!($name)), |cx| {
                        Box::pin(case::run(cx, $id, Target::Peer, Pace::read(stringify!($($pace)?)), scenario))
                    });
                }
            }
        )*
    };
}

/// Every scenario's id, for those who must know them all.
pub static IDS: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();

fn main() -> ExitCode {
    if std::env::var_os(program::PEER).is_none() {
        eprintln!("conformance: {} is not set: ours runs alone", program::PEER);
    }
    let mut ids = Vec::new();
    let mut suite = Suite::new("conformance")
        .test("differences_name_scenarios", |cx| Box::pin(differences::name_scenarios(cx)))
        .test("differences_are_judged", |cx| Box::pin(differences::are_judged(cx)))
        .test("fuzz", |cx| Box::pin(fuzz::run(cx)));
    scenarios![suite, ids;
        "CACHE-04" cache::permissions_for_five_minutes slow,
        "CACHE-02" cache::tokens_for_two_minutes slow,
        "X509-07" x509::another_authority slow,
        "OPS-06" ops::own_token slow,
        "OPS-07" ops::own_authority slow,
        "FWD-15" upstream::idle_upstream_connections slow,
        "AUTHN-12" authn::a_silent_api_server slow,
        "CACHE-03" cache::refusals_for_half_a_minute slow,
        "OPS-04" ops::open_stream slow,
        "CLI-01" cli::defaults,
        "CLI-02" cli::spellings,
        "CLI-03" cli::lists,
        "CLI-04" cli::bad_glob,
        "CLI-05" cli::both_path_lists,
        "CLI-06" cli::tls_settings,
        "CLI-07" cli::rate_without_burst,
        "CLI-08" cli::no_listen_address,
        "CLI-09" cli::dead_flags,
        "CLI-10" cli::refused_arguments,
        "CFG-01" cfg::every_field,
        "CFG-02" cfg::group_is_no_key,
        "CFG-03" cfg::any_case_of_keys,
        "CFG-04" cfg::no_authorization,
        "CFG-05" cfg::rewrites_without_attributes,
        "CFG-06" cfg::templates,
        "CFG-07" cfg::bad_template,
        "CFG-08" cfg::scalars,
        "VERB-01" verb::methods,
        "ATTR-01" attr::a_path,
        "ATTR-02" attr::attributes,
        "ATTR-03" attr::by_query,
        "ATTR-04" attr::no_query,
        "ATTR-05" attr::by_header,
        "ATTR-06" attr::no_header,
        "ATTR-07" attr::by_both,
        "ATTR-08" attr::long_values,
        "AUTHN-01" authn::nobody,
        "AUTHN-02" authn::basic,
        "AUTHN-03" authn::two_spaces,
        "AUTHN-04" authn::a_third_part,
        "AUTHN-05" authn::any_case_of_the_scheme,
        "AUTHN-06" authn::two_lines,
        "AUTHN-07" authn::audiences,
        "AUTHN-08" authn::no_audiences_in_the_answer,
        "AUTHN-09" authn::not_authenticated,
        "AUTHN-10" authn::a_failure_is_tried_again,
        "AUTHN-11" authn::a_refusal_is_not,
        "AUTHN-13" authn::the_refusal,
        "AUTHN-14" authn::the_token_stays_here,
        "X509-01" x509::good,
        "X509-02" x509::of_another_authority,
        "X509-03" x509::expired,
        "X509-04" x509::a_servers,
        "X509-05" x509::nameless,
        "X509-06" x509::with_a_token,
        "X509-08" x509::unasked,
        "OIDC-01" oidc::good,
        "OIDC-02" oidc::not_good,
        "OIDC-03" oidc::late_issuer,
        "WS-01" ws::a_token_among_protocols,
        "WS-02" ws::two_tokens,
        "WS-03" ws::no_other_protocol,
        "WS-04" ws::traffic,
        "WS-05" ws::one_side_ends,
        "WS-06" ws::another_protocol,
        "WS-07" ws::no_other_tunnel,
        "AUTHZ-01" authz::allowed,
        "AUTHZ-02" authz::not_allowed,
        "AUTHZ-03" authz::denied,
        "AUTHZ-04" authz::both,
        "AUTHZ-05" authz::a_failure,
        "AUTHZ-06" authz::too_many_requests,
        "AUTHZ-07" authz::rules_of_the_file,
        "AUTHZ-08" authz::groups_of_a_rule,
        "CACHE-01" cache::one_question,
        "CACHE-05" cache::failures,
        "CACHE-06" cache::a_crowd_with_one_token,
        "CACHE-07" cache::a_crowd_with_one_question,
        "CACHE-08" cache::a_new_token,
        "HDR-01" hdr::spoofed_where_enabled,
        "HDR-02" hdr::spoofed_where_disabled,
        "HDR-03" hdr::spoofed_on_open_paths,
        "HDR-04" hdr::removed_by_connection,
        "HDR-05" hdr::of_the_connection,
        "HDR-06" hdr::forwarded_for,
        "HDR-07" hdr::host,
        "HDR-08" hdr::te,
        "HDR-09" hdr::no_groups,
        "HDR-10" hdr::separator,
        "HDR-11" hdr::unspeakable_names,
        "HDR-12" hdr::trailers,
        "PATH-01" path::double_slashes,
        "PATH-02" path::dots,
        "PATH-03" path::encoded_dots,
        "PATH-04" path::encoded_slash,
        "PATH-05" path::backslash,
        "PATH-06" path::nul,
        "PATH-07" path::as_written,
        "PATH-08" path::trailing_slash,
        "PATH-09" path::absolute_form,
        "PATH-10" path::no_paths,
        "PATH-11" path::no_targets,
        "FWD-01" fwd::joined_addresses,
        "FWD-02" fwd::raw_queries,
        "FWD-03" fwd::large_bodies,
        "FWD-04" fwd::events,
        "FWD-05" fwd::trailers,
        "FWD-06" fwd::go_on,
        "FWD-07" fwd::early_hints,
        "FWD-08" upstream::broken_off,
        "FWD-09" upstream::a_client_that_goes,
        "FWD-10" upstream::no_upstream,
        "FWD-11" upstream::slow_and_again,
        "FWD-12" upstream::old_clients,
        "FWD-13" upstream::to_h2c,
        "FWD-14" upstream::to_tls,
        "FWD-16" fwd::bodies_of_all_methods,
        "SMUG-01" smug::refused("SMUG-01"),
        "SMUG-02" smug::refused("SMUG-02"),
        "SMUG-03" smug::refused("SMUG-03"),
        "SMUG-04" smug::refused("SMUG-04"),
        "SMUG-05" smug::refused("SMUG-05"),
        "SMUG-06" smug::refused("SMUG-06"),
        "SMUG-07" smug::refused("SMUG-07"),
        "SMUG-08" smug::refused("SMUG-08"),
        "SMUG-09" smug::refused("SMUG-09"),
        "SMUG-10" smug::refused("SMUG-10"),
        "SMUG-11" smug::refused("SMUG-11"),
        "SMUG-12" smug::refused("SMUG-12"),
        "SMUG-13" smug::refused("SMUG-13"),
        "SMUG-14" smug::refused("SMUG-14"),
        "SMUG-21" smug::refused("SMUG-21"),
        "SMUG-22" smug::refused("SMUG-22"),
        "SMUG-15" smug::line_ends,
        "SMUG-16" smug::of_connections,
        "SMUG-17" smug::no_paths,
        "SMUG-18" smug::wrong_length,
        "SMUG-19" smug::switch_with_a_body,
        "SMUG-20" smug::unread_body,
        "SMUG-23" smug::behind_another,
        "TLS-01" tls::versions,
        "TLS-02" tls::suites,
        "TLS-03" tls::protocols,
        "TLS-04" tls::renamed,
        "TLS-05" tls::swapped,
        "TLS-06" tls::mismatched,
        "TLS-07" tls::of_its_own,
        "TLS-08" tls::clients_need_none,
        "OPS-01" ops::endpoints,
        "OPS-02" ops::in_flight,
        "OPS-03" ops::second_signal,
        "OPS-05" ops::no_api_server,
        "OPS-08" ops::no_descriptors,
        "DOS-01" dos::slow_heads alone,
        "DOS-02" dos::slow_handshakes,
        "DOS-03" dos::idle_connections,
        "DOS-04" dos::rapid_reset alone,
        "DOS-05" dos::endless_head,
        "DOS-06" dos::bad_tokens alone,
        "DOS-07" dos::good_tokens slow,
        "DOS-08" dos::large_heads,
        "DOS-09" dos::given_up_in_time slow,
        "DOS-10" dos::floods_of_headers alone,
    ];
    let _ = IDS.set(ids);
    // They mostly wait: for processes to start, for permissions to be known, for what must not come.
    suite.at_once(8).run()
}
