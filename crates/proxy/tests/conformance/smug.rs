//! SMUG: requests that two parsers end at different places. None of them may become two requests.

use std::time::Duration;

use testbed::TestResult;
use testbed::harness::raw_http::{RawConnection, frames};

use crate::case::Case;
use crate::fixture::SOON;
use crate::raw_request::RawRequest;

/// The request smuggled in each of them. Its path shows that it was forwarded.
const HIDDEN: &str = "GET /ok/hidden HTTP/1.1\r\nHost: proxy.test\r\n\r\n";

/// The request of each scenario, with `TOKEN` for the Authorization line. All are rejected and the connection closed.
const CORPUS: [(&str, &str); 16] = [
    (
        "SMUG-01",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHIDDEN",
    ),
    (
        "SMUG-02",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nHIDDEN",
    ),
    (
        "SMUG-03",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENContent-Length: 0\r\nContent-Length: 47\r\n\r\nHIDDEN",
    ),
    ("SMUG-04", "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENContent-Length: +0\r\n\r\nHIDDEN"),
    ("SMUG-05", "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENContent-Length: 0, 47\r\n\r\nHIDDEN"),
    (
        "SMUG-06",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nHIDDEN",
    ),
    (
        "SMUG-07",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nHIDDEN",
    ),
    (
        "SMUG-08",
        "POST /ok HTTP/1.0\r\nHost: proxy.test\r\nConnection: keep-alive\r\nTOKENTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHIDDEN",
    ),
    (
        "SMUG-09",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff1\r\nx\r\n0\r\n\r\nHIDDEN",
    ),
    (
        "SMUG-10",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nHIDDEN",
    ),
    (
        "SMUG-11",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENX-A: 1\r\n Transfer-Encoding: chunked\r\n\r\nHIDDEN",
    ),
    ("SMUG-12", "POST /ok HTTP/1.1\nHost: proxy.test\nTOKENContent-Length: 0\n\nHIDDEN"),
    ("SMUG-13", "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENX-A: a\rb\r\n\r\nHIDDEN"),
    ("SMUG-14", "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENX-A: a\0b\r\n\r\nHIDDEN"),
    (
        "SMUG-21",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\nHIDDEN",
    ),
    (
        "SMUG-22",
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\nTOKENTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nHIDDEN",
    ),
];

/// Sends the request of an id in `CORPUS` on a path that requires authorization and on one that does not.
/// Both must be rejected and the connection closed.
pub async fn ambiguous_framing_is_rejected(case: &Case<'_>, id: &str) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    let request =
        CORPUS.iter().find(|(known, _)| *known == id).map(|(_, request)| *request).ok_or("no such id")?;
    for (name, path, authorization) in [
        ("authorized", "/ok", format!("Authorization: Bearer {token}\r\n")),
        ("open", "/open", String::new()),
    ] {
        let token_line =
            if id == "SMUG-12" { authorization.replace('\r', "") } else { authorization.clone() };
        let hidden = HIDDEN.replacen("\r\n\r\n", &format!("\r\n{authorization}\r\n"), 1);
        let bytes = request.replacen("/ok", path, 1).replace("TOKEN", &token_line).replace("HIDDEN", &hidden);
        let _ = case.upstream.take();
        let mut connection = RawConnection::connect(proxy.plain()).await?;
        connection.send(bytes).await?;
        let (response, closed) = connection.read_to_end(Duration::from_secs(2)).await;
        let text = String::from_utf8_lossy(&response).into_owned();
        let codes: Vec<&str> =
            text.split("HTTP/1.").skip(1).filter_map(|response| response.split(' ').nth(1)).collect();
        let codes: Vec<&str> = codes.into_iter().filter(|code| code.len() == 3).collect();
        let is_refused = codes.len() <= 1 && codes.iter().all(|code| *code >= "400");
        case.check(
            &format!("{name}: refused"),
            "yes",
            if is_refused { "yes".into() } else { codes.join(" ") },
        );
        case.check(&format!("{name}: closed"), true, closed);
        let complete = case.upstream.take().iter().filter(|request| request.complete).count();
        case.check(&format!("{name}: requests that came through"), 0, complete);
    }
    Ok(())
}

/// Sends HTTP/2 requests with invalid headers, which must be rejected.
async fn check_h2_rejected(case: &Case<'_>, requests: &[(&str, Vec<(&str, &str)>)]) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    let authorization = format!("Bearer {token}");
    for (name, changes) in requests {
        let mut headers =
            vec![(":method", "GET"), (":scheme", "http"), (":authority", "proxy.test"), (":path", "/ok")];
        for (key, value) in changes.iter().filter(|(key, _)| key.starts_with(':')) {
            headers.retain(|(known, _)| known != key);
            headers.push((key, value));
        }
        headers.push(("authorization", &authorization));
        headers.extend(changes.iter().filter(|(key, _)| !key.starts_with(':')).copied());
        let _ = case.upstream.take();
        let mut connection = RawConnection::connect(proxy.plain()).await?;
        connection.send([frames::preface(), frames::request(1, &headers)].concat()).await?;
        let server_frames = frames::read_until(&mut connection, SOON, |server_frames| {
            !server_frames.statuses.is_empty()
                || !server_frames.resets.is_empty()
                || server_frames.goaway.is_some()
        })
        .await?;
        let is_refused = server_frames.statuses.iter().all(|(_, code)| (400..500).contains(code));
        case.check(
            &format!("{name}: refused"),
            "yes",
            if is_refused { "yes".into() } else { format!("{:?}", server_frames.statuses) },
        );
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
    }
    Ok(())
}

/// SMUG-15: control characters and spaces in HTTP/2 headers that would split an HTTP/1 request.
pub async fn h2_control_characters_are_rejected(case: &Case<'_>) -> TestResult {
    check_h2_rejected(
        case,
        &[
            ("in a value", vec![("x-a", "1\r\nTransfer-Encoding: chunked")]),
            ("a bare LF in a value", vec![("x-a", "1\nx-b: 2")]),
            ("a NUL in a value", vec![("x-a", "1\x002")]),
            ("in a name", vec![("x-a: 1\r\nx-b", "2")]),
            ("in the path", vec![(":path", "/ok HTTP/1.1\r\nX-A: 1\r\n\r\n")]),
            ("a space in the path", vec![(":path", "/ok x")]),
            ("in the method", vec![(":method", "GET /other HTTP/1.1\r\n\r\n")]),
        ],
    )
    .await
}

/// SMUG-16: connection-specific or upper-case headers in HTTP/2.
pub async fn h2_connection_headers_are_rejected(case: &Case<'_>) -> TestResult {
    check_h2_rejected(
        case,
        &[
            ("connection", vec![("connection", "keep-alive")]),
            ("transfer-encoding", vec![("transfer-encoding", "chunked")]),
            ("upper case", vec![("X-Upper", "1")]),
            ("te", vec![("te", "gzip")]),
        ],
    )
    .await
}

/// SMUG-17: an invalid HTTP/2 :path, or a Host that differs from :authority.
pub async fn h2_invalid_path_or_host_is_rejected(case: &Case<'_>) -> TestResult {
    check_h2_rejected(
        case,
        &[
            ("no slash", vec![(":path", "ok")]),
            ("another name", vec![("host", "other.test")]),
            ("an absolute one", vec![(":path", "http://other.test/ok")]),
            ("an empty one", vec![(":path", "")]),
        ],
    )
    .await
}

/// SMUG-18: an HTTP/2 body that does not match its Content-Length.
pub async fn h2_wrong_content_length_is_rejected(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let authorization = format!("Bearer {token}");
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "proxy.test"),
        (":path", "/ok"),
        ("authorization", &authorization),
        ("content-length", "3"),
    ];
    for (name, body) in [("longer", "0123456789"), ("shorter", "0")] {
        let _ = case.upstream.take();
        let mut connection = RawConnection::connect(proxy.plain()).await?;
        let head = frames::frame(0x1, 0x4, 1, &frames::header_block(&headers));
        connection
            .send([frames::preface(), head, frames::frame(0x0, 0x1, 1, body.as_bytes())].concat())
            .await?;
        let server_frames = frames::read_until(&mut connection, Duration::from_secs(5), |server_frames| {
            !server_frames.statuses.is_empty()
                || !server_frames.resets.is_empty()
                || server_frames.goaway.is_some()
        })
        .await?;
        let is_served = server_frames.statuses.iter().any(|(_, code)| *code == 200);
        case.check(&format!("{name}: refused"), true, !is_served);
        case.check(
            &format!("{name}: came through whole"),
            0,
            case.upstream.take().iter().filter(|request| request.complete).count(),
        );
    }
    Ok(())
}

/// SMUG-19: the body of an upgrade request that the upstream does not accept is not read as a second
/// request.
pub async fn upgrade_body_is_not_a_second_request(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    // The upstream does not switch protocols, so the bytes after the head must not become a tunnel.
    let proxy = case.proxy().start().await?;
    let authorization = format!("Authorization: Bearer {token}\r\n");
    let hidden = "GET /secret HTTP/1.1\r\nHost: proxy.test\r\n\r\n";
    let request = format!(
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\n{authorization}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: {}\r\n\r\n{hidden}",
        hidden.len()
    );
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(request).await?;
    connection.read_to_end(Duration::from_secs(2)).await;
    let paths: Vec<String> = case.upstream.take().iter().map(|request| request.target.clone()).collect();
    case.check("no second request", false, paths.iter().any(|path| path == "/secret"));
    Ok(())
}

/// SMUG-20: the unread body of a rejected request is not read as a second request.
pub async fn unread_body_is_not_a_second_request(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let hidden =
        format!("GET /ok/hidden HTTP/1.1\r\nHost: proxy.test\r\nAuthorization: Bearer {token}\r\n\r\n");
    let mut request = RawRequest::new("POST", "/ok").header("Content-Length", &hidden.len().to_string());
    request.body = hidden.into_bytes();
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(request.bytes()).await?;
    let (bytes, _) = connection.read_to_end(Duration::from_secs(2)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    case.check("one answer", 1, text.matches("HTTP/1.1 ").count());
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

/// SMUG-23: a request with ambiguous framing, pipelined behind a valid one, is rejected.
pub async fn ambiguous_framing_is_rejected_when_pipelined(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let good = String::from_utf8(RawRequest::get("/ok/first").token(token).bytes())?;
    for id in ["SMUG-01", "SMUG-02", "SMUG-06", "SMUG-11", "SMUG-12"] {
        let bad =
            CORPUS.iter().find(|(known, _)| *known == id).map(|(_, request)| *request).ok_or("no such id")?;
        let line = format!("Authorization: Bearer {token}\r\n");
        let line = if id == "SMUG-12" { line.replace('\r', "") } else { line };
        let bad = bad.replace("TOKEN", &line).replace("HIDDEN", "");
        let _ = case.upstream.take();
        let mut connection = RawConnection::connect(proxy.plain()).await?;
        connection.send(format!("{good}{bad}")).await?;
        let (_, closed) = connection.read_to_end(Duration::from_secs(2)).await;
        let paths: Vec<String> = case
            .upstream
            .take()
            .into_iter()
            .filter(|request| request.complete)
            .map(|request| request.target)
            .collect();
        case.check(&format!("{id}: what came through"), "/ok/first", paths.join(" "));
        case.check(&format!("{id}: closed"), true, closed);
    }
    Ok(())
}
