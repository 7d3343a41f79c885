//! Smoke tests of the proxy process against a real API server, with real tokens, certificates and RBAC. The
//! conformance suite covers the details.

#![allow(
    clippy::expect_used,
    reason = "tests may panic; clippy only recognizes those of the default harness"
)]

mod caller;
mod fixture;
mod hardening;
mod probes;
mod subresource;
mod unix;
mod upstream;

use std::time::Duration;

use serde_json::Value;
use testbed::cluster::pki::{CertificateAuthority, ServerNames};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::caller::{Call, served_subject};
use crate::fixture::{Fixture, SOON};
use crate::upstream::Upstream;

testbed::suite![
    only_authorized_callers_are_forwarded,
    token_with_wrong_audience_is_rejected,
    api_server_outage_returns_configured_status,
    dead_upstream_returns_502,
    client_certificate_authenticates_user,
    certificate_reload_skips_invalid_files,
    invalid_flags_are_reported_together,
    stalled_responses_do_not_block_other_requests,
    sigterm_drains_requests_in_flight,
    unix::unix_upstream_is_used_like_a_tcp_upstream,
    unix::host_header_over_unix_socket_is_the_clients,
    unix::websocket_is_tunneled_over_unix_socket,
    unix::missing_unix_socket_returns_502_until_it_exists,
    unix::relative_unix_upstream_is_rejected_at_start,
    subresource::task_kind_is_authorized_as_subresource,
    subresource::bad_subresource_header_returns_400,
    hardening::other_process_of_same_user_cannot_read_the_proxy,
    probes::probes_are_answered_beside_idle_connections,
    probes::probes_are_answered_beside_slow_heads,
    probes::probes_are_answered_beside_stalled_bodies,
    probes::probes_are_answered_beside_invalid_tokens,
    probes::probes_are_answered_beside_slow_responses,
    probes::probes_are_answered_beside_stalled_handshakes,
    probes::probes_are_answered_while_connections_flood_in,
    probes::request_above_the_limit_waits_for_a_connection_to_close,
];

async fn only_authorized_callers_are_forwarded(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = fixture
        .proxy("plain")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/open")
        .flag("auth-header-fields-enabled", "true")
        .flag("metrics-listen-address", "127.0.0.1:0")
        .flag("access-log", "true")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    let good = fixture.token("reader", "/metrics").await?;
    let unauthorized = fixture.token("stranger", "").await?;

    let response =
        Call::get("/metrics").token(&good).header("x-remote-user", "root").send_to(&address).await?;
    assert_eq!(response.status, 200, "{response:?}");
    let received: Value = serde_json::from_str(&response.body)?;
    let user = format!("system:serviceaccount:{}:reader", fixture.namespace);
    assert_eq!(
        received["x-remote-user"],
        Value::from(user),
        "exactly one value, set by the proxy: {received}"
    );
    assert!(
        received["x-remote-groups"].as_str().is_some_and(|groups| groups.contains("system:authenticated")),
        "{received}"
    );
    assert_eq!(received["authorization"], Value::Null, "the token is not forwarded: {received}");
    assert_eq!(received["x-forwarded-for"], "127.0.0.1");

    assert_eq!(Call::get("/metrics").send_to(&address).await?.status, 401);
    assert_eq!(Call::get("/metrics").token("garbage").send_to(&address).await?.status, 401);
    let denied = Call::get("/metrics").token(&unauthorized).send_to(&address).await?;
    let expected = format!(
        "Forbidden (user=system:serviceaccount:{}:stranger, verb=get, resource=, subresource=)\n",
        fixture.namespace
    );
    assert_eq!((denied.status, denied.body), (403, expected));
    let open = Call::get("/open").header("x-remote-user", "root").token(&good).send_to(&address).await?;
    let received: Value = serde_json::from_str(&open.body)?;
    assert_eq!(
        (open.status, &received["x-remote-user"], &received["authorization"]),
        (200, &Value::Null, &Value::Null)
    );
    assert_eq!(Call::get("/metrics/%2e%2e/open").token(&good).send_to(&address).await?.status, 400);

    // Neither h2c nor, on ignored paths, any other upgrade reaches the upstream.
    for (path, protocol) in [("/metrics", "h2c"), ("/metrics", "anything"), ("/open", "websocket")] {
        let response = Call::get(path).token(&good).header("Connection", "Upgrade, HTTP2-Settings");
        let response = response
            .header("Upgrade", protocol)
            .header("HTTP2-Settings", "AAMAAABk")
            .send_to(&address)
            .await?;
        let received: Value = serde_json::from_str(&response.body)?;
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(
            (&received["upgrade"], &received["http2-settings"]),
            (&Value::Null, &Value::Null),
            "{protocol}: {received}"
        );
    }

    let metrics = Call::get("/metrics").send_to(&proxy.address("metrics-listen-address").await?).await?.body;
    // Each token and each decision was reviewed once, however many requests used it.
    for sample in [
        r#"outrigger_proxy_requests_total{decision="allowed",reason="authorized"} 3"#,
        r#"outrigger_proxy_reviews_total{review="TokenReview",result="answered"} 3"#,
        r#"outrigger_proxy_reviews_total{review="SubjectAccessReview",result="answered"} 2"#,
    ] {
        assert!(metrics.contains(sample), "{sample} is not in\n{metrics}");
    }
    let log = proxy.log();
    assert!(log.contains(r#""decision":"forbidden""#), "{log}");
    assert!(!log.contains(&good) && !log.contains(&unauthorized), "the log contains a token");
    Ok(())
}

/// A token captured here is useless elsewhere, and the other way round. The upstream receives the pinned
/// host.
async fn token_with_wrong_audience_is_rejected(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = fixture
        .proxy("audience")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("auth-token-audiences", "sidecar.sei.io,other")
        .flag("upstream-host-header", "pinned")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    let api_server_token = fixture.token("reader", "/metrics").await?;
    let sidecar_token = fixture.token_for("reader", "sidecar.sei.io").await?;
    let response = Call::get("/metrics").token(&sidecar_token).send_to(&address).await?;
    assert_eq!(response.status, 200, "{response:?}");
    let received: Value = serde_json::from_str(&response.body)?;
    assert_eq!(received["host"], "pinned");
    assert_eq!(Call::get("/metrics").token(&api_server_token).send_to(&address).await?.status, 401);
    // The API server rejects the first token and accepts the second.
    let api_server = fixture.api_server();
    for (token, status) in [(&sidecar_token, 401), (&api_server_token, 200)] {
        assert_eq!(Call::get("/version").tls().token(token).send_to(&api_server).await?.status, status);
    }
    Ok(())
}

async fn api_server_outage_returns_configured_status(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let unreachable = fixture.logs.join("unreachable.kubeconfig");
    std::fs::write(&unreachable, fixture.kubeconfig_at("https://127.0.0.1:1"))?;
    for (status, name) in [(401, "outage-401"), (503, "outage-503")] {
        let proxy = fixture
            .proxy(name)
            .flag("insecure-listen-address", "127.0.0.1:0")
            .flag("upstream", upstream.url())
            .flag("kubeconfig", unreachable.display())
            .flag("authentication-outage-status", status)
            .start()?;
        let address = proxy.address("insecure-listen-address").await?;
        let response = Call::get("/metrics").token("whatever").send_to(&address).await?;
        assert_eq!(response.status, status, "{response:?}");
    }
    Ok(())
}

async fn dead_upstream_returns_502(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = fixture
        .proxy("dead")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/open")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    assert_eq!(Call::get("/open").send_to(&address).await?.status, 200);
    upstream.stop().await;
    wait::until("502 for a dead upstream", SOON, || async {
        let response = Call::get("/open").send_to(&address).await.map_err(|error| error.to_string())?;
        if (response.status, response.body.as_str()) == (502, "") {
            Ok(())
        } else {
            Err(format!("{response:?}"))
        }
    })
    .await?;
    Ok(())
}

async fn client_certificate_authenticates_user(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let ca = CertificateAuthority::new("clients")?;
    std::fs::write(fixture.logs.join("clients.crt"), ca.pem())?;
    let user = format!("certified-{}", fixture.namespace);
    fixture.allow_user(&user, "/metrics").await?;
    let proxy = fixture
        .proxy("certificates")
        .flag("secure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("client-ca-file", fixture.logs.join("clients.crt").display())
        .flag("auth-header-fields-enabled", "true")
        .start()?;
    let address = proxy.address("secure-listen-address").await?;
    let good =
        Call::get("/metrics").certificate(ca.issue_client(&user, Some("team"))?).send_to(&address).await?;
    assert_eq!(good.status, 200, "{good:?}");
    let received: Value = serde_json::from_str(&good.body)?;
    assert_eq!(received["x-remote-user"], Value::from(user.clone()));
    assert_eq!(received["x-remote-groups"], "team|system:authenticated");
    let stranger = CertificateAuthority::new("strangers")?.issue_client(&user, None)?;
    assert_eq!(Call::get("/metrics").certificate(stranger).send_to(&address).await?.status, 401);
    assert_eq!(Call::get("/metrics").tls().send_to(&address).await?.status, 401);
    Ok(())
}

async fn certificate_reload_skips_invalid_files(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let ca = CertificateAuthority::new("servers")?;
    let write = |name: &str| -> Result<(), testbed::Error> {
        let names = ServerNames { dns: vec!["proxy".into()], addresses: Vec::new() };
        ca.issue_server(name, &names)?.write(&fixture.logs, "serving").map(drop)
    };
    write("first")?;
    let proxy = fixture
        .proxy("reload")
        .flag("secure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("tls-cert-file", fixture.logs.join("serving.crt").display())
        .flag("tls-private-key-file", fixture.logs.join("serving.key").display())
        .flag("tls-reload-interval", "100ms")
        .start()?;
    let address = proxy.address("secure-listen-address").await?;
    assert_eq!(served_subject(&address).await?, "CN=first");
    write("second")?;
    wait::until("the second certificate", SOON, || async {
        let name = served_subject(&address).await.map_err(|error| error.to_string())?;
        if name == "CN=second" { Ok(()) } else { Err(name) }
    })
    .await?;
    std::fs::write(fixture.logs.join("serving.crt"), "nonsense")?;
    proxy.wait_for_log(&["file reload failed; keeping the previous content", "serving certificate"]).await?;
    assert_eq!(served_subject(&address).await?, "CN=second");
    write("third")?;
    wait::until("the third certificate", SOON, || async {
        let name = served_subject(&address).await.map_err(|error| error.to_string())?;
        if name == "CN=third" { Ok(()) } else { Err(name) }
    })
    .await?;
    Ok(())
}

async fn invalid_flags_are_reported_together(_: Context) -> TestResult {
    let output = std::process::Command::new(testbed::harness::binaries::path("outrigger")?)
        .args(["proxy", "--allow_paths=[", "--http2-max-size=x"])
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{stderr}");
    assert!(lines.iter().all(|line| line.starts_with("Error: ")), "{stderr}");
    let output = std::process::Command::new(testbed::harness::binaries::path("outrigger")?)
        .args(["proxy", "--nonsense"])
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && stderr.starts_with("Error: ") && stderr.contains("--nonsense"),
        "{stderr}"
    );
    Ok(())
}

/// More requests than the concurrency limit: all of them reach the upstream, and other requests too.
async fn stalled_responses_do_not_block_other_requests(cx: Context) -> TestResult {
    const SLOW: usize = 300;
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = fixture
        .proxy("slow")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/*")
        .flag("metrics-listen-address", "127.0.0.1:0")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..SLOW {
        let address = address.clone();
        slow.spawn(
            async move { Call::get("/slow").send_to(&address).await.map_err(|error| error.to_string()) },
        );
    }
    upstream.wait_for_requests("/slow", SLOW).await?;
    let quick = tokio::time::timeout(SOON, Call::get("/quick").send_to(&address)).await??;
    assert_eq!(quick.status, 200);
    let metrics = Call::get("/metrics").send_to(&proxy.address("metrics-listen-address").await?).await?.body;
    let waits = metrics.lines().find_map(|line| line.strip_prefix("outrigger_proxy_upstream_waits_total "));
    assert!(
        waits.is_some_and(|count| count != "0"),
        "no request waited, so the test shows nothing:\n{metrics}"
    );
    upstream.release();
    while let Some(response) = slow.join_next().await {
        assert_eq!(response??.status, 200);
    }
    Ok(())
}

async fn sigterm_drains_requests_in_flight(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = fixture
        .proxy("drain")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/*")
        .flag("drain-timeout", "20s")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    let slow = tokio::spawn({
        let address = address.clone();
        async move { Call::get("/slow").send_to(&address).await.map_err(|error| error.to_string()) }
    });
    upstream.wait_for_requests("/slow", 1).await?;
    proxy.process.signal(rustix::process::Signal::TERM)?;
    proxy.wait_for_log(&["draining"]).await?;
    wait::until("the listener to close", SOON, || async {
        match tokio::net::TcpStream::connect(&address).await {
            Ok(_) => Err("still listening"),
            Err(_) => Ok(()),
        }
    })
    .await?;
    upstream.release();
    assert_eq!(slow.await??.status, 200);
    let ended = proxy.process.stop(Duration::from_secs(10))?;
    assert_eq!(ended.code(), Some(0));
    Ok(())
}
