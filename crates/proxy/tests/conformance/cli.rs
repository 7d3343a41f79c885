//! CLI: flags, as far as behaviour shows them.

use testbed::TestResult;
use testbed::harness::wire::{Wire, frames};

use crate::ask::Ask;
use crate::case::Case;
use crate::ground::SOON;
use crate::program::PLAIN;

/// CLI-01: what holds when nothing is said.
pub async fn defaults(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    case.check("a permitted request", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    let seen = case.upstream.take();
    case.check(
        "identity headers",
        "-",
        seen.first().map_or("nothing came".into(), |one| one.shown("x-remote-user")),
    );
    case.check("a path nobody was allowed", 403, proxy.code(&Ask::get("/other").token(token)).await);
    case.check("no path is ignored", 401, proxy.code(&Ask::get("/healthz")).await);

    let mut wire = Wire::connect(proxy.plain()).await?;
    let authorization = format!("Bearer {token}");
    let lines = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "proxy.test"),
        (":path", "/ok"),
        ("authorization", authorization.as_str()),
    ];
    wire.send([frames::begin(), frames::request(1, &lines)].concat()).await?;
    let said = frames::listen(&mut wire, SOON, |said| !said.answers.is_empty()).await?;
    case.check("HTTP/2 with prior knowledge", "[(1, 200)]", format!("{:?}", said.answers));

    let disabled = case.proxy().flag("--http2-disable").start().await?;
    let mut wire = Wire::connect(disabled.plain()).await?;
    wire.send([frames::begin(), frames::request(1, &lines)].concat()).await?;
    let said = frames::listen(&mut wire, SOON, |said| !said.answers.is_empty()).await?;
    case.check("HTTP/2 when it is disabled", "[]", format!("{:?}", said.answers));

    let (outcome, _) = case.proxy().bare().flag("--version").outcome().await?;
    case.check("--version", "exit 0", outcome);
    let (outcome, _) = case.proxy().bare().flag("--help").outcome().await?;
    case.check("--help", "exit 0", outcome);
    Ok(())
}

/// CLI-02: names with underscores, values behind a space, and switches without a value.
pub async fn spellings(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let bare = case.proxy().bare();
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
    let orders = bare.flags(&flags);
    let proxy = orders.start().await?;
    crate::until_listens(address, PLAIN).await?;
    case.check("a permitted request", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    let seen = case.upstream.take();
    let user = seen.first().map_or("nothing came".into(), |one| one.shown("x-remote-user"));
    case.check("a switch without a value", case.ground.name_of("caller"), user);
    Ok(())
}

/// CLI-03: lists are split at commas, double quotes protect, and a flag said twice adds.
pub async fn lists(case: &Case<'_>) -> TestResult {
    let proxy = case
        .proxy()
        .flags(&["--ignore-paths=/one,/two", "--ignore-paths=\"/three,four\"", "--ignore-paths=/five/*"])
        .start()
        .await?;
    for (path, wanted) in [
        ("/one", 200),
        ("/two", 200),
        ("/three,four", 200),
        ("/three", 401),
        ("/five/x", 200),
        ("/five/x/y", 401),
        ("/five", 401),
    ] {
        case.check(path, wanted, proxy.code(&Ask::get(path)).await);
    }
    let proxy = case.proxy().flag("--allow-paths=/only/[a-c]?,/other\\*").start().await?;
    for (path, wanted) in
        [("/only/ax", 401), ("/only/dx", 404), ("/only/a", 404), ("/other*", 401), ("/otherwise", 404)]
    {
        case.check(&format!("allowed: {path}"), wanted, proxy.code(&Ask::get(path)).await);
    }
    let missed = proxy.ask(&Ask::get("/missed")).await?;
    case.check("the text of a miss", "404 page not found\n", missed.text());
    Ok(())
}

async fn outcome(case: &Case<'_>, name: &str, flags: &[&str]) -> TestResult {
    let (outcome, said) = case.proxy().flags(flags).outcome().await?;
    case.check(name, "exit 1", &outcome);
    if outcome.starts_with("exit") {
        case.check(&format!("{name}: it says so"), "yes", if said.trim().is_empty() { "no" } else { "yes" });
    }
    Ok(())
}

/// CLI-04.
pub async fn bad_glob(case: &Case<'_>) -> TestResult {
    outcome(case, "in --ignore-paths", &["--ignore-paths=/ok,/[a"]).await?;
    outcome(case, "in --allow-paths", &["--allow-paths=/[]"]).await
}

/// CLI-05.
pub async fn both_path_lists(case: &Case<'_>) -> TestResult {
    outcome(case, "--allow-paths and --ignore-paths", &["--allow-paths=/a", "--ignore-paths=/b"]).await
}

/// CLI-06: TLS settings that cannot be.
pub async fn tls_settings(case: &Case<'_>) -> TestResult {
    let listen = format!("--secure-listen-address={}:9443", case.proxy().address());
    for (name, flags) in [
        ("an unknown suite", &["--tls-cipher-suites=TLS_NOT_KNOWN"][..]),
        ("an unknown version", &["--tls-min-version=VersionSSL30"]),
        ("a certificate without a key", &["--tls-cert-file=/nowhere/tls.crt"]),
        (
            "files that are not there",
            &["--tls-cert-file=/nowhere/tls.crt", "--tls-private-key-file=/nowhere/tls.key"],
        ),
        ("suites that HTTP/2 forbids", &["--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]),
    ] {
        let flags: Vec<&str> = std::iter::once(listen.as_str()).chain(flags.iter().copied()).collect();
        outcome(case, name, &flags).await?;
    }
    Ok(())
}

/// CLI-07.
pub async fn rate_without_burst(case: &Case<'_>) -> TestResult {
    outcome(case, "--kube-api-qps alone", &["--kube-api-qps=50"]).await?;
    let (outcome, _) = case.proxy().flags(&["--kube-api-qps=50", "--kube-api-burst=100"]).outcome().await?;
    case.check("with --kube-api-burst", "serves", outcome);
    Ok(())
}

/// CLI-08.
pub async fn no_listen_address(case: &Case<'_>) -> TestResult {
    let upstream = format!("--upstream={}/", case.upstream.url());
    let (outcome, said) = case.proxy().bare().flag(&upstream).outcome().await?;
    case.check("no listen address", "exit 1", outcome);
    case.check("it says so", "yes", if said.contains("listen") { "yes" } else { "no" });
    Ok(())
}

/// CLI-09: flags of logging that have no effect any more are taken, and told.
pub async fn dead_flags(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
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
    case.check("a permitted request", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    let told = proxy.log().to_lowercase().contains("logtostderr");
    case.check("it tells of them", "yes", if told { "yes" } else { "no" });
    Ok(())
}

/// CLI-10: what cannot be meant ends it.
pub async fn refused_arguments(case: &Case<'_>) -> TestResult {
    for (name, flags) in [
        ("a positional argument", &["serve"][..]),
        ("an unknown flag", &["--no-such-flag=1"]),
        ("--listen-address of old", &["--listen-address=127.0.0.1:1"]),
        ("no number", &["--kube-api-burst=many"]),
        ("no credentials", &["--kubeconfig=/nowhere/kubeconfig"]),
        ("no configuration file", &["--config-file=/nowhere/config.yaml"]),
        ("an issuer without an audience", &["--oidc-issuer=https://issuer.test"]),
        ("an issuer in clear text", &["--oidc-issuer=http://issuer.test", "--oidc-clientID=x"]),
        (
            "an unknown signature",
            &["--oidc-issuer=https://issuer.test", "--oidc-clientID=x", "--oidc-sign-alg=HS256"],
        ),
        ("no upstream authority", &["--upstream-ca-file=/nowhere/ca.crt"]),
        ("an upstream that is no address", &["--upstream=127.0.0.1:7777"]),
    ] {
        outcome(case, name, flags).await?;
    }
    Ok(())
}
