//! Converts groups of flags into settings.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::validator::Validator;
use super::{
    AuthenticationSettings, ClientLimits, Http2Settings, KubernetesSettings, OidcSettings, PathPatterns,
    TlsSettings, UpstreamSettings, cipher_suites,
};
use crate::flags::{
    AuthenticationArgs, HiddenArgs, KubernetesArgs, LimitArgs, ListenArgs, OidcArgs, TlsArgs,
};
use crate::identity::IdentityHeaders;
use crate::request::glob::Pattern;
use crate::upstream::url::{Address, Endpoint, UpstreamUrl};

/// Largest HTTP/2 frame.
const MAX_FRAME: u32 = (1 << 24) - 1;
const MIN_FRAME: u32 = 1 << 14;
/// Used for a size outside the HTTP/2 range, as Go's HTTP/2 library does.
const DEFAULT_FRAME: u32 = 1 << 20;

pub(super) fn non_empty(value: String) -> Option<String> {
    (!value.is_empty()).then_some(value)
}

pub(super) fn path(value: &str) -> Option<PathBuf> {
    (!value.is_empty()).then(|| value.into())
}

pub(super) fn warn_ignored_flags(validator: &mut Validator, hidden: &HiddenArgs) {
    if hidden.vmodule.is_some() {
        validator.warn("--vmodule has no effect");
    }
    validator.duration("log-flush-frequency", &hidden.log_flush_frequency);
    for flag in hidden.deprecated.passed() {
        validator.deprecated(&flag);
    }
}

pub(super) fn tls_settings(validator: &mut Validator, tls: &TlsArgs, listen: &ListenArgs) -> TlsSettings {
    let key_pair = match (path(&tls.tls_cert_file), path(&tls.tls_private_key_file)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => {
            if !listen.secure_listen_address.is_empty() {
                validator.warn("--tls-cert-file and --tls-private-key-file are not set: serving a self-signed certificate, which clients cannot verify");
            }
            None
        }
        _ => {
            validator.error("--tls-cert-file and --tls-private-key-file must be set together");
            None
        }
    };
    if !listen.insecure_listen_address.is_empty() {
        validator.warn(
            "--insecure-listen-address serves without TLS: tokens are visible to everyone on the network path",
        );
    }
    let only_tls13 = match tls.tls_min_version.as_str() {
        "VersionTLS13" => true,
        "VersionTLS12" | "" => false,
        old @ ("VersionTLS10" | "VersionTLS11") => {
            validator.warn(format!("--tls-min-version: {old} is insecure; using VersionTLS12"));
            false
        }
        other => {
            validator.error(format!(
                "--tls-min-version: {other:?} is not supported: expected VersionTLS12 or VersionTLS13"
            ));
            false
        }
    };
    let reload_interval = validator.duration("tls-reload-interval", &tls.tls_reload_interval);
    if reload_interval != Duration::from_secs(60) {
        validator.warn("--tls-reload-interval is deprecated by kube-rbac-proxy: by default certificates are reloaded every minute");
    }
    let http2_disabled = validator.boolean("http2-disable", &listen.http2_disable);
    let names = validator.list("tls-cipher-suites", &tls.tls_cipher_suites);
    TlsSettings {
        key_pair,
        only_tls13,
        suites: cipher_suites::select(validator, &names, !http2_disabled && !only_tls13),
        reload_interval,
    }
}

pub(super) fn authentication_settings(
    validator: &mut Validator,
    args: AuthenticationArgs,
) -> AuthenticationSettings {
    let name = |validator: &mut Validator, flag: &str, text: &str| {
        HeaderName::try_from(text)
            .map_err(|_| validator.error(format!("--{flag}: invalid header name {text:?}")))
            .ok()
    };
    let user = name(validator, "auth-header-user-field-name", &args.auth_header_user_field_name);
    let groups = name(validator, "auth-header-groups-field-name", &args.auth_header_groups_field_name);
    let enabled = validator.boolean("auth-header-fields-enabled", &args.auth_header_fields_enabled);
    let separator = args.auth_header_groups_field_separator;
    if HeaderValue::from_str(&separator).is_err() {
        validator.error(format!(
            "--auth-header-groups-field-separator: {separator:?} is not valid in a header value"
        ));
    }
    let protected = [&user, &groups].into_iter().flatten().map(ToString::to_string).collect();
    let identity_headers = match (user, groups) {
        (Some(user), Some(groups)) if enabled => Some(IdentityHeaders { user, groups, separator }),
        _ => None,
    };
    let outage_is_503 = match args.authentication_outage_status.as_str() {
        "401" => false,
        "503" => true,
        other => {
            validator.error(format!(
                "--authentication-outage-status: {other:?} is not supported: expected 401 or 503"
            ));
            false
        }
    };
    let audiences = validator.list("auth-token-audiences", &args.auth_token_audiences);
    let client_ca = path(&args.client_ca_file);
    AuthenticationSettings { client_ca, identity_headers, protected, audiences, outage_is_503 }
}

pub(super) fn oidc_settings(validator: &mut Validator, args: OidcArgs) -> Option<OidcSettings> {
    let is_supported = |name: &&String| {
        matches!(name.split_at_checked(2), Some(("RS" | "ES" | "PS", "256" | "384" | "512")))
    };
    for unsupported in args.oidc_sign_alg.iter().filter(|name| !is_supported(name)) {
        validator.error(format!("--oidc-sign-alg: unsupported algorithm {unsupported:?}: expected RS, ES or PS with 256, 384 or 512"));
    }
    let issuer = non_empty(args.oidc_issuer)?;
    if !issuer.starts_with("https://") {
        validator.error(format!("--oidc-issuer: invalid issuer {issuer:?}: expected an https:// URL"));
    }
    if args.oidc_client_id.is_empty() {
        validator.error("--oidc-clientID must be set with --oidc-issuer: it is the expected token audience");
    }
    Some(OidcSettings {
        issuer,
        client_id: args.oidc_client_id,
        groups_claim: args.oidc_groups_claim,
        username_claim: args.oidc_username_claim,
        username_prefix: args.oidc_username_prefix,
        groups_prefix: args.oidc_groups_prefix,
        algorithms: args.oidc_sign_alg,
        ca: path(&args.oidc_ca_file),
    })
}

pub(super) fn routing_settings(
    validator: &mut Validator,
    args: &ListenArgs,
) -> (PathPatterns, Vec<String>, Http2Settings, UpstreamSettings) {
    let patterns = |validator: &mut Validator, flag: &str, values: &[String]| {
        let mut patterns = Vec::new();
        for text in validator.list(flag, values) {
            match Pattern::parse(&text) {
                Some(pattern) => patterns.push(pattern),
                None => validator.error(format!("--{flag}: invalid pattern {text:?}: unterminated [ or \\")),
            }
        }
        patterns
    };
    let paths = PathPatterns {
        allowed: patterns(validator, "allow-paths", &args.allow_paths),
        ignored: patterns(validator, "ignore-paths", &args.ignore_paths),
    };
    if !paths.allowed.is_empty() && !paths.ignored.is_empty() {
        validator.error("--allow-paths and --ignore-paths are mutually exclusive");
    }
    let upgrades = if args.upgrade_protocols.is_empty() {
        vec!["websocket".to_owned()]
    } else {
        validator.list("upgrade-protocols", &args.upgrade_protocols)
    };
    if upgrades.iter().any(|name| name.eq_ignore_ascii_case("h2c")) {
        validator.error(
            "--upgrade-protocols: h2c is not allowed, because requests inside it would bypass authorization",
        );
    }
    let streams = validator.number("http2-max-concurrent-streams", &args.http2_max_concurrent_streams);
    let size: u32 = validator.number("http2-max-size", &args.http2_max_size);
    let size = if (MIN_FRAME..=MAX_FRAME).contains(&size) { size } else { DEFAULT_FRAME };
    let http2 =
        Http2Settings { enabled: !validator.boolean("http2-disable", &args.http2_disable), streams, size };
    let h2c = validator.boolean("upstream-force-h2c", &args.upstream_force_h2c);
    let url = UpstreamUrl::parse(&args.upstream, h2c).unwrap_or_else(|reason| {
        validator.error(format!("--upstream: {reason}"));
        UpstreamUrl::default()
    });
    let ca = path(&args.upstream_ca_file);
    if ca.is_some() && matches!(&url.endpoint, Some(Endpoint { address: Address::Unix(_), .. })) {
        validator.warn("--upstream-ca-file has no effect with a Unix socket as --upstream");
    }
    let client_key_pair = match (path(&args.upstream_client_cert_file), path(&args.upstream_client_key_file))
    {
        (None, None) => None,
        _ if ca.is_none() => {
            validator.warn("--upstream-client-cert-file and --upstream-client-key-file have no effect without --upstream-ca-file");
            None
        }
        (Some(certificate), Some(key)) => Some((certificate, key)),
        _ => {
            validator
                .error("--upstream-client-cert-file and --upstream-client-key-file must be set together");
            None
        }
    };
    let host_override =
        (!args.upstream_host_header.is_empty()).then(|| HeaderValue::from_str(&args.upstream_host_header));
    let host_override = host_override.transpose().unwrap_or_else(|_| {
        validator.error(format!("--upstream-host-header: invalid host {:?}", args.upstream_host_header));
        None
    });
    (paths, upgrades, http2, UpstreamSettings { url, ca, client_key_pair, host_override })
}

pub(super) fn kubernetes_settings(validator: &mut Validator, args: KubernetesArgs) -> KubernetesSettings {
    let rate: f64 = validator.number("kube-api-qps", &args.kube_api_qps);
    let burst: i64 = validator.number("kube-api-burst", &args.kube_api_burst);
    let rate = (rate > 0.0).then_some(rate).and_then(|rate| match u32::try_from(burst) {
        Ok(burst) if burst > 0 => Some((rate, burst)),
        _ => {
            validator.error("--kube-api-burst must be set to more than 0 with --kube-api-qps");
            None
        }
    });
    KubernetesSettings {
        kubeconfig: path(&args.kubeconfig),
        rate,
        timeout: validator.positive("kube-api-timeout", &args.kube_api_timeout),
        token_ttls: crate::authentication::token_review::TokenTtls {
            definite: validator.duration("token-cache-ttl", &args.token_cache_ttl),
            rejected: validator.duration("token-error-cache-ttl", &args.token_error_cache_ttl),
        },
        decision_ttls: crate::authorization::DecisionTtls {
            allowed: validator.duration("authorization-allow-ttl", &args.authorization_allow_ttl),
            denied: validator.duration("authorization-deny-ttl", &args.authorization_deny_ttl),
        },
        cache: crate::cache::Limits {
            entries: validator.number("cache-max-entries", &args.cache_max_entries),
            bytes: validator.number("cache-max-bytes", &args.cache_max_bytes),
        },
    }
}

pub(super) fn client_limits(validator: &mut Validator, args: &LimitArgs) -> ClientLimits {
    let limits = ClientLimits {
        max_connections: validator.number("max-connections", &args.max_connections),
        max_header_bytes: validator.number("max-header-bytes", &args.max_header_bytes),
        header_timeout: validator.positive("header-timeout", &args.header_timeout),
        idle_timeout: validator.positive("idle-timeout", &args.idle_timeout),
        stall_timeout: validator.positive("stall-timeout", &args.stall_timeout),
    };
    if limits.max_connections == 0 {
        validator.error("--max-connections must be greater than 0");
    }
    if !(8_192..=1 << 20).contains(&limits.max_header_bytes) {
        validator.error("--max-header-bytes must be between 8192 and 1048576");
    }
    limits
}
