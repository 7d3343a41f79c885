use clap::{Command, FromArgMatches as _};

use super::*;
use crate::flags::normalized;

fn settings(words: &[&str]) -> Result<Settings, Vec<String>> {
    let words = std::iter::once("proxy").chain(words.iter().copied()).map(std::ffi::OsString::from);
    let command = <Args as clap::Args>::augment_args(Command::new("proxy"));
    let args = Args::from_arg_matches(&command.try_get_matches_from(normalized(words)).unwrap()).unwrap();
    Settings::try_from(args).map_err(|problems| problems.to_string().lines().map(str::to_owned).collect())
}

/// The profile of section 1 of the specification.
#[test]
fn the_arguments_of_every_node_are_taken() {
    let settings = settings(&[
        "--insecure-listen-address=0.0.0.0:8443",
        "--upstream=http://127.0.0.1:7777/",
        "--ignore-paths=/v0/healthz,/v0/startupz,/v0/livez,/v0/metrics",
        "--auth-header-fields-enabled=true",
        "--v=0",
    ])
    .unwrap();
    assert_eq!(settings.paths.ignored.len(), 4);
    let style = settings.style.unwrap();
    assert_eq!((style.user.as_str(), style.groups.as_str()), ("x-remote-user", "x-remote-groups"));
    assert_eq!(style.separator, "|");
}

/// CLI-01.
#[test]
fn defaults_are_those_of_kube_rbac_proxy() {
    let settings = settings(&["--insecure-listen-address=:1"]).unwrap();
    assert!(settings.style.is_none() && settings.oidc.is_none() && settings.client_ca.is_none());
    assert_eq!(settings.endpoints_port, 0);
    assert!(settings.http2.enabled);
    assert_eq!((settings.http2.streams, settings.http2.size), (100, 262_144));
    assert_eq!(settings.kubernetes.tokens.known, Duration::from_secs(120));
    assert_eq!(settings.kubernetes.decisions.allowed, Duration::from_secs(300));
    assert_eq!(settings.kubernetes.decisions.denied, Duration::from_secs(30));
    assert_eq!(settings.tls.reload, Duration::from_secs(60));
    assert!(!settings.tls.only_13);
    assert!(settings.drain < Duration::from_secs(30));
    assert!(
        settings.upstream.target.way.is_none(),
        "an empty upstream is taken, and is 502 for every request"
    );
}

/// CLI-04 to CLI-09: all at once.
#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let problems = settings(&[
        "--allow-paths=/a,[",
        "--ignore-paths=/b",
        "--tls-cert-file=/x",
        "--tls-min-version=VersionTLS9",
        "--tls-cipher-suites=TLS_NONSENSE",
        "--kube-api-qps=5",
        "--http2-max-size=x",
        "--drain-timeout=soon",
        "--auth-header-fields-enabled=maybe",
        "--upstream=127.0.0.1:8081",
        "--oidc-issuer=http://i",
        "--oidc-sign-alg=HS256",
        "--config-file=/nowhere/config.yaml",
        "--upgrade-protocols=h2c",
    ])
    .unwrap_err();
    for wanted in [
        "no listen address provided",
        "--allow-paths: \"[\" is no pattern",
        "--allow-paths and --ignore-paths exclude each other",
        "--tls-cert-file and --tls-private-key-file go together",
        "--tls-min-version: \"VersionTLS9\"",
        "--tls-cipher-suites: \"TLS_NONSENSE\" is not known",
        "--kube-api-burst must be set",
        "--http2-max-size: \"x\" is no number",
        "--drain-timeout: \"soon\" is no duration",
        "--auth-header-fields-enabled: \"maybe\"",
        "--upstream: \"127.0.0.1:8081\" is no URL",
        "--oidc-issuer: \"http://i\" does not begin with https://",
        "--oidc-clientID must be set",
        "--oidc-sign-alg: \"HS256\"",
        "--config-file /nowhere/config.yaml: ",
        "--upgrade-protocols: h2c",
    ] {
        assert!(problems.iter().any(|line| line.starts_with(wanted)), "{wanted} is not among\n{problems:#?}");
    }
    assert_eq!(problems.len(), 16, "{problems:#?}");
}

#[test]
fn durations_are_read_as_go_writes_them() {
    let reload = |text: &str| {
        let flag = format!("--tls-reload-interval={text}");
        settings(&["--insecure-listen-address=:1", &flag]).map(|settings| settings.tls.reload)
    };
    for (text, seconds) in [("1m", 60.0), ("1m30s", 90.0), ("1.5h", 5_400.0), ("250ms", 0.25), ("0", 0.0)] {
        assert_eq!(reload(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
    }
    for text in ["", "5", "s", "-1s", "1d", "1 s", "1s "] {
        assert!(reload(text).is_err(), "{text:?}");
    }
}

/// TLS-02.
#[test]
fn suites_that_are_not_safe_are_dropped_and_an_empty_list_is_refused() {
    let with = |suites: &str, more: &[&str]| {
        let flag = format!("--tls-cipher-suites={suites}");
        settings(&[&["--secure-listen-address=:1", &flag], more].concat())
    };
    let good = with("TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", &[]).unwrap();
    assert_eq!(good.tls.suites.unwrap(), [rustls::CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
    assert!(good.warnings.iter().any(|line| line.contains("is not safe and is not offered")));
    assert!(with("TLS_RSA_WITH_AES_128_CBC_SHA", &[]).is_err(), "none is left");
    assert!(with("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", &[]).is_err(), "HTTP/2 needs another");
    assert!(with("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", &["--http2-disable"]).is_ok());
}

/// CLI-09.
#[test]
fn dead_flags_are_taken_with_a_warning_each() {
    let settings = settings(&[
        "--insecure-listen-address=:1",
        "--logtostderr=true",
        "--alsologtostderr",
        "--add-dir-header",
        "--one-output",
        "--skip-headers",
        "--skip-log-headers",
        "--log-backtrace-at=:0",
        "--log-dir=/x",
        "--log-file=/y",
        "--log-file-max-size=1800",
        "--stderrthreshold=2",
        "--vmodule=",
        "--log-flush-frequency=5s",
    ])
    .unwrap();
    let dead =
        settings.warnings.iter().filter(|line| line.contains("has no effect and will be removed")).count();
    assert_eq!(dead, 11, "{:#?}", settings.warnings);
}

/// W12, W18.
#[test]
fn what_is_risky_is_told() {
    let told =
        |words: &[&str], says: &str| settings(words).unwrap().warnings.iter().any(|line| line.contains(says));
    assert!(told(&["--insecure-listen-address=:1"], "set --auth-token-audiences"));
    assert!(!told(
        &["--insecure-listen-address=:1", "--auth-token-audiences=a"],
        "set --auth-token-audiences"
    ));
    assert!(told(&["--secure-listen-address=:1"], "checked by their path"));
    assert!(told(&["--secure-listen-address=:1"], "self-signed"));
    assert!(told(
        &["--secure-listen-address=:1", "--tls-min-version=VersionTLS10"],
        "taken for VersionTLS12"
    ));
    let alone =
        ["--secure-listen-address=:1", "--upstream-client-cert-file=/c", "--upstream-client-key-file=/k"];
    assert!(told(&alone, "have no effect without --upstream-ca-file"));
}
