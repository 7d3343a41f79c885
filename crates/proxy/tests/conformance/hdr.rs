//! HDR: headers on their way.

use serde_json::json;
use testbed::TestResult;
use testbed::faults::fault_proxy::{Alteration, Fault, Times};

use crate::ask::Ask;
use crate::authn::token_reviews;
use crate::case::Case;
use crate::program::Proxy;

/// The headers by which an upstream could be told who asks.
const FAMILY: [&str; 7] = [
    "X-Remote-User",
    "X-Remote-Groups",
    "X-Remote-Group",
    "X-Remote-Uid",
    "X-Remote-Extra-Scopes",
    "x-ReMoTe-UsEr",
    "X_Remote_User",
];

fn spoofed(ask: Ask) -> Ask {
    FAMILY.iter().fold(ask, |ask, name| ask.header(name, "mallory"))
}

/// What of the spoofed headers came through.
fn left(case: &Case<'_>) -> String {
    let seen = case.upstream.take();
    let Some(first) = seen.first() else { return "nothing came".into() };
    let lines = first.headers.iter().filter(|(_, value)| value.contains("mallory"));
    let mut names: Vec<String> = lines.map(|(name, _)| name.to_lowercase()).collect();
    names.sort();
    names.dedup();
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

/// Asks, and shows one header as it reached the upstream.
async fn reached(case: &Case<'_>, proxy: &Proxy, ask: &Ask, name: &str) -> String {
    let _ = case.upstream.take();
    let code = proxy.code(ask).await;
    case.upstream.take().first().map_or(format!("nothing came, {code}"), |one| one.shown(name))
}

/// HDR-01: who asks is told by the proxy and by nobody else, in one line each.
pub async fn spoofed_where_enabled(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().flag("--auth-header-fields-enabled=true").start().await?;
    let answered = proxy.code(&spoofed(Ask::get("/ok")).token(token)).await;
    case.check("the answer", 200, answered);
    let seen = case.upstream.seen();
    let shown = |name: &str| seen.first().map_or("nothing came".into(), |one| one.shown(name));
    case.check("the user", case.ground.name_of("caller"), shown("x-remote-user"));
    let namespace = &case.ground.namespace;
    let groups = format!("system:serviceaccounts|system:serviceaccounts:{namespace}|system:authenticated");
    case.check("the groups", groups, shown("x-remote-groups"));
    case.check("what was spoofed", "none", left(case));
    Ok(())
}

/// HDR-02: and where the proxy tells nothing, nobody tells anything (W2).
pub async fn spoofed_where_disabled(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    case.check("the answer", 200, proxy.code(&spoofed(Ask::get("/ok")).token(token)).await);
    case.check("what was spoofed", "none", left(case));
    let proxy = case
        .proxy()
        .flags(&[
            "--auth-header-fields-enabled",
            "--auth-header-user-field-name=X-Who",
            "--auth-header-groups-field-name=X-Which",
        ])
        .start()
        .await?;
    let ask = spoofed(Ask::get("/ok")).header("X-Who", "mallory").header("x_which", "mallory").token(token);
    case.check("other names: the answer", 200, proxy.code(&ask).await);
    let told = case.upstream.seen().first().map_or("nothing came".into(), |one| one.shown("x-who"));
    case.check("other names: the user", case.ground.name_of("caller"), told);
    case.check("other names: what was spoofed", "none", left(case));
    Ok(())
}

/// HDR-03: also not where nobody is asked who he is (W1).
pub async fn spoofed_on_open_paths(case: &Case<'_>) -> TestResult {
    for (name, flags) in [
        ("enabled", &["--ignore-paths=/open", "--auth-header-fields-enabled"][..]),
        ("disabled", &["--ignore-paths=/open"]),
    ] {
        let proxy = case.proxy().flags(flags).start().await?;
        case.check(&format!("{name}: the answer"), 200, proxy.code(&spoofed(Ask::get("/open"))).await);
        let told =
            case.upstream.seen().first().map_or("nothing came".into(), |one| one.shown("x-remote-user"));
        case.check(&format!("{name}: the user"), "-", told);
        case.check(&format!("{name}: what was spoofed"), "none", left(case));
    }
    Ok(())
}

/// HDR-04: nobody has the proxy's own headers removed as his connection's (W3).
pub async fn removed_by_connection(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().flags(&["--auth-header-fields-enabled", "--ignore-paths=/open"]).start().await?;
    for named in ["x-remote-user", "close, X-Remote-Groups", "keep-alive,x-remote-USER"] {
        let _ = case.upstream.take();
        let answer = proxy.code(&Ask::get("/ok").header("Connection", named).token(token)).await;
        case.check(&format!("{named}: the answer"), 400, answer);
        case.check(&format!("{named}: came through"), 0, case.upstream.take().len());
    }
    Ok(())
}

/// HDR-05: what any line of Connection names, and what belongs to a connection anyway, ends here.
pub async fn of_the_connection(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok")
        .header("Connection", "")
        .header("Connection", "x-first, keep-alive")
        .header("Connection", "X-Second")
        .header("X-First", "1")
        .header("X-Second", "2")
        .header("X-Third", "3")
        .header("Keep-Alive", "timeout=5")
        .header("Proxy-Connection", "keep-alive")
        .header("Proxy-Authorization", "Basic eDp5")
        .header("Proxy-Authenticate", "Basic")
        .token(token);
    case.check("the answer", 200, proxy.code(&ask).await);
    let seen = case.upstream.take();
    for name in
        ["x-first", "x-second", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate"]
    {
        case.check(name, "-", seen.first().map_or("nothing came".into(), |one| one.shown(name)));
    }
    case.check("x-third", "3", seen.first().map_or("nothing came".into(), |one| one.shown("x-third")));

    case.upstream.answer(|_| {
        testbed::fakes::recorder::Reply::raw(
            "HTTP/1.1 200 OK\r\nConnection: x-own, keep-alive\r\nX-Own: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nX-Kept: 2\r\nContent-Length: 2\r\n\r\nok",
        )
    });
    let answer = proxy.ask(&Ask::get("/ok").token(token)).await?;
    for name in ["x-own", "keep-alive", "proxy-authenticate"] {
        case.check(&format!("in the answer: {name}"), "-", answer.header(name).unwrap_or("-"));
    }
    case.check("in the answer: x-kept", "2", answer.header("x-kept").unwrap_or("-"));
    Ok(())
}

/// HDR-06: the client's address is added behind what it says itself.
pub async fn forwarded_for(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let plain = Ask::get("/ok").token(token);
    case.check("none yet", "127.0.0.1", reached(case, &proxy, &plain, "x-forwarded-for").await);
    let one = plain.clone().header("X-Forwarded-For", "203.0.113.7");
    case.check("one", "203.0.113.7, 127.0.0.1", reached(case, &proxy, &one, "x-forwarded-for").await);
    let two = one.clone().header("x-forwarded-for", "203.0.113.8");
    case.check(
        "two lines",
        "203.0.113.7, 203.0.113.8, 127.0.0.1",
        reached(case, &proxy, &two, "x-forwarded-for").await,
    );
    let others =
        one.header("X-Forwarded-Proto", "https").header("X-Forwarded-Host", "h").header("Forwarded", "for=x");
    for (name, wanted) in [("x-forwarded-proto", "https"), ("x-forwarded-host", "h"), ("forwarded", "for=x")]
    {
        case.check(name, wanted, reached(case, &proxy, &others, name).await);
    }
    Ok(())
}

/// HDR-07: the upstream hears by which name it was called.
pub async fn host(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = Ask::get("/ok").token(token);
    case.check("Host", "proxy.test", reached(case, &proxy, &ask, "host").await);
    let mut without = ask.clone();
    without.headers.retain(|(name, _)| name != "Host");
    case.check("none", "nothing came, 400", reached(case, &proxy, &without, "host").await);
    let two = ask.clone().header("Host", "other.test");
    case.check("two", "nothing came, 400", reached(case, &proxy, &two, "host").await);
    case.check("User-Agent", "-", reached(case, &proxy, &ask, "user-agent").await);
    case.check("Accept-Encoding", "-", reached(case, &proxy, &ask, "accept-encoding").await);
    let agent = ask.header("User-Agent", "a/1").header("Accept-Encoding", "br");
    case.check("User-Agent of the client", "a/1", reached(case, &proxy, &agent, "user-agent").await);
    case.check("Accept-Encoding of the client", "br", reached(case, &proxy, &agent, "accept-encoding").await);
    Ok(())
}

/// HDR-08: of TE only `trailers` goes on.
pub async fn te(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    let ask = |value: &str| Ask::get("/ok").header("TE", value).token(token);
    case.check("trailers", "trailers", reached(case, &proxy, &ask("trailers"), "te").await);
    case.check("others too", "trailers", reached(case, &proxy, &ask("deflate, trailers"), "te").await);
    case.check("others only", "-", reached(case, &proxy, &ask("deflate"), "te").await);
    Ok(())
}

async fn with_user(
    case: &Case<'_>,
    user: serde_json::Value,
    flags: &[&str],
) -> testbed::Result<(testbed::faults::fault_proxy::FaultProxy, Proxy)> {
    let faults = case.faults().await?;
    let alteration = Alteration::by(move |review| {
        for (key, value) in user.as_object().into_iter().flatten() {
            review["status"]["user"][key] = value.clone();
        }
    });
    faults.inject(Fault::Alter(alteration), token_reviews(), Times::Always);
    let proxy =
        case.proxy().api(faults.url())?.flag("--auth-header-fields-enabled").flags(flags).start().await?;
    Ok((faults, proxy))
}

/// HDR-09: whoever is known is at least authenticated.
pub async fn no_groups(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let (_faults, proxy) = with_user(case, json!({ "groups": [] }), &[]).await?;
    let groups = reached(case, &proxy, &Ask::get("/ok").token(token), "x-remote-groups").await;
    case.check("the groups", "system:authenticated", groups);
    let (_faults, proxy) = with_user(case, json!({ "groups": ["system:authenticated", "b"] }), &[]).await?;
    let groups = reached(case, &proxy, &Ask::get("/ok").token(token), "x-remote-groups").await;
    case.check("no group twice", "system:authenticated|b", groups);
    Ok(())
}

/// HDR-10: the separator, and a group that has it in its name (W11).
pub async fn separator(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let ask = Ask::get("/ok").token(token);
    let (_faults, proxy) =
        with_user(case, json!({ "groups": ["a", "b"] }), &["--auth-header-groups-field-separator=;"]).await?;
    case.check(
        "another one",
        "a;b;system:authenticated",
        reached(case, &proxy, &ask, "x-remote-groups").await,
    );
    let (_faults, proxy) = with_user(case, json!({ "groups": ["a|admins"] }), &[]).await?;
    let told = reached(case, &proxy, &ask, "x-remote-groups").await;
    let split = told.split('|').any(|group| group == "admins");
    case.check(
        "a group that would be two",
        "not told as two",
        if split { "told as two" } else { "not told as two" },
    );
    Ok(())
}

/// HDR-11: a name that cannot stand in a header.
pub async fn unspeakable_names(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let allow = Alteration::by(|review| review["status"]["allowed"] = json!(true));
    for (name, user) in [
        ("a line's end in the user", json!({ "username": "a\r\nX-Admin: yes" })),
        ("a NUL in the user", json!({ "username": "a\u{0}b" })),
        ("a line's end in a group", json!({ "groups": ["a\nb"] })),
    ] {
        let (faults, proxy) = with_user(case, user, &[]).await?;
        faults.inject(Fault::Alter(allow.clone()), crate::authz::access_reviews(), Times::Always);
        let _ = case.upstream.take();
        case.check(name, 502, proxy.code(&Ask::get("/ok").token(token)).await);
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
    }
    let (faults, proxy) = with_user(case, json!({ "username": "jos\u{e9}" }), &[]).await?;
    faults.inject(Fault::Alter(allow), crate::authz::access_reviews(), Times::Always);
    let told = reached(case, &proxy, &Ask::get("/ok").token(token), "x-remote-user").await;
    case.check("a letter beyond ASCII", "jos\u{e9}", told);
    Ok(())
}

/// HDR-12: trailers go on, but tell nobody who asks.
pub async fn trailers(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().flag("--auth-header-fields-enabled").start().await?;
    let mut ask = Ask::new("POST", "/ok")
        .header("Transfer-Encoding", "chunked")
        .header("Trailer", "X-Sum, X-Remote-User")
        .token(token);
    ask.body = b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Remote-User: mallory\r\n\r\n".to_vec();
    case.check("the answer", 200, proxy.code(&ask).await);
    let seen = case
        .upstream
        .until("the body", crate::ground::SOON, |seen| seen.iter().any(|one| one.complete))
        .await?;
    let trailer = |name: &str| {
        let found = seen[0].trailers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("-".into(), |(_, value)| value.clone())
    };
    case.check("a trailer", "1", trailer("x-sum"));
    case.check("a spoofed trailer", "-", trailer("x-remote-user"));
    case.check("the body", "abc", String::from_utf8_lossy(&seen[0].body));
    Ok(())
}
