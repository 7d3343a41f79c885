//! The proxy as a process, before a real API server, with real tokens, certificates and RBAC: that it stands. What it does in every
//! case is shown by the conformance suite.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod caller;
mod ground;
mod upstream;

use std::time::Duration;

use serde_json::Value;
use testbed::cluster::pki::{Authority, ServerNames};
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::caller::{Call, names_of};
use crate::ground::{Ground, SOON};
use crate::upstream::Upstream;

testbed::suite![
    a_known_caller_is_forwarded_and_nobody_else,
    a_token_of_another_audience_is_of_no_use,
    an_api_server_that_is_down_is_told_as_wanted,
    a_dead_upstream_is_502,
    a_client_certificate_names_its_user,
    a_new_certificate_is_served_and_a_bad_one_is_not,
    wrong_flags_are_all_told_at_once,
    answers_that_do_not_come_hold_up_nobody,
    a_signal_lets_requests_under_way_end,
];

async fn a_known_caller_is_forwarded_and_nobody_else(cx: Context) -> TestResult {
    let ground = Ground::on(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = ground
        .proxy("plain")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/open")
        .flag("auth-header-fields-enabled", "true")
        .flag("metrics-listen-address", "127.0.0.1:0")
        .flag("access-log", "true")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    let good = ground.token("reader", "/metrics").await?;
    let poor = ground.token("stranger", "").await?;

    let answer = Call::get("/metrics").token(&good).header("x-remote-user", "root").to(&address).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let seen: Value = serde_json::from_str(&answer.body)?;
    let user = format!("system:serviceaccount:{}:reader", ground.namespace);
    assert_eq!(seen["x-remote-user"], Value::from(user), "exactly one line, and ours: {seen}");
    assert!(
        seen["x-remote-groups"].as_str().is_some_and(|groups| groups.contains("system:authenticated")),
        "{seen}"
    );
    assert_eq!(seen["authorization"], Value::Null, "the token goes no further: {seen}");
    assert_eq!(seen["x-forwarded-for"], "127.0.0.1");

    assert_eq!(Call::get("/metrics").to(&address).await?.status, 401);
    assert_eq!(Call::get("/metrics").token("garbage").to(&address).await?.status, 401);
    let denied = Call::get("/metrics").token(&poor).to(&address).await?;
    let says = format!(
        "Forbidden (user=system:serviceaccount:{}:stranger, verb=get, resource=, subresource=)\n",
        ground.namespace
    );
    assert_eq!((denied.status, denied.body), (403, says));
    let open = Call::get("/open").header("x-remote-user", "root").token(&good).to(&address).await?;
    let seen: Value = serde_json::from_str(&open.body)?;
    assert_eq!(
        (open.status, &seen["x-remote-user"], &seen["authorization"]),
        (200, &Value::Null, &Value::Null)
    );
    assert_eq!(Call::get("/metrics/%2e%2e/open").token(&good).to(&address).await?.status, 400);

    // W4: neither h2c nor, on ignored paths, anything else reaches the upstream.
    for (path, protocol) in [("/metrics", "h2c"), ("/metrics", "anything"), ("/open", "websocket")] {
        let answer = Call::get(path).token(&good).header("Connection", "Upgrade, HTTP2-Settings");
        let answer =
            answer.header("Upgrade", protocol).header("HTTP2-Settings", "AAMAAABk").to(&address).await?;
        let seen: Value = serde_json::from_str(&answer.body)?;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(
            (&seen["upgrade"], &seen["http2-settings"]),
            (&Value::Null, &Value::Null),
            "{protocol}: {seen}"
        );
    }

    let metrics = Call::get("/metrics").to(&proxy.address("metrics-listen-address").await?).await?.body;
    // However many asked, each token was asked about once, and each decision too.
    for sample in [
        r#"outrigger_proxy_requests_total{decision="allowed",reason="authorized"} 3"#,
        r#"outrigger_proxy_reviews_total{review="TokenReview",result="answered"} 3"#,
        r#"outrigger_proxy_reviews_total{review="SubjectAccessReview",result="answered"} 2"#,
    ] {
        assert!(metrics.contains(sample), "{sample} is not in\n{metrics}");
    }
    let log = proxy.log();
    assert!(log.contains(r#""decision":"forbidden""#), "{log}");
    assert!(!log.contains(&good) && !log.contains(&poor), "a token is in the log");
    Ok(())
}

/// W12: what is captured here is of no use elsewhere, nor the other way round. W17: the upstream hears the host that it was told.
async fn a_token_of_another_audience_is_of_no_use(cx: Context) -> TestResult {
    let ground = Ground::on(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = ground
        .proxy("audience")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("auth-token-audiences", "sidecar.sei.io,other")
        .flag("upstream-host-header", "pinned")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    let of_api_server = ground.token("reader", "/metrics").await?;
    let ours = ground.token_for("reader", "sidecar.sei.io").await?;
    let answer = Call::get("/metrics").token(&ours).to(&address).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let seen: Value = serde_json::from_str(&answer.body)?;
    assert_eq!(seen["host"], "pinned");
    assert_eq!(Call::get("/metrics").token(&of_api_server).to(&address).await?.status, 401);
    // Whoever captures the one cannot use it at the API server, where the other is good.
    let api_server = ground.api_server();
    for (token, status) in [(&ours, 401), (&of_api_server, 200)] {
        assert_eq!(Call::get("/version").tls().token(token).to(&api_server).await?.status, status);
    }
    Ok(())
}

/// W13.
async fn an_api_server_that_is_down_is_told_as_wanted(cx: Context) -> TestResult {
    let ground = Ground::on(&cx).await?;
    let upstream = Upstream::start().await?;
    let nowhere = ground.logs.join("nowhere.kubeconfig");
    std::fs::write(&nowhere, ground.kubeconfig_at("https://127.0.0.1:1"))?;
    for (status, name) in [(401, "told-401"), (503, "told-503")] {
        let proxy = ground
            .proxy(name)
            .flag("insecure-listen-address", "127.0.0.1:0")
            .flag("upstream", upstream.url())
            .flag("kubeconfig", nowhere.display())
            .flag("authentication-outage-status", status)
            .start()?;
        let address = proxy.address("insecure-listen-address").await?;
        let answer = Call::get("/metrics").token("whatever").to(&address).await?;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    Ok(())
}

async fn a_dead_upstream_is_502(cx: Context) -> TestResult {
    let ground = Ground::on(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = ground
        .proxy("dead")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/open")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    assert_eq!(Call::get("/open").to(&address).await?.status, 200);
    upstream.stop().await;
    wait::until("502 of a dead upstream", SOON, || async {
        let answer = Call::get("/open").to(&address).await.map_err(|error| error.to_string())?;
        if (answer.status, answer.body.as_str()) == (502, "") { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await?;
    Ok(())
}

async fn a_client_certificate_names_its_user(cx: Context) -> TestResult {
    let ground = Ground::on(&cx).await?;
    let upstream = Upstream::start().await?;
    let authority = Authority::new("clients")?;
    std::fs::write(ground.logs.join("clients.crt"), authority.pem())?;
    let user = format!("certified-{}", ground.namespace);
    ground.allow_user(&user, "/metrics").await?;
    let proxy = ground
        .proxy("certificates")
        .flag("secure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("client-ca-file", ground.logs.join("clients.crt").display())
        .flag("auth-header-fields-enabled", "true")
        .start()?;
    let address = proxy.address("secure-listen-address").await?;
    let good = Call::get("/metrics").certificate(authority.client(&user, Some("team"))?).to(&address).await?;
    assert_eq!(good.status, 200, "{good:?}");
    let seen: Value = serde_json::from_str(&good.body)?;
    assert_eq!(seen["x-remote-user"], Value::from(user.clone()));
    assert_eq!(seen["x-remote-groups"], "team|system:authenticated");
    let stranger = Authority::new("strangers")?.client(&user, None)?;
    assert_eq!(Call::get("/metrics").certificate(stranger).to(&address).await?.status, 401);
    assert_eq!(Call::get("/metrics").tls().to(&address).await?.status, 401);
    Ok(())
}

async fn a_new_certificate_is_served_and_a_bad_one_is_not(cx: Context) -> TestResult {
    let ground = Ground::on(&cx).await?;
    let upstream = Upstream::start().await?;
    let authority = Authority::new("servers")?;
    let write = |name: &str| -> Result<(), testbed::Error> {
        let names = ServerNames { dns: vec!["proxy".into()], addresses: Vec::new() };
        authority.server(name, &names)?.write(&ground.logs, "serving").map(drop)
    };
    write("first")?;
    let proxy = ground
        .proxy("reload")
        .flag("secure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("tls-cert-file", ground.logs.join("serving.crt").display())
        .flag("tls-private-key-file", ground.logs.join("serving.key").display())
        .flag("tls-reload-interval", "100ms")
        .start()?;
    let address = proxy.address("secure-listen-address").await?;
    assert_eq!(names_of(&address).await?, "CN=first");
    write("second")?;
    wait::until("the second certificate", SOON, || async {
        let name = names_of(&address).await.map_err(|error| error.to_string())?;
        if name == "CN=second" { Ok(()) } else { Err(name) }
    })
    .await?;
    std::fs::write(ground.logs.join("serving.crt"), "nonsense")?;
    proxy.until_told(&["cannot be used; the old one stays", "serving certificate"]).await?;
    assert_eq!(names_of(&address).await?, "CN=second");
    write("third")?;
    wait::until("the third certificate", SOON, || async {
        let name = names_of(&address).await.map_err(|error| error.to_string())?;
        if name == "CN=third" { Ok(()) } else { Err(name) }
    })
    .await?;
    Ok(())
}

async fn wrong_flags_are_all_told_at_once(_: Context) -> TestResult {
    let output = std::process::Command::new(testbed::harness::binaries::path("outrigger")?)
        .args(["proxy", "--allow_paths=[", "--http2-max-size=x"])
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines.iter().all(|line| line.starts_with("Error: ")), "{told}");
    let output = std::process::Command::new(testbed::harness::binaries::path("outrigger")?)
        .args(["proxy", "--nonsense"])
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && told.starts_with("Error: ") && told.contains("--nonsense"),
        "{told}"
    );
    Ok(())
}

/// More than go on without a wait: all of them reach the upstream nevertheless, and others too.
async fn answers_that_do_not_come_hold_up_nobody(cx: Context) -> TestResult {
    const SLOW: usize = 300;
    let ground = Ground::on(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = ground
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
        slow.spawn(async move { Call::get("/slow").to(&address).await.map_err(|error| error.to_string()) });
    }
    upstream.until_asked("/slow", SLOW).await?;
    let quick = tokio::time::timeout(SOON, Call::get("/quick").to(&address)).await??;
    assert_eq!(quick.status, 200);
    let metrics = Call::get("/metrics").to(&proxy.address("metrics-listen-address").await?).await?.body;
    let waits = metrics.lines().find_map(|line| line.strip_prefix("outrigger_proxy_upstream_waits_total "));
    assert!(waits.is_some_and(|count| count != "0"), "nobody has waited, and nothing was shown:\n{metrics}");
    upstream.release();
    while let Some(answer) = slow.join_next().await {
        assert_eq!(answer??.status, 200);
    }
    Ok(())
}

async fn a_signal_lets_requests_under_way_end(cx: Context) -> TestResult {
    let ground = Ground::on(&cx).await?;
    let upstream = Upstream::start().await?;
    let proxy = ground
        .proxy("drain")
        .flag("insecure-listen-address", "127.0.0.1:0")
        .flag("upstream", upstream.url())
        .flag("ignore-paths", "/*")
        .flag("drain-timeout", "20s")
        .start()?;
    let address = proxy.address("insecure-listen-address").await?;
    let slow = tokio::spawn({
        let address = address.clone();
        async move { Call::get("/slow").to(&address).await.map_err(|error| error.to_string()) }
    });
    upstream.until_asked("/slow", 1).await?;
    proxy.process.signal(rustix::process::Signal::TERM)?;
    proxy.until_told(&["draining"]).await?;
    wait::until("nobody to listen", SOON, || async {
        match tokio::net::TcpStream::connect(&address).await {
            Ok(_) => Err("somebody listens"),
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
