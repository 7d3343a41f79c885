//! FWD: forwarded requests and responses.

use std::sync::Arc;
use std::time::Duration;

use testbed::TestResult;
use testbed::fakes::recorder::{ConnectionAction, Reply, Step};
use testbed::harness::raw_http::RawConnection;
use tokio::sync::Notify;

use crate::case::Case;
use crate::proxy::{ProxyBuilder, status_text};
use crate::raw_request::RawRequest;

/// The size of large bodies: 1 GiB in the full suite, less when other tests run concurrently.
fn large_body_size() -> u64 {
    if crate::is_full_run() { 1 << 30 } else { 48 << 20 }
}

/// FWD-01: path and query of --upstream are prepended.
pub async fn upstream_path_and_query_are_prepended(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    for (upstream, target, expected) in [
        ("", "/ok", "/ok"),
        ("/", "/ok", "/ok"),
        ("/base", "/ok", "/base/ok"),
        ("/base/", "/ok", "/base/ok"),
        ("/base/?a=1", "/ok?b=2", "/base/ok?a=1&b=2"),
        ("/base?a=1", "/ok", "/base/ok?a=1"),
        ("/b%20c/", "/ok/%41", "/b%20c/ok/%41"),
    ] {
        let builder = ProxyBuilder::new(
            &case.fixture,
            case.implementation,
            &format!("{}{upstream}", case.upstream.url()),
        );
        let proxy = builder.start().await?;
        let _ = case.upstream.take();
        proxy.status(&RawRequest::get(target).token(token)).await;
        let received =
            case.upstream.take().first().map_or("nothing came".into(), |request| request.target.clone());
        case.check(&format!("{upstream:?} and {target:?}"), expected, received);
    }
    Ok(())
}

/// FWD-02: the query is forwarded byte for byte.
pub async fn query_is_forwarded_unchanged(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    for query in
        ["a=1&b=2", "b=2&a=1&a=0", "x", "=", "&&", "a=%20+b", "a=1;b=2", "q=%7B%22a%22%3A1%7D", "a[]=1"]
    {
        let _ = case.upstream.take();
        proxy.status(&RawRequest::get(&format!("/ok?{query}")).token(token)).await;
        let received =
            case.upstream.take().first().map_or("nothing came".into(), |request| request.target.clone());
        case.check(query, format!("/ok?{query}"), received);
    }
    Ok(())
}

/// FWD-03: large bodies are streamed in both directions with constant memory.
pub async fn large_bodies_are_streamed(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let length = large_body_size();
    case.upstream.answer(move |received| {
        if received.method == "GET" {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            Reply::steps([Step::Write(head.into()), Step::Flood(length)])
        } else {
            Reply::default()
        }
    });
    let proxy = case.proxy().start().await?;
    assert_eq!(proxy.status(&RawRequest::post("/ok", b"x").token(token)).await, "200");
    let idle = proxy.memory_kib()?;

    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
    let (mut read, mut peak) = (0_u64, 0);
    while read < length {
        let bytes = connection.read().await?;
        if bytes.is_empty() {
            break;
        }
        let before = read >> 24;
        read += bytes.len() as u64;
        if read >> 24 != before {
            peak = peak.max(proxy.memory_kib()?);
        }
    }
    case.check("down: complete", true, read >= length);

    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection
        .send(
            RawRequest::new("POST", "/ok").header("Content-Length", &length.to_string()).token(token).bytes(),
        )
        .await?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..length >> 20 {
        connection.send(&zeros).await?;
        peak = peak.max(proxy.memory_kib()?);
    }
    case.check("up: the answer", 200, status_text(&connection.read_response("POST").await));
    let received = case.upstream.requests();
    case.check("up: complete", length, received.last().map_or(0, |request| request.length));
    println!("{length} bytes each way: {idle} KiB idle, {peak} KiB peak");
    case.check("memory is constant", true, peak < idle + 32 * 1024);
    Ok(())
}

/// FWD-04: each part of a streamed response is forwarded immediately.
pub async fn response_chunks_are_flushed_immediately(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    for (name, head) in [
        ("events", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"),
        ("chunks", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"),
        ("no length", "Content-Type: text/plain\r\nConnection: close\r\n"),
    ] {
        let (resume, chunked) = (Arc::new(Notify::new()), head.contains("chunked"));
        let piece = move |text: &str| {
            if chunked { format!("{:x}\r\n{text}\r\n", text.len()) } else { text.to_owned() }
        };
        let (first, second) =
            (piece("data: 1\n\n"), piece("data: 2\n\n") + if chunked { "0\r\n\r\n" } else { "" });
        let (head, resumed) = (format!("HTTP/1.1 200 OK\r\n{head}\r\n"), resume.clone());
        case.upstream.answer(move |_| {
            Reply::steps([
                Step::Write(head.clone().into()),
                Step::Write(first.clone().into()),
                Step::Until(resumed.clone()),
                Step::Write(second.clone().into()),
            ])
            .then(ConnectionAction::Close)
        });
        let proxy = case.proxy().start().await?;
        let mut connection = RawConnection::connect(proxy.plain()).await?;
        connection.send(RawRequest::get("/ok").token(token).bytes()).await?;
        let mut received = String::new();
        // The upstream sends the second event only after the first was received: a proxy that buffers it would wait forever.
        while !received.contains("data: 1") {
            match connection.read().await {
                Ok(bytes) if !bytes.is_empty() => received.push_str(&String::from_utf8_lossy(&bytes)),
                _ => break,
            }
        }
        case.check(&format!("{name}: the first event arrives"), true, received.contains("data: 1"));
        resume.notify_one();
        let (remaining, _) = connection.read_to_end(Duration::from_secs(3)).await;
        case.check(
            &format!("{name}: the second event arrives"),
            true,
            String::from_utf8_lossy(&remaining).contains("data: 2"),
        );
    }
    Ok(())
}

/// FWD-05: response trailers are forwarded.
pub async fn response_trailers_are_forwarded(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|_| {
        Reply::raw("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n")
    });
    let proxy = case.proxy().start().await?;
    let response = proxy.send(&RawRequest::get("/ok").header("TE", "trailers").token(token)).await?;
    case.check("the body", "abc", response.text());
    let trailer = response.trailers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-sum"));
    case.check("the trailer", "7", trailer.map_or("-", |(_, value)| value));
    Ok(())
}

/// FWD-06: `Expect: 100-continue` is answered by the upstream; a denied request gets 403 without 100.
pub async fn expect_continue_is_forwarded(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = |token: &str| {
        RawRequest::new("POST", "/ok")
            .header("Content-Length", "5")
            .header("Expect", "100-continue")
            .token(token)
    };
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(request(token).bytes()).await?;
    let first = String::from_utf8_lossy(&connection.read().await?).into_owned();
    case.check("100 Continue", "HTTP/1.1 100 Continue", first.lines().next().unwrap_or_default());
    connection.send("hello").await?;
    case.check("the final status", 200, status_text(&connection.read_response("POST").await));
    let received = case.upstream.take();
    case.check(
        "the body",
        "hello",
        received
            .first()
            .map_or("nothing came".into(), |request| String::from_utf8_lossy(&request.body).into_owned()),
    );

    let stranger = case.fixture.unauthorized_token().await?;
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(request(&stranger).bytes()).await?;
    let response = connection.read_response("POST").await;
    case.check(
        "without permission",
        "403, []",
        response
            .map_or("no answer".into(), |response| format!("{}, {:?}", response.status, response.interim)),
    );
    Ok(())
}

/// FWD-07: a 103 response is dropped and not mistaken for the final response.
pub async fn early_hints_are_dropped(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|_| {
        Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let proxy = case.proxy().start().await?;
    let response = proxy.send(&RawRequest::get("/ok").token(token)).await?;
    case.check("the answer", "200 ok", format!("{} {}", response.status, response.text()));
    case.check("before it", "[]", format!("{:?}", response.interim));
    Ok(())
}

/// FWD-16: a body is forwarded with every method, with or without a known length.
pub async fn bodies_are_forwarded_for_every_method(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        for (name, header, body) in [
            ("chunked", ("Transfer-Encoding", "chunked"), "3\r\nabc\r\n0\r\n\r\n"),
            ("known length", ("Content-Length", "3"), "abc"),
        ] {
            let _ = case.upstream.take();
            let mut request = RawRequest::new(method, "/ok").header(header.0, header.1).token(token);
            request.body = body.into();
            let code = proxy.status(&request).await;
            let received = case.upstream.take();
            let body = received
                .first()
                .map_or("nothing came".into(), |request| String::from_utf8_lossy(&request.body).into_owned());
            case.check(&format!("{method}, {name}"), "200 abc", format!("{code} {body}"));
        }
    }
    Ok(())
}
