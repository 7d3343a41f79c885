//! Reads groups of flags, each into the settings that it is for.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::check::Check;
use super::{ClientLimits, Http2, Kubernetes, Oidc, Paths, Tls, Upstream, suites};
use crate::flags::{
    AuthenticationArgs, HiddenArgs, KubernetesArgs, LimitArgs, ListenArgs, OidcArgs, TlsArgs,
};
use crate::identity::HeaderStyle;
use crate::request::glob::Pattern;
use crate::upstream::target::Target;

/// The largest frame that HTTP/2 knows.
const LARGEST_FRAME: u32 = (1 << 24) - 1;
const SMALLEST_FRAME: u32 = 1 << 14;
/// What is used instead of a size that HTTP/2 does not know.
const LIBRARY_FRAME: u32 = 1 << 20;

pub(super) fn text(value: String) -> Option<String> {
    (!value.is_empty()).then_some(value)
}

pub(super) fn file(value: &str) -> Option<PathBuf> {
    (!value.is_empty()).then(|| value.into())
}

pub(super) fn verbosity(check: &mut Check, hidden: &HiddenArgs) {
    if hidden.vmodule.is_some() {
        check.warn("--vmodule has no effect");
    }
    check.duration("log-flush-frequency", &hidden.log_flush_frequency);
    for given in hidden.dead.given() {
        check.dead(&given);
    }
}

pub(super) fn tls_settings(check: &mut Check, tls: &TlsArgs, listen: &ListenArgs) -> Tls {
    let pair = match (file(&tls.tls_cert_file), file(&tls.tls_private_key_file)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => {
            if !listen.secure_listen_address.is_empty() {
                check.warn("--tls-cert-file and --tls-private-key-file are not set: a self-signed certificate is served, which no client can verify");
            }
            None
        }
        _ => {
            check.problem("--tls-cert-file and --tls-private-key-file go together: set both or none");
            None
        }
    };
    if !listen.insecure_listen_address.is_empty() {
        check.warn(
            "--insecure-listen-address serves without TLS: whoever sees the traffic sees the tokens in it",
        );
    }
    let only_13 = match tls.tls_min_version.as_str() {
        "VersionTLS13" => true,
        "VersionTLS12" | "" => false,
        old @ ("VersionTLS10" | "VersionTLS11") => {
            check.warn(format!("--tls-min-version: {old} is not safe and is taken for VersionTLS12"));
            false
        }
        other => {
            check.problem(format!("--tls-min-version: {other:?} is none of VersionTLS12, VersionTLS13"));
            false
        }
    };
    let reload = check.duration("tls-reload-interval", &tls.tls_reload_interval);
    if reload != Duration::from_secs(60) {
        check.warn("--tls-reload-interval is deprecated by kube-rbac-proxy: certificates are looked at every minute without it");
    }
    let http2 = check.boolean("http2-disable", &listen.http2_disable);
    let names = check.list("tls-cipher-suites", &tls.tls_cipher_suites);
    Tls { pair, only_13, suites: suites::choose(check, &names, !http2 && !only_13), reload }
}

pub(super) type Identities = (Option<HeaderStyle>, Vec<String>, Vec<String>, bool, Option<PathBuf>);

pub(super) fn identities(check: &mut Check, args: AuthenticationArgs) -> Identities {
    let name = |check: &mut Check, flag: &str, text: &str| {
        HeaderName::try_from(text)
            .map_err(|_| check.problem(format!("--{flag}: {text:?} is no header name")))
            .ok()
    };
    let user = name(check, "auth-header-user-field-name", &args.auth_header_user_field_name);
    let groups = name(check, "auth-header-groups-field-name", &args.auth_header_groups_field_name);
    let enabled = check.boolean("auth-header-fields-enabled", &args.auth_header_fields_enabled);
    let separator = args.auth_header_groups_field_separator;
    if HeaderValue::from_str(&separator).is_err() {
        check
            .problem(format!("--auth-header-groups-field-separator: {separator:?} cannot stand in a header"));
    }
    let protected = [&user, &groups].into_iter().flatten().map(ToString::to_string).collect();
    let style = match (user, groups) {
        (Some(user), Some(groups)) if enabled => Some(HeaderStyle { user, groups, separator }),
        _ => None,
    };
    let outage_is_503 = match args.authentication_outage_status.as_str() {
        "401" => false,
        "503" => true,
        other => {
            check.problem(format!("--authentication-outage-status: {other:?} is neither 401 nor 503"));
            false
        }
    };
    let audiences = check.list("auth-token-audiences", &args.auth_token_audiences);
    (style, protected, audiences, outage_is_503, file(&args.client_ca_file))
}

pub(super) fn oidc_settings(check: &mut Check, args: OidcArgs) -> Option<Oidc> {
    let known = |name: &&String| {
        matches!(name.split_at_checked(2), Some(("RS" | "ES" | "PS", "256" | "384" | "512")))
    };
    for unknown in args.oidc_sign_alg.iter().filter(|name| !known(name)) {
        check.problem(format!("--oidc-sign-alg: {unknown:?} is none of RS, ES, PS with 256, 384 or 512"));
    }
    let issuer = text(args.oidc_issuer)?;
    if !issuer.starts_with("https://") {
        check.problem(format!("--oidc-issuer: {issuer:?} does not begin with https://"));
    }
    if args.oidc_client_id.is_empty() {
        check.problem("--oidc-clientID must be set with --oidc-issuer: it is the audience of its tokens");
    }
    Some(Oidc {
        issuer,
        client_id: args.oidc_client_id,
        groups_claim: args.oidc_groups_claim,
        username_claim: args.oidc_username_claim,
        username_prefix: args.oidc_username_prefix,
        groups_prefix: args.oidc_groups_prefix,
        algorithms: args.oidc_sign_alg,
        ca: file(&args.oidc_ca_file),
    })
}

pub(super) fn ways(check: &mut Check, args: &ListenArgs) -> (Paths, Vec<String>, Http2, Upstream) {
    let patterns = |check: &mut Check, flag: &str, given: &[String]| {
        let mut patterns = Vec::new();
        for text in check.list(flag, given) {
            match Pattern::parse(&text) {
                Some(pattern) => patterns.push(pattern),
                None => {
                    check.problem(format!("--{flag}: {text:?} is no pattern: a [ or a \\ is not finished"))
                }
            }
        }
        patterns
    };
    let paths = Paths {
        allowed: patterns(check, "allow-paths", &args.allow_paths),
        ignored: patterns(check, "ignore-paths", &args.ignore_paths),
    };
    if !paths.allowed.is_empty() && !paths.ignored.is_empty() {
        check.problem("--allow-paths and --ignore-paths exclude each other: remove one of them");
    }
    let upgrades = if args.upgrade_protocols.is_empty() {
        vec!["websocket".to_owned()]
    } else {
        check.list("upgrade-protocols", &args.upgrade_protocols)
    };
    if upgrades.iter().any(|name| name.eq_ignore_ascii_case("h2c")) {
        check.problem("--upgrade-protocols: h2c would carry requests that nobody authorizes");
    }
    let streams = check.number("http2-max-concurrent-streams", &args.http2_max_concurrent_streams);
    let size: u32 = check.number("http2-max-size", &args.http2_max_size);
    let size = if (SMALLEST_FRAME..=LARGEST_FRAME).contains(&size) { size } else { LIBRARY_FRAME };
    let http2 = Http2 { enabled: !check.boolean("http2-disable", &args.http2_disable), streams, size };
    let h2c = check.boolean("upstream-force-h2c", &args.upstream_force_h2c);
    let target = Target::parse(&args.upstream, h2c).unwrap_or_else(|why| {
        check.problem(format!("--upstream: {why}"));
        Target::default()
    });
    let ca = file(&args.upstream_ca_file);
    let client = match (file(&args.upstream_client_cert_file), file(&args.upstream_client_key_file)) {
        (None, None) => None,
        (Some(certificate), Some(key)) if ca.is_some() => Some((certificate, key)),
        (Some(_), Some(_)) => {
            check.warn("--upstream-client-cert-file and --upstream-client-key-file have no effect without --upstream-ca-file");
            None
        }
        _ if ca.is_none() => {
            check.warn("--upstream-client-cert-file and --upstream-client-key-file have no effect without --upstream-ca-file");
            None
        }
        _ => {
            check.problem(
                "--upstream-client-cert-file and --upstream-client-key-file go together: set both or none",
            );
            None
        }
    };
    let host =
        (!args.upstream_host_header.is_empty()).then(|| HeaderValue::from_str(&args.upstream_host_header));
    let host = host.transpose().unwrap_or_else(|_| {
        check.problem(format!("--upstream-host-header: {:?} is no host", args.upstream_host_header));
        None
    });
    (paths, upgrades, http2, Upstream { target, ca, client, host })
}

pub(super) fn kubernetes_settings(check: &mut Check, args: KubernetesArgs) -> Kubernetes {
    let rate: f64 = check.number("kube-api-qps", &args.kube_api_qps);
    let burst: i64 = check.number("kube-api-burst", &args.kube_api_burst);
    let rate = (rate > 0.0).then_some(rate).and_then(|rate| match u32::try_from(burst) {
        Ok(burst) if burst > 0 => Some((rate, burst)),
        _ => {
            check.problem("--kube-api-burst must be set above 0 with --kube-api-qps");
            None
        }
    });
    Kubernetes {
        kubeconfig: file(&args.kubeconfig),
        rate,
        within: check.positive("kube-api-timeout", &args.kube_api_timeout),
        tokens: crate::authentication::tokens::Lifetimes {
            known: check.duration("token-cache-ttl", &args.token_cache_ttl),
            bad: check.duration("token-error-cache-ttl", &args.token_error_cache_ttl),
        },
        decisions: crate::authorization::Lifetimes {
            allowed: check.duration("authorization-allow-ttl", &args.authorization_allow_ttl),
            denied: check.duration("authorization-deny-ttl", &args.authorization_deny_ttl),
        },
        cache: crate::cache::Limits {
            entries: check.number("cache-max-entries", &args.cache_max_entries),
            bytes: check.number("cache-max-bytes", &args.cache_max_bytes),
        },
    }
}

pub(super) fn client_limits(check: &mut Check, args: &LimitArgs) -> ClientLimits {
    let limits = ClientLimits {
        connections: check.number("max-connections", &args.max_connections),
        head_bytes: check.number("max-header-bytes", &args.max_header_bytes),
        head: check.positive("header-timeout", &args.header_timeout),
        idle: check.positive("idle-timeout", &args.idle_timeout),
        stall: check.positive("stall-timeout", &args.stall_timeout),
    };
    if limits.connections == 0 {
        check.problem("--max-connections must be above 0");
    }
    if !(8_192..=1 << 20).contains(&limits.head_bytes) {
        check.problem("--max-header-bytes must be between 8192 and 1048576");
    }
    limits
}
