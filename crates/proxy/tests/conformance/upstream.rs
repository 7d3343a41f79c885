//! FWD: the connections to the upstream, and what becomes of them.

use std::time::{Duration, Instant};

use testbed::cluster::pki::{Authority, ServerNames};
use testbed::fakes::recorder::{After, Recorder, Reply, Step};
use testbed::harness::wire::{Wire, frames};
use testbed::{Result, TestResult};

use crate::ask::Ask;
use crate::case::Case;
use crate::ground::SOON;
use crate::program::{Orders, code};

/// FWD-08: an answer that breaks off is not ended as if it were whole.
pub async fn broken_off(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    for (name, head, body) in [
        ("a length", "Content-Length: 100\r\n", "half"),
        ("chunks", "Transfer-Encoding: chunked\r\n", "4\r\nhalf\r\n"),
    ] {
        let whole = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}");
        case.upstream.answer(move |_| Reply::raw(whole.clone()).then(After::Close));
        let proxy = case.proxy().start().await?;
        let answer = proxy.ask(&Ask::get("/ok").token(token)).await;
        // Whether its head was heard is a matter of time.
        case.check(
            name,
            "broken off",
            answer.map_or("broken off", |one| if one.complete { "ended" } else { "broken off" }),
        );
        let mut wire = Wire::connect(proxy.plain()).await?;
        let authorization = format!("Bearer {token}");
        let lines = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "proxy.test"),
            (":path", "/ok"),
            ("authorization", &authorization),
        ];
        wire.send([frames::begin(), frames::request(1, &lines)].concat()).await?;
        let said = frames::listen(&mut wire, SOON, |said| !said.resets.is_empty()).await?;
        case.check(
            &format!("{name}, over HTTP/2"),
            "reset",
            if said.resets.is_empty() { "not reset" } else { "reset" },
        );
    }
    Ok(())
}

/// FWD-09: a client that goes away is not worked for any longer.
pub async fn a_client_that_goes(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|_| Reply::steps([Step::Pause(Duration::from_secs(60))]));
    let proxy = case.proxy().start().await?;
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(Ask::get("/ok").token(token).bytes()).await?;
    case.upstream.until("the request", SOON, |seen| !seen.is_empty()).await?;
    drop(wire);
    let gone = case.upstream.until("its end", Duration::from_secs(10), |seen| seen[0].abandoned).await;
    case.check("before an answer", true, gone.is_ok());
    let _ = case.upstream.take();
    case.upstream.answer(|_| {
        Reply::steps([
            Step::Write("HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n".into()),
            Step::Flood(9_999_999_999),
        ])
    });
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(Ask::get("/ok").token(token).bytes()).await?;
    wire.read().await?;
    drop(wire);
    let gone = case.upstream.until("its end", Duration::from_secs(10), |seen| seen[0].abandoned).await;
    case.check("within an answer", true, gone.is_ok());
    Ok(())
}

/// FWD-10: an upstream that is not there is 502, never 503.
pub async fn no_upstream(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let gone = Recorder::start().await?;
    let address = gone.address();
    drop(gone);
    let orders = Orders::new(&case.ground, case.target, &format!("http://{address}/"));
    let proxy = orders.flag("--ignore-paths=/open").start().await?;
    let answer = proxy.ask(&Ask::get("/ok").token(token)).await?;
    case.check("the answer", "502 []", format!("{} {:?}", answer.status, answer.body));
    case.check("its content type", "-", answer.header("content-type").unwrap_or("-"));
    case.check("on an open path", 502, proxy.code(&Ask::get("/open")).await);
    case.check("who may not", 401, proxy.code(&Ask::get("/ok")).await);
    let back = Recorder::at(address).await?;
    case.check("when it is back", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    back.answer(|_| Reply::raw("no HTTP at all\r\n\r\n").then(After::Close));
    case.check("one that speaks no HTTP", 502, proxy.code(&Ask::get("/ok").token(token)).await);
    back.answer(|_| Reply::steps([]).then(After::Close));
    case.check("one that hangs up", 502, proxy.code(&Ask::get("/ok").token(token)).await);
    for upstream in ["", "unknown:80"] {
        let proxy = Orders::new(&case.ground, case.target, upstream).start().await?;
        case.check(&format!("--upstream={upstream:?}"), 502, proxy.code(&Ask::get("/ok").token(token)).await);
    }
    Ok(())
}

/// FWD-11: a slow upstream is waited for, and a connection to it is used again.
pub async fn slow_and_again(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    for _ in 0..20 {
        assert_eq!(proxy.code(&Ask::get("/ok").token(token)).await, "200");
    }
    // Each thread may keep one of its own.
    let processors = std::thread::available_parallelism()?.get() as u64;
    case.check("connections for twenty requests are few", true, case.upstream.connections() <= processors);
    let mut wire = Wire::connect(proxy.plain()).await?;
    for _ in 0..5 {
        wire.send(Ask::get("/ok").token(token).bytes()).await?;
        assert_eq!(wire.answer("GET").await?.status, 200);
    }
    wire.send([Ask::get("/ok/1").token(token).bytes(), Ask::get("/ok/2").token(token).bytes()].concat())
        .await?;
    let two = (code(&wire.answer("GET").await), code(&wire.answer("GET").await));
    case.check("two in one breath", "(\"200\", \"200\")", format!("{two:?}"));
    case.upstream.answer(|_| {
        Reply::steps([
            Step::Pause(Duration::from_secs(8)),
            Step::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
        ])
    });
    let begin = Instant::now();
    case.check("after eight seconds", 200, proxy.code(&Ask::get("/ok").token(token)).await);
    assert!(begin.elapsed() >= Duration::from_secs(8));
    Ok(())
}

/// FWD-12: a client of HTTP/1.0, as some probes are.
pub async fn old_clients(case: &Case<'_>) -> TestResult {
    let proxy = case.proxy().flag("--ignore-paths=/v0/healthz").start().await?;
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send("GET /v0/healthz HTTP/1.0\r\n\r\n").await?;
    let (bytes, ended) = wire.rest(Duration::from_secs(5)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    case.check("the answer", "200", text.split(' ').nth(1).unwrap_or("no answer"));
    case.check("the body", "upstream", text.lines().last().unwrap_or_default());
    case.check("the end", true, ended);
    case.upstream
        .answer(|_| Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send("GET /v0/healthz HTTP/1.0\r\n\r\n").await?;
    let (bytes, _) = wire.rest(Duration::from_secs(5)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    case.check("no chunks for it", "abc", text.rsplit("\r\n\r\n").next().unwrap_or_default());
    Ok(())
}

/// FWD-13: HTTP/2 in clear text to the upstream.
pub async fn to_h2c(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().flags(&["--upstream-force-h2c", "--auth-header-fields-enabled"]).start().await?;
    let answer = proxy.ask(&Ask::post("/ok?x=1", b"hello").header("X-Kept", "1").token(token)).await?;
    case.check("the answer", "200 upstream\n", format!("{} {}", answer.status, answer.text()));
    let seen = case.upstream.until("the body", SOON, |seen| seen.iter().any(|one| one.complete)).await?;
    case.check(
        "what came",
        "HTTP/2.0 POST /ok?x=1 hello",
        format!(
            "{} {} {} {}",
            seen[0].version,
            seen[0].method,
            seen[0].target,
            String::from_utf8_lossy(&seen[0].body)
        ),
    );
    case.check("the user", case.ground.name_of("caller"), seen[0].shown("x-remote-user"));
    case.check("a header", "1", seen[0].shown("x-kept"));
    case.check("the token", "-", seen[0].shown("authorization"));
    Ok(())
}

async fn encrypted(clients: Option<&Authority>) -> Result<(Authority, Recorder)> {
    let authority = Authority::new("upstream")?;
    let names = ServerNames { addresses: vec![[127, 0, 0, 1].into()], ..ServerNames::default() };
    let recorder =
        Recorder::encrypted(&authority.server("upstream", &names)?, clients.map(Authority::pem)).await?;
    Ok((authority, recorder))
}

/// FWD-14: TLS to the upstream: whom the proxy believes, and what it shows.
pub async fn to_tls(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let ask = Ask::get("/ok").token(token);
    let (authority, upstream) = encrypted(None).await?;
    let file = case.ground.folder.path().join("upstream.crt");
    std::fs::write(&file, authority.pem())?;
    let trusting = format!("--upstream-ca-file={}", file.display());
    let orders = || Orders::new(&case.ground, case.target, &upstream.url());
    case.check("its authority is known", 200, orders().flag(&trusting).start().await?.code(&ask).await);
    case.check("its authority is not known", 502, orders().start().await?.code(&ask).await);

    let clients = Authority::new("proxies")?;
    let (authority, upstream) = encrypted(Some(&clients)).await?;
    std::fs::write(&file, authority.pem())?;
    let (certificate, key) = clients.client("proxy", None)?.write(case.ground.folder.path(), "client")?;
    let showing = [
        format!("--upstream-client-cert-file={}", certificate.display()),
        format!("--upstream-client-key-file={}", key.display()),
    ];
    let orders = || Orders::new(&case.ground, case.target, &upstream.url()).flag(&trusting);
    let proxy = orders().flag(&showing[0]).flag(&showing[1]).start().await?;
    case.check("with a certificate", 200, proxy.code(&ask).await);
    case.check("it was shown", true, upstream.take().first().is_some_and(|one| one.certificate));
    case.check("without one", 502, orders().start().await?.code(&ask).await);
    Ok(())
}

/// FWD-15: an idle connection to the upstream is given up before a sidecar does so after sixty seconds.
pub async fn idle_upstream_connections(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    assert_eq!(proxy.code(&Ask::get("/ok").token(token)).await, "200");
    let begin = Instant::now();
    let closed = testbed::harness::wait::until("its end", Duration::from_secs(58), || async {
        if case.upstream.open() == 0 { Ok(()) } else { Err("it is open") }
    })
    .await;
    println!("open for {:?}", begin.elapsed());
    case.check("closed within 58 s", true, closed.is_ok());
    Ok(())
}
