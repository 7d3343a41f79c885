//! FWD: what is forwarded, and how.

use std::sync::Arc;
use std::time::Duration;

use testbed::TestResult;
use testbed::fakes::recorder::{After, Reply, Step};
use testbed::harness::wire::Wire;
use tokio::sync::Notify;

use crate::ask::Ask;
use crate::case::Case;
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
