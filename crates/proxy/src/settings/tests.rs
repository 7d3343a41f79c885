use clap::{Command, FromArgMatches as _};

use super::*;
use crate::flags::normalize_args;

fn settings(args: &[&str]) -> Result<Settings, Vec<String>> {
    let args = std::iter::once("proxy").chain(args.iter().copied()).map(std::ffi::OsString::from);
    let command = <Args as clap::Args>::augment_args(Command::new("proxy"));
    let args = Args::from_arg_matches(&command.try_get_matches_from(normalize_args(args)).unwrap()).unwrap();
    Settings::try_from(args).map_err(|errors| errors.to_string().lines().map(str::to_owned).collect())
}

/// The arguments that the operator passes to the proxy of every node.
#[test]
fn node_pod_arguments_are_accepted() {
    let settings = settings(&[
        "--insecure-listen-address=0.0.0.0:8443",
        "--upstream=http://127.0.0.1:7777/",
        "--ignore-paths=/v0/healthz,/v0/startupz,/v0/livez,/v0/metrics",
        "--auth-header-fields-enabled=true",
        "--v=0",
    ])
    .unwrap();
    assert_eq!(settings.paths.ignored.len(), 4);
    let headers = settings.authentication.identity_headers.unwrap();
    assert_eq!((headers.user.as_str(), headers.groups.as_str()), ("x-remote-user", "x-remote-groups"));
    assert_eq!(headers.separator, "|");
}

#[test]
fn unix_upstream_is_accepted_and_relative_path_is_rejected() {
    let with =
        |upstream: &str| settings(&["--insecure-listen-address=:1", &format!("--upstream={upstream}")]);
    assert!(with("unix:///run/sei-sidecar/api.sock").unwrap().upstream.url.endpoint.is_some());
    let errors = with("unix://run/api.sock").unwrap_err();
    assert_eq!(
        errors,
        [
            "--upstream: invalid URL \"unix://run/api.sock\": the path of the socket is not absolute (expected for example unix:///run/upstream.sock)"
        ]
    );
    let ca = settings(&["--insecure-listen-address=:1", "--upstream=unix:///a", "--upstream-ca-file=/b"]);
    let warnings = ca.unwrap().warnings;
    assert!(
        warnings.iter().any(|line| line.starts_with("--upstream-ca-file has no effect")),
        "{warnings:#?}"
    );
}

#[test]
fn subresource_header_that_only_the_proxy_sets_is_rejected() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = format!("--config-file={}", file.path().display());
    for (name, is_accepted) in [("x-kind", true), ("X-Remote-User", false), ("x_caller", false)] {
        let text = format!(
            "authorization:\n  resourceAttributes:\n    resource: pods\n  subresourceFromHeader: {name}\n"
        );
        std::fs::write(file.path(), text).unwrap();
        let result =
            settings(&["--insecure-listen-address=:1", "--auth-header-user-field-name=x-caller", &config]);
        match result {
            Ok(_) => assert!(is_accepted, "{name}"),
            Err(errors) => {
                assert!(!is_accepted && errors.len() == 1, "{name}: {errors:?}");
                assert!(errors[0].contains("is an identity header"), "{errors:?}");
            }
        }
    }
}

#[test]
fn defaults_equal_those_of_kube_rbac_proxy() {
    let settings = settings(&["--insecure-listen-address=:1"]).unwrap();
    assert!(
        settings.authentication.identity_headers.is_none()
            && settings.oidc.is_none()
            && settings.authentication.client_ca.is_none()
    );
    assert_eq!(settings.endpoints_port, 0);
    assert!(settings.http2.enabled);
    assert_eq!((settings.http2.streams, settings.http2.size), (100, 262_144));
    assert_eq!(settings.kubernetes.token_ttls.definite, Duration::from_secs(120));
    assert_eq!(settings.kubernetes.decision_ttls.allowed, Duration::from_secs(300));
    assert_eq!(settings.kubernetes.decision_ttls.denied, Duration::from_secs(30));
    assert_eq!(settings.tls.reload_interval, Duration::from_secs(60));
    assert!(!settings.tls.only_tls13);
    assert!(settings.drain_timeout < Duration::from_secs(30));
    assert!(
        settings.upstream.url.endpoint.is_none(),
        "an empty upstream is accepted; every request is answered with 502"
    );
}

#[test]
fn all_errors_are_reported_together() {
    let errors = settings(&[
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
    for expected in [
        "no listen address provided",
        "--allow-paths: invalid pattern \"[\"",
        "--allow-paths and --ignore-paths are mutually exclusive",
        "--tls-cert-file and --tls-private-key-file must be set together",
        "--tls-min-version: \"VersionTLS9\"",
        "--tls-cipher-suites: unknown cipher suite \"TLS_NONSENSE\"",
        "--kube-api-burst must be set",
        "--http2-max-size: \"x\" is not a valid number",
        "--drain-timeout: invalid duration \"soon\"",
        "--auth-header-fields-enabled: invalid boolean \"maybe\"",
        "--upstream: invalid URL \"127.0.0.1:8081\"",
        "--oidc-issuer: invalid issuer \"http://i\"",
        "--oidc-clientID must be set",
        "--oidc-sign-alg: unsupported algorithm \"HS256\"",
        "--config-file /nowhere/config.yaml: ",
        "--upgrade-protocols: h2c",
    ] {
        assert!(errors.iter().any(|line| line.starts_with(expected)), "{expected} is not among\n{errors:#?}");
    }
    assert_eq!(errors.len(), 16, "{errors:#?}");
}

#[test]
fn durations_use_go_syntax() {
    let reload = |text: &str| {
        let flag = format!("--tls-reload-interval={text}");
        settings(&["--insecure-listen-address=:1", &flag]).map(|settings| settings.tls.reload_interval)
    };
    for (text, seconds) in [("1m", 60.0), ("1m30s", 90.0), ("1.5h", 5_400.0), ("250ms", 0.25), ("0", 0.0)] {
        assert_eq!(reload(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
    }
    for text in ["", "5", "s", "-1s", "1d", "1 s", "1s "] {
        assert!(reload(text).is_err(), "{text:?}");
    }
}

#[test]
fn insecure_suites_are_dropped_and_empty_list_is_rejected() {
    let with = |suites: &str, more: &[&str]| {
        let flag = format!("--tls-cipher-suites={suites}");
        settings(&[&["--secure-listen-address=:1", &flag], more].concat())
    };
    let good = with("TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", &[]).unwrap();
    assert_eq!(good.tls.suites.unwrap(), [rustls::CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
    assert!(good.warnings.iter().any(|line| line.contains("is insecure and not offered")));
    assert!(with("TLS_RSA_WITH_AES_128_CBC_SHA", &[]).is_err(), "no suite is left");
    assert!(with("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", &[]).is_err(), "HTTP/2 requires another suite");
    assert!(with("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", &["--http2-disable"]).is_ok());
}

#[test]
fn deprecated_flags_are_accepted_with_a_warning() {
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
    let deprecated =
        settings.warnings.iter().filter(|line| line.contains("is deprecated and has no effect")).count();
    assert_eq!(deprecated, 11, "{:#?}", settings.warnings);
}

#[test]
fn risky_settings_cause_warnings() {
    let warns = |args: &[&str], message: &str| {
        settings(args).unwrap().warnings.iter().any(|line| line.contains(message))
    };
    assert!(warns(&["--insecure-listen-address=:1"], "set --auth-token-audiences"));
    assert!(!warns(
        &["--insecure-listen-address=:1", "--auth-token-audiences=a"],
        "set --auth-token-audiences"
    ));
    assert!(warns(&["--secure-listen-address=:1"], "authorized by path"));
    assert!(warns(&["--secure-listen-address=:1"], "self-signed"));
    assert!(warns(&["--secure-listen-address=:1", "--tls-min-version=VersionTLS10"], "using VersionTLS12"));
    let alone =
        ["--secure-listen-address=:1", "--upstream-client-cert-file=/c", "--upstream-client-key-file=/k"];
    assert!(warns(&alone, "have no effect without --upstream-ca-file"));
}
