//! FWD: connections to the upstream.

use std::time::{Duration, Instant};

use testbed::cluster::pki::{CertificateAuthority, ServerNames};
use testbed::fakes::recorder::{ConnectionAction, Recorder, Reply, Step};
use testbed::harness::raw_http::{RawConnection, frames};
use testbed::{Result, TestResult};

use crate::case::Case;
use crate::fixture::SOON;
use crate::proxy::{ProxyBuilder, status_text};
use crate::raw_request::RawRequest;

/// FWD-08: a truncated upstream response is not completed: the connection is closed or the stream reset.
pub async fn truncated_response_is_not_completed(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    for (name, head, body) in [
        ("a length", "Content-Length: 100\r\n", "half"),
        ("chunks", "Transfer-Encoding: chunked\r\n", "4\r\nhalf\r\n"),
    ] {
        let truncated = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}");
        case.upstream.answer(move |_| Reply::raw(truncated.clone()).then(ConnectionAction::Close));
        let proxy = case.proxy().start().await?;
        let response = proxy.send(&RawRequest::get("/ok").token(token)).await;
        // Whether the head arrives depends on timing.
        case.check(
            name,
            "broken off",
            response.map_or("broken off", |response| if response.complete { "ended" } else { "broken off" }),
        );
        let mut connection = RawConnection::connect(proxy.plain()).await?;
        let authorization = format!("Bearer {token}");
        let headers = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "proxy.test"),
            (":path", "/ok"),
            ("authorization", &authorization),
        ];
        connection.send([frames::preface(), frames::request(1, &headers)].concat()).await?;
        let server_frames =
            frames::read_until(&mut connection, SOON, |server_frames| !server_frames.resets.is_empty())
                .await?;
        case.check(
            &format!("{name}, over HTTP/2"),
            "reset",
            if server_frames.resets.is_empty() { "not reset" } else { "reset" },
        );
    }
    Ok(())
}

/// FWD-09: a client disconnect cancels the upstream request, before and during the response.
pub async fn client_disconnect_cancels_upstream_request(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|_| Reply::steps([Step::Pause(Duration::from_secs(60))]));
    let proxy = case.proxy().start().await?;
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
    case.upstream.wait_for("the request", SOON, |received| !received.is_empty()).await?;
    drop(connection);
    let disconnected = case
        .upstream
        .wait_for("the disconnect", Duration::from_secs(10), |received| received[0].abandoned)
        .await;
    case.check("before the response", true, disconnected.is_ok());
    let _ = case.upstream.take();
    case.upstream.answer(|_| {
        Reply::steps([
            Step::Write("HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n".into()),
            Step::Flood(9_999_999_999),
        ])
    });
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
    connection.read().await?;
    drop(connection);
    let disconnected = case
        .upstream
        .wait_for("the disconnect", Duration::from_secs(10), |received| received[0].abandoned)
        .await;
    case.check("during the response", true, disconnected.is_ok());
    Ok(())
}

/// FWD-10: an unreachable or invalid upstream returns 502, never 503.
pub async fn unreachable_upstream_returns_502(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let gone = Recorder::start().await?;
    let address = gone.address();
    drop(gone);
    let builder = ProxyBuilder::new(&case.fixture, case.implementation, &format!("http://{address}/"));
    let proxy = builder.flag("--ignore-paths=/open").start().await?;
    let response = proxy.send(&RawRequest::get("/ok").token(token)).await?;
    case.check("the answer", "502 []", format!("{} {:?}", response.status, response.body));
    case.check("its content type", "-", response.header("content-type").unwrap_or("-"));
    case.check("on an ignored path", 502, proxy.status(&RawRequest::get("/open")).await);
    case.check("without credentials", 401, proxy.status(&RawRequest::get("/ok")).await);
    let restarted = Recorder::start_at(address).await?;
    case.check("after a restart", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    restarted.answer(|_| Reply::raw("not HTTP\r\n\r\n").then(ConnectionAction::Close));
    case.check(
        "an upstream that does not speak HTTP",
        502,
        proxy.status(&RawRequest::get("/ok").token(token)).await,
    );
    restarted.answer(|_| Reply::steps([]).then(ConnectionAction::Close));
    case.check(
        "an upstream that closes the connection",
        502,
        proxy.status(&RawRequest::get("/ok").token(token)).await,
    );
    for upstream in ["", "unknown:80"] {
        let proxy = ProxyBuilder::new(&case.fixture, case.implementation, upstream).start().await?;
        case.check(
            &format!("--upstream={upstream:?}"),
            502,
            proxy.status(&RawRequest::get("/ok").token(token)).await,
        );
    }
    Ok(())
}

/// FWD-11: upstream connections are reused, pipelined requests are answered in order, and a slow upstream
/// does not time out.
pub async fn upstream_connections_are_reused(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    for _ in 0..20 {
        assert_eq!(proxy.status(&RawRequest::get("/ok").token(token)).await, "200");
    }
    // Each thread may keep a connection of its own.
    let threads = std::thread::available_parallelism()?.get() as u64;
    case.check("twenty requests share connections", true, case.upstream.accepted_connections() <= threads);
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    for _ in 0..5 {
        connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
        assert_eq!(connection.read_response("GET").await?.status, 200);
    }
    connection
        .send(
            [RawRequest::get("/ok/1").token(token).bytes(), RawRequest::get("/ok/2").token(token).bytes()]
                .concat(),
        )
        .await?;
    let two = (
        status_text(&connection.read_response("GET").await),
        status_text(&connection.read_response("GET").await),
    );
    case.check("two pipelined requests", "(\"200\", \"200\")", format!("{two:?}"));
    case.upstream.answer(|_| {
        Reply::steps([
            Step::Pause(Duration::from_secs(8)),
            Step::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
        ])
    });
    let start = Instant::now();
    case.check("after eight seconds", 200, proxy.status(&RawRequest::get("/ok").token(token)).await);
    assert!(start.elapsed() >= Duration::from_secs(8));
    Ok(())
}

/// FWD-12: HTTP/1.0 clients, such as some probes, get a response without chunks.
pub async fn http_1_0_clients_are_served(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().flag("--ignore-paths=/v0/healthz").start().await?;
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send("GET /v0/healthz HTTP/1.0\r\n\r\n").await?;
    let (bytes, ended) = connection.read_to_end(Duration::from_secs(5)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    case.check("the answer", "200", text.split(' ').nth(1).unwrap_or("no answer"));
    case.check("the body", "upstream", text.lines().last().unwrap_or_default());
    case.check("the connection closes", true, ended);
    case.upstream
        .answer(|_| Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send("GET /v0/healthz HTTP/1.0\r\n\r\n").await?;
    let (bytes, _) = connection.read_to_end(Duration::from_secs(5)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    case.check("no chunked encoding", "abc", text.rsplit("\r\n\r\n").next().unwrap_or_default());
    Ok(())
}

/// FWD-13: --upstream-force-h2c uses HTTP/2 in clear text.
pub async fn h2c_upstream_is_supported(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().flags(&["--upstream-force-h2c", "--auth-header-fields-enabled"]).start().await?;
    let response =
        proxy.send(&RawRequest::post("/ok?x=1", b"hello").header("X-Kept", "1").token(token)).await?;
    case.check("the answer", "200 upstream\n", format!("{} {}", response.status, response.text()));
    let received = case
        .upstream
        .wait_for("the body", SOON, |received| received.iter().any(|request| request.complete))
        .await?;
    case.check(
        "the forwarded request",
        "HTTP/2.0 POST /ok?x=1 hello",
        format!(
            "{} {} {} {}",
            received[0].version,
            received[0].method,
            received[0].target,
            String::from_utf8_lossy(&received[0].body)
        ),
    );
    case.check("the user", case.fixture.username("caller"), received[0].joined_header("x-remote-user"));
    case.check("a header", "1", received[0].joined_header("x-kept"));
    case.check("the token", "-", received[0].joined_header("authorization"));
    Ok(())
}

/// Starts an upstream with TLS.
async fn start_tls_upstream(
    clients: Option<&CertificateAuthority>,
) -> Result<(CertificateAuthority, Recorder)> {
    let ca = CertificateAuthority::new("upstream")?;
    let names = ServerNames { addresses: vec![[127, 0, 0, 1].into()], ..ServerNames::default() };
    let recorder =
        Recorder::start_tls(&ca.issue_server("upstream", &names)?, clients.map(CertificateAuthority::pem))
            .await?;
    Ok((ca, recorder))
}

/// FWD-14: a TLS upstream is verified against --upstream-ca-file, with an optional client certificate.
pub async fn tls_upstream_is_verified(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let request = RawRequest::get("/ok").token(token);
    let (ca, upstream) = start_tls_upstream(None).await?;
    let file = case.fixture.dir.path().join("upstream.crt");
    std::fs::write(&file, ca.pem())?;
    let ca_flag = format!("--upstream-ca-file={}", file.display());
    let builder = || ProxyBuilder::new(&case.fixture, case.implementation, &upstream.url());
    case.check("a trusted CA", 200, builder().flag(&ca_flag).start().await?.status(&request).await);
    case.check("an unknown CA", 502, builder().start().await?.status(&request).await);

    let clients = CertificateAuthority::new("proxies")?;
    let (ca, upstream) = start_tls_upstream(Some(&clients)).await?;
    std::fs::write(&file, ca.pem())?;
    let (certificate, key) = clients.issue_client("proxy", None)?.write(case.fixture.dir.path(), "client")?;
    let client_flags = [
        format!("--upstream-client-cert-file={}", certificate.display()),
        format!("--upstream-client-key-file={}", key.display()),
    ];
    let builder = || ProxyBuilder::new(&case.fixture, case.implementation, &upstream.url()).flag(&ca_flag);
    let proxy = builder().flag(&client_flags[0]).flag(&client_flags[1]).start().await?;
    case.check("with a client certificate", 200, proxy.status(&request).await);
    case.check(
        "the upstream received it",
        true,
        upstream.take().first().is_some_and(|request| request.has_client_certificate),
    );
    case.check("without a client certificate", 502, builder().start().await?.status(&request).await);
    Ok(())
}

/// FWD-15: an idle upstream connection is closed before the sidecar closes it at 60 s.
pub async fn idle_upstream_connections_close_within_58s(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    assert_eq!(proxy.status(&RawRequest::get("/ok").token(token)).await, "200");
    let start = Instant::now();
    let closed = testbed::harness::wait::until("a closed connection", Duration::from_secs(58), || async {
        if case.upstream.open_connections() == 0 { Ok(()) } else { Err("the connection is open") }
    })
    .await;
    println!("open for {:?}", start.elapsed());
    case.check("closed within 58 s", true, closed.is_ok());
    Ok(())
}
