//! WS: protocol upgrades.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use testbed::fakes::recorder::{ConnectionAction, Reply};
use testbed::harness::raw_http::RawConnection;
use testbed::{Result, TestResult};

use crate::case::Case;
use crate::proxy::{Proxy, status_text};
use crate::raw_request::RawRequest;

/// The prefix of a subprotocol that holds a token.
const TOKEN_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

fn upgrade(protocols: &[&str]) -> RawRequest {
    let request = RawRequest::get("/ok/ws")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    protocols.iter().fold(request, |request, protocol| request.header("Sec-WebSocket-Protocol", protocol))
}

fn token_subprotocol(token: &str) -> String {
    format!("{TOKEN_PREFIX}{}", BASE64.encode(token))
}

/// Upgrades, sends bytes and returns the status and whether the upstream echoed them.
async fn echo(proxy: &Proxy, request: &RawRequest, bytes: &[u8]) -> Result<(String, bool)> {
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(request.bytes()).await?;
    let response = connection.read_response("GET").await;
    if response.as_ref().is_ok_and(|response| response.status == 101) {
        connection.send(bytes).await?;
        let back = connection.read_exactly(bytes.len()).await?;
        return Ok((status_text(&response), back == bytes));
    }
    Ok((status_text(&response), false))
}

/// WS-01: a token in Sec-WebSocket-Protocol authenticates an upgrade and is removed from the list.
pub async fn subprotocol_token_is_accepted_and_stripped(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|_| Reply::upgrade("websocket", "Sec-WebSocket-Protocol: chat\r\n"));
    let proxy = case.proxy().flag("--auth-header-fields-enabled=true").start().await?;
    let request = upgrade(&[&format!("chat, {}, other", token_subprotocol(token))]);
    let (code, echoed) = echo(&proxy, &request, b"hello").await?;
    case.check("the answer", 101, code);
    case.check("echoed", true, echoed);
    let received = case.upstream.take();
    let header =
        |name: &str| received.first().map_or("nothing came".into(), |request| request.joined_header(name));
    case.check("the remaining subprotocols", "chat,other", header("sec-websocket-protocol").replace(' ', ""));
    case.check(
        "the upgrade headers",
        "Upgrade websocket",
        format!("{} {}", header("connection"), header("upgrade")),
    );
    case.check("the user", case.fixture.username("caller"), header("x-remote-user"));

    let _ = case.upstream.take();
    let request = upgrade(&[&token_subprotocol(token), "chat"]);
    case.check("in two headers", 101, echo(&proxy, &request, b"hello").await?.0);
    let remaining = case
        .upstream
        .take()
        .first()
        .map_or("nothing came".into(), |request| request.joined_header("sec-websocket-protocol"));
    case.check("in two headers: the remaining subprotocols", "chat", remaining);
    let plain = RawRequest::get("/ok")
        .header("Sec-WebSocket-Protocol", &format!("chat, {}", token_subprotocol(token)));
    case.check("without an upgrade", 401, proxy.status(&plain).await);
    Ok(())
}

/// WS-02: two tokens in Sec-WebSocket-Protocol are rejected.
pub async fn two_subprotocol_tokens_are_rejected(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = upgrade(&[&format!("{}, {}, chat", token_subprotocol(token), token_subprotocol(token))]);
    case.check("in one header", 401, proxy.status(&request).await);
    let request = upgrade(&[&token_subprotocol(token), &token_subprotocol(token), "chat"]);
    case.check("in two headers", 401, proxy.status(&request).await);
    Ok(())
}

/// WS-03: a token without another subprotocol, or a malformed one, is rejected.
pub async fn malformed_subprotocol_token_is_rejected(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    case.check("no other subprotocol", 401, proxy.status(&upgrade(&[&token_subprotocol(token)])).await);
    case.check("not base64", 401, proxy.status(&upgrade(&[&format!("{TOKEN_PREFIX}%%%, chat")])).await);
    let not_utf8 = format!("{TOKEN_PREFIX}{}, chat", BASE64.encode([0xff, 0xfe]));
    case.check("not UTF-8", 401, proxy.status(&upgrade(&[&not_utf8])).await);
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

/// WS-04: a tunnel forwards bytes in both directions, including those sent right after the request.
pub async fn tunnel_forwards_bytes_both_ways(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|_| Reply::upgrade("websocket", ""));
    let proxy = case.proxy().start().await?;
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(upgrade(&["chat"]).token(token).bytes()).await?;
    case.check("the answer", 101, status_text(&connection.read_response("GET").await));
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let mut back = Vec::new();
    for piece in bytes.chunks(30_000) {
        connection.send(piece).await?;
        back.extend(connection.read_exactly(piece.len()).await?);
    }
    case.check("300,000 bytes came back", true, back == bytes);

    let mut connection = RawConnection::connect(proxy.plain()).await?;
    let mut early = upgrade(&["chat"]).token(token).bytes();
    early.extend(b"early bird");
    connection.send(early).await?;
    let status = status_text(&connection.read_response("GET").await);
    case.check("early bytes: the answer", 101, &status);
    let back = tokio::time::timeout(Duration::from_secs(3), connection.read_exactly(10)).await;
    let back = back.map_or("nothing".into(), |back| {
        back.map_or("an error".into(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    });
    case.check("early bytes came back", "early bird", back);
    Ok(())
}

/// WS-05: a half-closed tunnel still delivers the other direction; a disconnect closes both sides.
pub async fn half_close_keeps_the_other_direction_open(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|_| Reply::upgrade("websocket", ""));
    let proxy = case.proxy().start().await?;
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(upgrade(&["chat"]).token(token).bytes()).await?;
    connection.read_response("GET").await?;
    connection.send("x").await?;
    connection.read_exactly(1).await?;
    connection.close_write().await?;
    let (bytes, ended) = connection.read_to_end(Duration::from_secs(10)).await;
    case.check(
        "the upstream sees the half-close",
        true,
        case.upstream
            .wait_for("the disconnect", Duration::from_secs(10), |received| {
                received.iter().any(|request| request.abandoned)
            })
            .await
            .is_ok(),
    );
    case.check("the final bytes", "last word", String::from_utf8_lossy(&bytes));
    case.check("then the connection closes", true, ended);

    let _ = case.upstream.take();
    let mut connection = RawConnection::connect(proxy.plain()).await?;
    connection.send(upgrade(&["chat"]).token(token).bytes()).await?;
    connection.read_response("GET").await?;
    drop(connection);
    let disconnected = case
        .upstream
        .wait_for("the disconnect", Duration::from_secs(10), |received| {
            received.iter().any(|request| request.abandoned)
        })
        .await;
    case.check("a client disconnect", true, disconnected.is_ok());
    Ok(())
}

/// WS-06: a 101 response with another protocol, or without an upgrade request, returns 502.
pub async fn unexpected_protocol_switch_returns_502(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|_| Reply::upgrade("other", ""));
    let proxy = case.proxy().start().await?;
    case.check("another protocol", 502, proxy.status(&upgrade(&["chat"]).token(token)).await);
    case.upstream.answer(|_| Reply::upgrade("websocket", ""));
    case.check("without an upgrade request", 502, proxy.status(&RawRequest::get("/ok").token(token)).await);
    case.upstream.answer(|_| Reply::raw("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno"));
    let response = proxy.send(&upgrade(&["chat"]).token(token)).await;
    case.check("a rejection is forwarded", 400, status_text(&response));
    case.upstream
        .answer(|_| Reply::raw("HTTP/1.1 101 Switching Protocols\r\n\r\n").then(ConnectionAction::Close));
    case.check("without an Upgrade header", 502, proxy.status(&upgrade(&["chat"]).token(token)).await);
    Ok(())
}

/// WS-07: only websocket upgrades on authorized paths reach the upstream; h2c and other protocols never do.
pub async fn only_authorized_websocket_upgrades(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.upstream.answer(|received| {
        let requested = received.header_values("upgrade").join(" ");
        if requested.is_empty() { Reply::default() } else { Reply::upgrade(&requested, "") }
    });
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    let upgrade_to = |path: &str, protocol: &str| {
        RawRequest::get(path)
            .header("Connection", "Upgrade, HTTP2-Settings")
            .header("Upgrade", protocol)
            .header("HTTP2-Settings", "AAMAAABkAAQAAP__")
    };
    for (name, request) in [
        ("h2c", upgrade_to("/ok", "h2c").token(token)),
        ("another protocol", upgrade_to("/ok", "custom").token(token)),
        ("h2c on an open path", upgrade_to("/open", "h2c")),
        ("websocket on an open path", upgrade_to("/open", "websocket")),
    ] {
        let _ = case.upstream.take();
        let response = proxy.send(&request).await;
        case.check(&format!("{name}: no switch"), true, status_text(&response) != "101");
        let received = case.upstream.take();
        let forwarded = received
            .iter()
            .map(|request| request.joined_header("upgrade") + &request.joined_header("http2-settings"))
            .find(|headers| headers != "--");
        case.check(
            &format!("{name}: what the upstream hears"),
            "nothing",
            forwarded.unwrap_or("nothing".into()),
        );
    }
    let disabled = case.proxy().flag("--http2-disable").start().await?;
    case.check(
        "h2c without HTTP/2: no switch",
        true,
        disabled.status(&upgrade_to("/ok", "h2c").token(token)).await != "101",
    );
    Ok(())
}
