//! WS: switches of protocols.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use testbed::fakes::recorder::{After, Reply};
use testbed::harness::wire::Wire;
use testbed::{Result, TestResult};

use crate::ask::Ask;
use crate::case::Case;
use crate::program::{Proxy, code};

/// How a token is named among protocols.
const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

fn upgrade(protocols: &[&str]) -> Ask {
    let ask = Ask::get("/ok/ws")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    protocols.iter().fold(ask, |ask, protocol| ask.header("Sec-WebSocket-Protocol", protocol))
}

fn named(token: &str) -> String {
    format!("{PREFIX}{}", BASE64.encode(token))
}

/// Switches, sends something and waits until it comes back.
async fn echo(proxy: &Proxy, ask: &Ask, bytes: &[u8]) -> Result<(String, bool)> {
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(ask.bytes()).await?;
    let answer = wire.answer("GET").await;
    if answer.as_ref().is_ok_and(|answer| answer.status == 101) {
        wire.send(bytes).await?;
        let back = wire.read_exactly(bytes.len()).await?;
        return Ok((code(&answer), back == bytes));
    }
    Ok((code(&answer), false))
}

/// WS-01: a token among the protocols is taken out of them.
pub async fn a_token_among_protocols(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|_| Reply::upgrade("websocket", "Sec-WebSocket-Protocol: chat\r\n"));
    let proxy = case.proxy().flag("--auth-header-fields-enabled=true").start().await?;
    let ask = upgrade(&[&format!("chat, {}, other", named(token))]);
    let (code, echoed) = echo(&proxy, &ask, b"hello").await?;
    case.check("the answer", 101, code);
    case.check("what was said came back", true, echoed);
    let seen = case.upstream.take();
    let shown = |name: &str| seen.first().map_or("nothing came".into(), |one| one.shown(name));
    case.check("the protocols that are left", "chat,other", shown("sec-websocket-protocol").replace(' ', ""));
    case.check("the switch", "Upgrade websocket", format!("{} {}", shown("connection"), shown("upgrade")));
    case.check("the user", case.ground.name_of("caller"), shown("x-remote-user"));

    let _ = case.upstream.take();
    let ask = upgrade(&[&named(token), "chat"]);
    case.check("in two lines", 101, echo(&proxy, &ask, b"hello").await?.0);
    let left =
        case.upstream.take().first().map_or("nothing came".into(), |one| one.shown("sec-websocket-protocol"));
    case.check("in two lines: what is left", "chat", left);
    let plain = Ask::get("/ok").header("Sec-WebSocket-Protocol", &format!("chat, {}", named(token)));
    case.check("without a switch", 401, proxy.code(&plain).await);
    Ok(())
}

/// WS-02: two tokens are none.
pub async fn two_tokens(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = upgrade(&[&format!("{}, {}, chat", named(token), named(token))]);
    case.check("in one line", 401, proxy.code(&ask).await);
    let ask = upgrade(&[&named(token), &named(token), "chat"]);
    case.check("in two lines", 401, proxy.code(&ask).await);
    Ok(())
}

/// WS-03: a token alone, or one that is none.
pub async fn no_other_protocol(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    case.check("no other protocol", 401, proxy.code(&upgrade(&[&named(token)])).await);
    case.check("no base64", 401, proxy.code(&upgrade(&[&format!("{PREFIX}%%%, chat")])).await);
    let no_text = format!("{PREFIX}{}, chat", BASE64.encode([0xff, 0xfe]));
    case.check("no text", 401, proxy.code(&upgrade(&[&no_text])).await);
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

/// WS-04: bytes both ways, also many, and also those that come right behind the request.
pub async fn traffic(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|_| Reply::upgrade("websocket", ""));
    let proxy = case.proxy().start().await?;
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(upgrade(&["chat"]).token(token).bytes()).await?;
    case.check("the answer", 101, code(&wire.answer("GET").await));
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let mut back = Vec::new();
    for piece in bytes.chunks(30_000) {
        wire.send(piece).await?;
        back.extend(wire.read_exactly(piece.len()).await?);
    }
    case.check("300,000 bytes came back", true, back == bytes);

    let mut wire = Wire::connect(proxy.plain()).await?;
    let mut early = upgrade(&["chat"]).token(token).bytes();
    early.extend(b"early bird");
    wire.send(early).await?;
    let answered = code(&wire.answer("GET").await);
    case.check("early bytes: the answer", 101, &answered);
    let back = tokio::time::timeout(Duration::from_secs(3), wire.read_exactly(10)).await;
    let back = back.map_or("nothing".into(), |back| {
        back.map_or("an error".into(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    });
    case.check("early bytes came back", "early bird", back);
    Ok(())
}

/// WS-05: one side that says no more may still listen; one that goes away takes the other with it.
pub async fn one_side_ends(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|_| Reply::upgrade("websocket", ""));
    let proxy = case.proxy().start().await?;
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(upgrade(&["chat"]).token(token).bytes()).await?;
    wire.answer("GET").await?;
    wire.send("x").await?;
    wire.read_exactly(1).await?;
    wire.finish().await?;
    let (bytes, ended) = wire.rest(Duration::from_secs(10)).await;
    case.check(
        "the upstream hears of it",
        true,
        case.upstream
            .until("its end", Duration::from_secs(10), |seen| seen.iter().any(|one| one.abandoned))
            .await
            .is_ok(),
    );
    case.check("the last word", "last word", String::from_utf8_lossy(&bytes));
    case.check("then the end", true, ended);

    let _ = case.upstream.take();
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(upgrade(&["chat"]).token(token).bytes()).await?;
    wire.answer("GET").await?;
    drop(wire);
    let heard = case
        .upstream
        .until("its end", Duration::from_secs(10), |seen| seen.iter().any(|one| one.abandoned))
        .await;
    case.check("a client that goes away", true, heard.is_ok());
    Ok(())
}

/// WS-06: an upstream that switches to something else than was asked for.
pub async fn another_protocol(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|_| Reply::upgrade("other", ""));
    let proxy = case.proxy().start().await?;
    case.check("to another one", 502, proxy.code(&upgrade(&["chat"]).token(token)).await);
    case.upstream.answer(|_| Reply::upgrade("websocket", ""));
    case.check("without being asked", 502, proxy.code(&Ask::get("/ok").token(token)).await);
    case.upstream.answer(|_| Reply::raw("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno"));
    let answer = proxy.ask(&upgrade(&["chat"]).token(token)).await;
    case.check("a refusal is passed on", 400, code(&answer));
    case.upstream.answer(|_| Reply::raw("HTTP/1.1 101 Switching Protocols\r\n\r\n").then(After::Close));
    case.check("a switch that names nothing", 502, proxy.code(&upgrade(&["chat"]).token(token)).await);
    Ok(())
}

/// WS-07: no tunnel by which later requests pass unseen (W4).
pub async fn no_other_tunnel(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.upstream.answer(|seen| {
        let asked = seen.all("upgrade").join(" ");
        if asked.is_empty() { Reply::default() } else { Reply::upgrade(&asked, "") }
    });
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    let switch = |path: &str, protocol: &str| {
        Ask::get(path)
            .header("Connection", "Upgrade, HTTP2-Settings")
            .header("Upgrade", protocol)
            .header("HTTP2-Settings", "AAMAAABkAAQAAP__")
    };
    for (name, ask) in [
        ("h2c", switch("/ok", "h2c").token(token)),
        ("another protocol", switch("/ok", "custom").token(token)),
        ("h2c on an open path", switch("/open", "h2c")),
        ("websocket on an open path", switch("/open", "websocket")),
    ] {
        let _ = case.upstream.take();
        let answer = proxy.ask(&ask).await;
        case.check(&format!("{name}: no switch"), true, code(&answer) != "101");
        let seen = case.upstream.take();
        let told = seen
            .iter()
            .map(|one| one.shown("upgrade") + &one.shown("http2-settings"))
            .find(|one| one != "--");
        case.check(&format!("{name}: what the upstream hears"), "nothing", told.unwrap_or("nothing".into()));
    }
    let disabled = case.proxy().flag("--http2-disable").start().await?;
    case.check(
        "h2c without HTTP/2: no switch",
        true,
        disabled.code(&switch("/ok", "h2c").token(token)).await != "101",
    );
    Ok(())
}
