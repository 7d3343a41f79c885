//! CLI: the observable behavior of flags.

use testbed::TestResult;
use testbed::harness::raw_http::{RawConnection, frames};

use crate::case::Case;
use crate::fixture::SOON;
use crate::proxy::PLAIN;
use crate::raw_request::RawRequest;

/// CLI-01: without optional flags, every path is authorized, no identity header is set and HTTP/2 is
/// enabled.
pub async fn defaults_apply_without_flags(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    case.check("a permitted request", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    let received = case.upstream.take();
    case.check(
        "identity headers",
        "-",
        received.first().map_or("nothing came".into(), |request| request.joined_header("x-remote-user")),
    );
    case.check("a path without permission", 403, proxy.status(&RawRequest::get("/other").token(token)).await);
    case.check("no path is ignored by default", 401, proxy.status(&RawRequest::get("/healthz")).await);

    let mut connection = RawConnection::connect(proxy.plain()).await?;
    let authorization = format!("Bearer {token}");
    let headers = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "proxy.test"),
        (":path", "/ok"),
        ("authorization", authorization.as_str()),
    ];
    connection.send([frames::preface(), frames::request(1, &headers)].concat()).await?;
    let server_frames =
        frames::read_until(&mut connection, SOON, |server_frames| !server_frames.statuses.is_empty()).await?;
    case.check("HTTP/2 with prior knowledge", "[(1, 200)]", format!("{:?}", server_frames.statuses));

    let disabled = case.proxy().flag("--http2-disable").start().await?;
    let mut connection = RawConnection::connect(disabled.plain()).await?;
    connection.send([frames::preface(), frames::request(1, &headers)].concat()).await?;
    let server_frames =
        frames::read_until(&mut connection, SOON, |server_frames| !server_frames.statuses.is_empty()).await?;
    case.check("HTTP/2 with --http2-disable", "[]", format!("{:?}", server_frames.statuses));

    let (outcome, _) = case.proxy().without_flags().flag("--version").start_outcome().await?;
    case.check("--version", "exit 0", outcome);
    let (outcome, _) = case.proxy().without_flags().flag("--help").start_outcome().await?;
    case.check("--help", "exit 0", outcome);
    Ok(())
}

/// CLI-02: flags accept underscores, a value after a space, and booleans without a value.
pub async fn flag_spellings_are_accepted(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let bare = case.proxy().without_flags();
    let listen = format!("{}:{PLAIN}", bare.address());
    let upstream = format!("{}/", case.upstream.url());
    let address = bare.address();
    let flags = [
        "--insecure_listen_address",
        &listen,
        &format!("--upstream={upstream}"),
        "--auth_header_fields_enabled",
        "-v",
        "0",
    ];
    let builder = bare.flags(&flags);
    let proxy = builder.start().await?;
    crate::wait_for_listener(address, PLAIN).await?;
    case.check("a permitted request", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    let received = case.upstream.take();
    let user =
        received.first().map_or("nothing came".into(), |request| request.joined_header("x-remote-user"));
    case.check("a boolean without a value", case.fixture.username("caller"), user);
    Ok(())
}

/// CLI-03: list flags split at commas, respect double quotes and accumulate; paths match as globs.
pub async fn list_flags_split_at_commas(case: &Case<'_>) -> TestResult {
    let proxy = case
        .proxy()
        .flags(&["--ignore-paths=/one,/two", "--ignore-paths=\"/three,four\"", "--ignore-paths=/five/*"])
        .start()
        .await?;
    for (path, expected) in [
        ("/one", 200),
        ("/two", 200),
        ("/three,four", 200),
        ("/three", 401),
        ("/five/x", 200),
        ("/five/x/y", 401),
        ("/five", 401),
    ] {
        case.check(path, expected, proxy.status(&RawRequest::get(path)).await);
    }
    let proxy = case.proxy().flag("--allow-paths=/only/[a-c]?,/other\\*").start().await?;
    for (path, expected) in
        [("/only/ax", 401), ("/only/dx", 404), ("/only/a", 404), ("/other*", 401), ("/otherwise", 404)]
    {
        case.check(&format!("allowed: {path}"), expected, proxy.status(&RawRequest::get(path)).await);
    }
    let not_found = proxy.send(&RawRequest::get("/missed")).await?;
    case.check("the body of a 404", "404 page not found\n", not_found.text());
    Ok(())
}

/// Checks that the proxy exits with an error message.
async fn check_rejected(case: &Case<'_>, name: &str, flags: &[&str]) -> TestResult {
    let (outcome, log) = case.proxy().flags(flags).start_outcome().await?;
    case.check(name, "exit 1", &outcome);
    if outcome.starts_with("exit") {
        case.check(
            &format!("{name}: error message"),
            "yes",
            if log.trim().is_empty() { "no" } else { "yes" },
        );
    }
    Ok(())
}

/// CLI-04: an invalid glob in a path list prevents startup.
pub async fn invalid_glob_is_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, "in --ignore-paths", &["--ignore-paths=/ok,/[a"]).await?;
    check_rejected(case, "in --allow-paths", &["--allow-paths=/[]"]).await
}

/// CLI-05: --allow-paths and --ignore-paths together prevent startup.
pub async fn allow_and_ignore_paths_are_exclusive(case: &Case<'_>) -> TestResult {
    check_rejected(case, "--allow-paths and --ignore-paths", &["--allow-paths=/a", "--ignore-paths=/b"]).await
}

/// CLI-06: unknown or incomplete TLS settings prevent startup.
pub async fn invalid_tls_settings_are_rejected(case: &Case<'_>) -> TestResult {
    let listen = format!("--secure-listen-address={}:9443", case.proxy().address());
    for (name, flags) in [
        ("an unknown cipher suite", &["--tls-cipher-suites=TLS_NOT_KNOWN"][..]),
        ("an unknown version", &["--tls-min-version=VersionSSL30"]),
        ("a certificate without a key", &["--tls-cert-file=/nowhere/tls.crt"]),
        ("missing files", &["--tls-cert-file=/nowhere/tls.crt", "--tls-private-key-file=/nowhere/tls.key"]),
        (
            "only cipher suites that HTTP/2 forbids",
            &["--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
        ),
    ] {
        let flags: Vec<&str> = std::iter::once(listen.as_str()).chain(flags.iter().copied()).collect();
        check_rejected(case, name, &flags).await?;
    }
    Ok(())
}

/// CLI-07: --kube-api-qps requires --kube-api-burst.
pub async fn qps_without_burst_is_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, "--kube-api-qps alone", &["--kube-api-qps=50"]).await?;
    let (outcome, _) =
        case.proxy().flags(&["--kube-api-qps=50", "--kube-api-burst=100"]).start_outcome().await?;
    case.check("with --kube-api-burst", "serves", outcome);
    Ok(())
}

/// CLI-08: a proxy without any listen address does not start and names the flag.
pub async fn missing_listen_address_is_rejected(case: &Case<'_>) -> TestResult {
    let upstream = format!("--upstream={}/", case.upstream.url());
    let (outcome, log) = case.proxy().without_flags().flag(&upstream).start_outcome().await?;
    case.check("no listen address", "exit 1", outcome);
    case.check("the error names the flag", "yes", if log.contains("listen") { "yes" } else { "no" });
    Ok(())
}

/// CLI-09: logging flags without effect are accepted and reported in the log.
pub async fn deprecated_logging_flags_are_accepted(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let flags = [
        "--logtostderr=true",
        "--alsologtostderr=true",
        "--add-dir-header=true",
        "--one-output=true",
        "--skip-headers=true",
        "--skip-log-headers=true",
        "--log-backtrace-at=x.go:1",
        "--log-dir=/nowhere",
        "--log-file=/nowhere/log",
        "--stderrthreshold=INFO",
        "--log-file-max-size=1",
        "--vmodule=x=1",
        "--log-flush-frequency=1s",
        "--v=2",
    ];
    let proxy = case.proxy().flags(&flags).start().await?;
    case.check("a permitted request", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    let is_reported = proxy.log().to_lowercase().contains("logtostderr");
    case.check("they are reported", "yes", if is_reported { "yes" } else { "no" });
    Ok(())
}

/// CLI-10: unknown flags, positional arguments, missing files and invalid values prevent startup.
pub async fn invalid_arguments_are_rejected(case: &Case<'_>) -> TestResult {
    for (name, flags) in [
        ("a positional argument", &["serve"][..]),
        ("an unknown flag", &["--no-such-flag=1"]),
        ("the removed --listen-address", &["--listen-address=127.0.0.1:1"]),
        ("not a number", &["--kube-api-burst=many"]),
        ("missing kubeconfig", &["--kubeconfig=/nowhere/kubeconfig"]),
        ("missing configuration file", &["--config-file=/nowhere/config.yaml"]),
        ("an issuer without an audience", &["--oidc-issuer=https://issuer.test"]),
        ("an issuer in clear text", &["--oidc-issuer=http://issuer.test", "--oidc-clientID=x"]),
        (
            "an unsupported algorithm",
            &["--oidc-issuer=https://issuer.test", "--oidc-clientID=x", "--oidc-sign-alg=HS256"],
        ),
        ("missing upstream CA file", &["--upstream-ca-file=/nowhere/ca.crt"]),
        ("an upstream without a scheme", &["--upstream=127.0.0.1:7777"]),
    ] {
        check_rejected(case, name, flags).await?;
    }
    Ok(())
}
