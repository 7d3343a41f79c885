//! SMUG: requests that two readers end at different places. None of them may become two.

use std::time::Duration;

use testbed::TestResult;
use testbed::harness::wire::{Wire, frames};

use crate::ask::Ask;
use crate::case::Case;
use crate::ground::SOON;

/// What is hidden in each of them: its path tells that it came through.
const HIDDEN: &str = "GET /ok/hidden HTTP/1.1\r\nHost: proxy.test\r\n\r\n";

/// A request by its id, with `TOKEN` for the line of the token. All are refused and the connection closed.
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

/// SMUG-01 to SMUG-14, SMUG-21 and SMUG-22: on a path that needs a permission, and on one that needs none.
pub async fn refused(case: &Case<'_>, id: &str) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    let request =
        CORPUS.iter().find(|(known, _)| *known == id).map(|(_, request)| *request).ok_or("no such id")?;
    for (name, path, line) in [
        ("authorized", "/ok", format!("Authorization: Bearer {token}\r\n")),
        ("open", "/open", String::new()),
    ] {
        let end = if id == "SMUG-12" { line.replace('\r', "") } else { line.clone() };
        let hidden = HIDDEN.replacen("\r\n\r\n", &format!("\r\n{line}\r\n"), 1);
        let bytes = request.replacen("/ok", path, 1).replace("TOKEN", &end).replace("HIDDEN", &hidden);
        let _ = case.upstream.take();
        let mut wire = Wire::connect(proxy.plain()).await?;
        wire.send(bytes).await?;
        let (answer, closed) = wire.rest(Duration::from_secs(2)).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let codes: Vec<&str> =
            text.split("HTTP/1.").skip(1).filter_map(|one| one.split(' ').nth(1)).collect();
        let codes: Vec<&str> = codes.into_iter().filter(|code| code.len() == 3).collect();
        let refused = codes.len() <= 1 && codes.iter().all(|code| *code >= "400");
        case.check(&format!("{name}: refused"), "yes", if refused { "yes".into() } else { codes.join(" ") });
        case.check(&format!("{name}: closed"), true, closed);
        let whole = case.upstream.take().iter().filter(|one| one.complete).count();
        case.check(&format!("{name}: requests that came through"), 0, whole);
    }
    Ok(())
}

/// Lines of a request over HTTP/2 that no HTTP/1 request can carry.
async fn over_h2(case: &Case<'_>, requests: &[(&str, Vec<(&str, &str)>)]) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    let authorization = format!("Bearer {token}");
    for (name, more) in requests {
        let mut lines =
            vec![(":method", "GET"), (":scheme", "http"), (":authority", "proxy.test"), (":path", "/ok")];
        for (key, value) in more.iter().filter(|(key, _)| key.starts_with(':')) {
            lines.retain(|(known, _)| known != key);
            lines.push((key, value));
        }
        lines.push(("authorization", &authorization));
        lines.extend(more.iter().filter(|(key, _)| !key.starts_with(':')).copied());
        let _ = case.upstream.take();
        let mut wire = Wire::connect(proxy.plain()).await?;
        wire.send([frames::begin(), frames::request(1, &lines)].concat()).await?;
        let said = frames::listen(&mut wire, SOON, |said| {
            !said.answers.is_empty() || !said.resets.is_empty() || said.goaway.is_some()
        })
        .await?;
        let refused = said.answers.iter().all(|(_, code)| (400..500).contains(code));
        case.check(
            &format!("{name}: refused"),
            "yes",
            if refused { "yes".into() } else { format!("{:?}", said.answers) },
        );
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
    }
    Ok(())
}

/// SMUG-15: a line's end in a header of HTTP/2.
pub async fn line_ends(case: &Case<'_>) -> TestResult {
    over_h2(
        case,
        &[
            ("in a value", vec![("x-a", "1\r\nTransfer-Encoding: chunked")]),
            ("a bare one in a value", vec![("x-a", "1\nx-b: 2")]),
            ("a NUL in a value", vec![("x-a", "1\x002")]),
            ("in a name", vec![("x-a: 1\r\nx-b", "2")]),
            ("in the path", vec![(":path", "/ok HTTP/1.1\r\nX-A: 1\r\n\r\n")]),
            ("a space in the path", vec![(":path", "/ok x")]),
            ("in the method", vec![(":method", "GET /other HTTP/1.1\r\n\r\n")]),
        ],
    )
    .await
}

/// SMUG-16: headers of connections over HTTP/2.
pub async fn of_connections(case: &Case<'_>) -> TestResult {
    over_h2(
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

/// SMUG-17: a path over HTTP/2 that is none, and a name that is another.
pub async fn no_paths(case: &Case<'_>) -> TestResult {
    over_h2(
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

/// SMUG-18: a length that is not that of the body.
pub async fn wrong_length(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let authorization = format!("Bearer {token}");
    let lines = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "proxy.test"),
        (":path", "/ok"),
        ("authorization", &authorization),
        ("content-length", "3"),
    ];
    for (name, body) in [("longer", "0123456789"), ("shorter", "0")] {
        let _ = case.upstream.take();
        let mut wire = Wire::connect(proxy.plain()).await?;
        let head = frames::frame(0x1, 0x4, 1, &frames::block(&lines));
        wire.send([frames::begin(), head, frames::frame(0x0, 0x1, 1, body.as_bytes())].concat()).await?;
        let said = frames::listen(&mut wire, Duration::from_secs(5), |said| {
            !said.answers.is_empty() || !said.resets.is_empty() || said.goaway.is_some()
        })
        .await?;
        let good = said.answers.iter().any(|(_, code)| *code == 200);
        case.check(&format!("{name}: refused"), true, !good);
        case.check(
            &format!("{name}: came through whole"),
            0,
            case.upstream.take().iter().filter(|one| one.complete).count(),
        );
    }
    Ok(())
}

/// SMUG-19: a switch of protocols with a body behind it.
pub async fn switch_with_a_body(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    // The upstream does not switch: what comes behind must not be a tunnel.
    let proxy = case.proxy().start().await?;
    let authorization = format!("Authorization: Bearer {token}\r\n");
    let hidden = "GET /secret HTTP/1.1\r\nHost: proxy.test\r\n\r\n";
    let request = format!(
        "POST /ok HTTP/1.1\r\nHost: proxy.test\r\n{authorization}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: {}\r\n\r\n{hidden}",
        hidden.len()
    );
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(request).await?;
    wire.rest(Duration::from_secs(2)).await;
    let paths: Vec<String> = case.upstream.take().iter().map(|one| one.target.clone()).collect();
    case.check("no second request", false, paths.iter().any(|path| path == "/secret"));
    Ok(())
}

/// SMUG-20: an early refusal with a body that was not read: what is left of it is no request.
pub async fn unread_body(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let hidden =
        format!("GET /ok/hidden HTTP/1.1\r\nHost: proxy.test\r\nAuthorization: Bearer {token}\r\n\r\n");
    let mut ask = Ask::new("POST", "/ok").header("Content-Length", &hidden.len().to_string());
    ask.body = hidden.into_bytes();
    let mut wire = Wire::connect(proxy.plain()).await?;
    wire.send(ask.bytes()).await?;
    let (bytes, _) = wire.rest(Duration::from_secs(2)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    case.check("one answer", 1, text.matches("HTTP/1.1 ").count());
    case.check("came through", 0, case.upstream.take().len());
    Ok(())
}

/// SMUG-23: what is refused alone is refused behind a good request too, in one breath with it.
pub async fn behind_another(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let good = String::from_utf8(Ask::get("/ok/first").token(token).bytes())?;
    for id in ["SMUG-01", "SMUG-02", "SMUG-06", "SMUG-11", "SMUG-12"] {
        let bad =
            CORPUS.iter().find(|(known, _)| *known == id).map(|(_, request)| *request).ok_or("no such id")?;
        let line = format!("Authorization: Bearer {token}\r\n");
        let line = if id == "SMUG-12" { line.replace('\r', "") } else { line };
        let bad = bad.replace("TOKEN", &line).replace("HIDDEN", "");
        let _ = case.upstream.take();
        let mut wire = Wire::connect(proxy.plain()).await?;
        wire.send(format!("{good}{bad}")).await?;
        let (_, closed) = wire.rest(Duration::from_secs(2)).await;
        let paths: Vec<String> =
            case.upstream.take().into_iter().filter(|one| one.complete).map(|one| one.target).collect();
        case.check(&format!("{id}: what came through"), "/ok/first", paths.join(" "));
        case.check(&format!("{id}: closed"), true, closed);
    }
    Ok(())
}
