//! FWD: what is forwarded, and how.

use std::sync::Arc;
use std::time::{Duration, Instant};

use testbed::pki::{Authority, ServerNames};
use testbed::recorder::{After, Recorder, Reply, Step};
use testbed::wire::Wire;
use testbed::{Result, TestResult};
use tokio::sync::Notify;

use crate::ask::Ask;
use crate::case::Case;
use crate::ground::SOON;
use crate::program::{Orders, code};

/// How much is sent where memory must stay flat: a gibibyte in the whole suite, less of it beside other tests.
fn much() -> u64 {
    if crate::is_whole() { 1 << 30 } else { 48 << 20 }
}

/// FWD-01: the upstream's own path and query come first.
pub async fn joined_addresses(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    for (upstream, target, wanted) in [
        ("", "/ok", "/ok"),
        ("/", "/ok", "/ok"),
        ("/base", "/ok", "/base/ok"),
        ("/base/", "/ok", "/base/ok"),
        ("/base/?a=1", "/ok?b=2", "/base/ok?a=1&b=2"),
        ("/base?a=1", "/ok", "/base/ok?a=1"),
        ("/b%20c/", "/ok/%41", "/b%20c/ok/%41"),
    ] {
        let orders = Orders::new(&case.ground, case.target, &format!("{}{upstream}", case.upstream.url()));
        let proxy = orders.start().await?;
        let _ = case.upstream.take();
        proxy.code(&Ask::get(target).token(token)).await;
        let seen = case.upstream.take().first().map_or("nothing came".into(), |one| one.target.clone());
        case.check(&format!("{upstream:?} and {target:?}"), wanted, seen);
    }
    Ok(())
}

/// FWD-02: a query is not read, so it is not changed.
pub async fn raw_queries(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    for query in
        ["a=1&b=2", "b=2&a=1&a=0", "x", "=", "&&", "a=%20+b", "a=1;b=2", "q=%7B%22a%22%3A1%7D", "a[]=1"]
    {
        let _ = case.upstream.take();
        proxy.code(&Ask::get(&format!("/ok?{query}")).token(token)).await;
        let seen = case.upstream.take().first().map_or("nothing came".into(), |one| one.target.clone());
        case.check(query, format!("/ok?{query}"), seen);
    }
    Ok(())
}

/// FWD-03: whatever is sent, nothing of it is kept.
pub async fn large_bodies(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let length = much();
    case.upstream.answer(move |seen| {
        if seen.method == "GET" {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            Reply::steps([Step::Write(head.into()), Step::Flood(length)])
        } else {
            Reply::default()
        }
    });
    let proxy = case.proxy().start().await?;
    assert_eq!(proxy.code(&Ask::post("/ok", b"x").token(token)).await, "200");
    let idle = proxy.memory()?;

    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(Ask::get("/ok").token(token).bytes()).await?;
    let (mut read, mut peak) = (0_u64, 0);
    while read < length {
        let bytes = wire.read().await?;
        if bytes.is_empty() {
            break;
        }
        let before = read >> 24;
        read += bytes.len() as u64;
        if read >> 24 != before {
            peak = peak.max(proxy.memory()?);
        }
    }
    case.check("down: all of it came", true, read >= length);

    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(Ask::new("POST", "/ok").header("Content-Length", &length.to_string()).token(token).bytes())
        .await?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..length >> 20 {
        wire.send(&zeros).await?;
        peak = peak.max(proxy.memory()?);
    }
    case.check("up: the answer", 200, code(&wire.answer("POST").await));
    let seen = case.upstream.seen();
    case.check("up: all of it came", length, seen.last().map_or(0, |one| one.length));
    println!("{length} bytes each way: {idle} KiB at rest, {peak} KiB at most");
    case.check("memory is flat", true, peak < idle + 32 * 1024);
    Ok(())
}

/// FWD-04: what an upstream says now is heard now.
pub async fn events(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    for (name, head) in [
        ("events", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"),
        ("chunks", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"),
        ("no length", "Content-Type: text/plain\r\nConnection: close\r\n"),
    ] {
        let (go, chunked) = (Arc::new(Notify::new()), head.contains("chunked"));
        let piece = move |text: &str| {
            if chunked { format!("{:x}\r\n{text}\r\n", text.len()) } else { text.to_owned() }
        };
        let (first, second) =
            (piece("data: 1\n\n"), piece("data: 2\n\n") + if chunked { "0\r\n\r\n" } else { "" });
        let (head, gone) = (format!("HTTP/1.1 200 OK\r\n{head}\r\n"), go.clone());
        case.upstream.answer(move |_| {
            Reply::steps([
                Step::Write(head.clone().into()),
                Step::Write(first.clone().into()),
                Step::Until(gone.clone()),
                Step::Write(second.clone().into()),
            ])
            .then(After::Close)
        });
        let proxy = case.proxy().start().await?;
        let mut wire = Wire::connect(proxy.plain()).await?;
        wire.send(Ask::get("/ok").token(token).bytes()).await?;
        let mut seen = String::new();
        // The second event is not sent before the first was heard: a proxy that keeps it back waits for ever.
        while !seen.contains("data: 1") {
            match wire.read().await {
                Ok(bytes) if !bytes.is_empty() => seen.push_str(&String::from_utf8_lossy(&bytes)),
                _ => break,
            }
        }
        case.check(&format!("{name}: the first is heard"), true, seen.contains("data: 1"));
        go.notify_one();
        let (rest, _) = wire.rest(Duration::from_secs(3)).await;
        case.check(
            &format!("{name}: and the second"),
            true,
            String::from_utf8_lossy(&rest).contains("data: 2"),
        );
    }
    Ok(())
}

/// FWD-05: trailers of answers.
pub async fn trailers(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|_| {
        Reply::raw("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n")
    });
    let proxy = case.proxy().start().await?;
    let answer = proxy.ask(&Ask::get("/ok").header("TE", "trailers").token(token)).await?;
    case.check("the body", "abc", answer.text());
    let trailer = answer.trailers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-sum"));
    case.check("the trailer", "7", trailer.map_or("-", |(_, value)| value));
    Ok(())
}

/// FWD-06: a client that asks whether to go on is told by the upstream; one that may not is told at once.
pub async fn go_on(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = |token: &str| {
        Ask::new("POST", "/ok").header("Content-Length", "5").header("Expect", "100-continue").token(token)
    };
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(ask(token).bytes()).await?;
    let first = String::from_utf8_lossy(&wire.read().await?).into_owned();
    case.check("told to go on", "HTTP/1.1 100 Continue", first.lines().next().unwrap_or_default());
    wire.send("hello").await?;
    case.check("then answered", 200, code(&wire.answer("POST").await));
    let seen = case.upstream.take();
    case.check(
        "the body",
        "hello",
        seen.first().map_or("nothing came".into(), |one| String::from_utf8_lossy(&one.body).into_owned()),
    );

    let stranger = case.ground.stranger().await?;
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(ask(&stranger).bytes()).await?;
    let answer = wire.answer("POST").await;
    case.check(
        "who may not",
        "403, []",
        answer.map_or("no answer".into(), |one| format!("{}, {:?}", one.status, one.interim)),
    );
    Ok(())
}

/// FWD-07: hints before the answer are left out; HTTP allows it, and they must not be taken for the answer.
pub async fn early_hints(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|_| {
        Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let proxy = case.proxy().start().await?;
    let answer = proxy.ask(&Ask::get("/ok").token(token)).await?;
    case.check("the answer", "200 ok", format!("{} {}", answer.status, answer.text()));
    case.check("before it", "[]", format!("{:?}", answer.interim));
    Ok(())
}

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
        wire.send([testbed::wire::frames::begin(), testbed::wire::frames::request(1, &lines)].concat())
            .await?;
        let said = testbed::wire::frames::listen(&mut wire, SOON, |said| !said.resets.is_empty()).await?;
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
    let closed = testbed::wait::until("its end", Duration::from_secs(58), || async {
        if case.upstream.open() == 0 { Ok(()) } else { Err("it is open") }
    })
    .await;
    println!("open for {:?}", begin.elapsed());
    case.check("closed within 58 s", true, closed.is_ok());
    Ok(())
}

/// FWD-16: a body is forwarded with every method, also where its length is not known beforehand.
pub async fn bodies_of_all_methods(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        for (name, header, body) in [
            ("chunks", ("Transfer-Encoding", "chunked"), "3\r\nabc\r\n0\r\n\r\n"),
            ("a length", ("Content-Length", "3"), "abc"),
        ] {
            let _ = case.upstream.take();
            let mut ask = Ask::new(method, "/ok").header(header.0, header.1).token(token);
            ask.body = body.into();
            let code = proxy.code(&ask).await;
            let seen = case.upstream.take();
            let body = seen
                .first()
                .map_or("nothing came".into(), |one| String::from_utf8_lossy(&one.body).into_owned());
            case.check(&format!("{method}, {name}"), "200 abc", format!("{code} {body}"));
        }
    }
    Ok(())
}
