//! HDR: forwarded headers.

use serde_json::json;
use testbed::TestResult;
use testbed::faults::fault_proxy::{Fault, ResponseRewrite, Times};

use crate::authn::token_reviews;
use crate::case::Case;
use crate::proxy::Proxy;
use crate::raw_request::RawRequest;

/// Headers from which an upstream could take an identity.
const IDENTITY_HEADERS: [&str; 7] = [
    "X-Remote-User",
    "X-Remote-Groups",
    "X-Remote-Group",
    "X-Remote-Uid",
    "X-Remote-Extra-Scopes",
    "x-ReMoTe-UsEr",
    "X_Remote_User",
];

fn with_spoofed_identity(request: RawRequest) -> RawRequest {
    IDENTITY_HEADERS.iter().fold(request, |request, name| request.header(name, "mallory"))
}

/// Returns the spoofed headers that reached the upstream.
fn forwarded_spoofed_headers(case: &Case<'_>) -> String {
    let received = case.upstream.take();
    let Some(first) = received.first() else { return "nothing came".into() };
    let spoofed = first.headers.iter().filter(|(_, value)| value.contains("mallory"));
    let mut names: Vec<String> = spoofed.map(|(name, _)| name.to_lowercase()).collect();
    names.sort();
    names.dedup();
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

/// Sends a request and returns a header as it reached the upstream.
async fn forwarded_header(case: &Case<'_>, proxy: &Proxy, request: &RawRequest, name: &str) -> String {
    let _ = case.upstream.take();
    let code = proxy.status(request).await;
    case.upstream
        .take()
        .first()
        .map_or(format!("nothing came, {code}"), |request| request.joined_header(name))
}

/// HDR-01: identity headers sent by the client are replaced by those of the proxy, one value each.
pub async fn spoofed_identity_headers_are_replaced(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().flag("--auth-header-fields-enabled=true").start().await?;
    let status = proxy.status(&with_spoofed_identity(RawRequest::get("/ok")).token(token)).await;
    case.check("the answer", 200, status);
    let received = case.upstream.requests();
    let header =
        |name: &str| received.first().map_or("nothing came".into(), |request| request.joined_header(name));
    case.check("the user", case.fixture.username("caller"), header("x-remote-user"));
    let namespace = &case.fixture.namespace;
    let groups = format!("system:serviceaccounts|system:serviceaccounts:{namespace}|system:authenticated");
    case.check("the groups", groups, header("x-remote-groups"));
    case.check("what was spoofed", "none", forwarded_spoofed_headers(case));
    Ok(())
}

/// HDR-02: identity headers sent by the client are removed even if the proxy sets none, and for renamed
/// headers.
pub async fn spoofed_headers_are_stripped_when_disabled(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    case.check(
        "the answer",
        200,
        proxy.status(&with_spoofed_identity(RawRequest::get("/ok")).token(token)).await,
    );
    case.check("what was spoofed", "none", forwarded_spoofed_headers(case));
    let proxy = case
        .proxy()
        .flags(&[
            "--auth-header-fields-enabled",
            "--auth-header-user-field-name=X-Who",
            "--auth-header-groups-field-name=X-Which",
        ])
        .start()
        .await?;
    let request = with_spoofed_identity(RawRequest::get("/ok"))
        .header("X-Who", "mallory")
        .header("x_which", "mallory")
        .token(token);
    case.check("other names: the answer", 200, proxy.status(&request).await);
    let forwarded = case
        .upstream
        .requests()
        .first()
        .map_or("nothing came".into(), |request| request.joined_header("x-who"));
    case.check("other names: the user", case.fixture.username("caller"), forwarded);
    case.check("other names: what was spoofed", "none", forwarded_spoofed_headers(case));
    Ok(())
}

/// HDR-03: identity headers sent by the client are removed on paths without authentication.
pub async fn spoofed_headers_are_stripped_on_ignored_paths(case: &Case<'_>) -> TestResult {
    for (name, flags) in [
        ("enabled", &["--ignore-paths=/open", "--auth-header-fields-enabled"][..]),
        ("disabled", &["--ignore-paths=/open"]),
    ] {
        let proxy = case.proxy().flags(flags).start().await?;
        case.check(
            &format!("{name}: the answer"),
            200,
            proxy.status(&with_spoofed_identity(RawRequest::get("/open"))).await,
        );
        let forwarded = case
            .upstream
            .requests()
            .first()
            .map_or("nothing came".into(), |request| request.joined_header("x-remote-user"));
        case.check(&format!("{name}: the user"), "-", forwarded);
        case.check(&format!("{name}: what was spoofed"), "none", forwarded_spoofed_headers(case));
    }
    Ok(())
}

/// HDR-04: a Connection header that names an identity header is rejected.
pub async fn connection_header_cannot_drop_identity(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().flags(&["--auth-header-fields-enabled", "--ignore-paths=/open"]).start().await?;
    for named in ["x-remote-user", "close, X-Remote-Groups", "keep-alive,x-remote-USER"] {
        let _ = case.upstream.take();
        let response = proxy.status(&RawRequest::get("/ok").header("Connection", named).token(token)).await;
        case.check(&format!("{named}: the answer"), 400, response);
        case.check(&format!("{named}: came through"), 0, case.upstream.take().len());
    }
    Ok(())
}

/// HDR-05: hop-by-hop headers and those named by any Connection header are removed in both directions.
pub async fn hop_by_hop_headers_are_not_forwarded(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok")
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
    case.check("the answer", 200, proxy.status(&request).await);
    let received = case.upstream.take();
    for name in
        ["x-first", "x-second", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate"]
    {
        case.check(
            name,
            "-",
            received.first().map_or("nothing came".into(), |request| request.joined_header(name)),
        );
    }
    case.check(
        "x-third",
        "3",
        received.first().map_or("nothing came".into(), |request| request.joined_header("x-third")),
    );

    case.upstream.answer(|_| {
        testbed::fakes::recorder::Reply::raw(
            "HTTP/1.1 200 OK\r\nConnection: x-own, keep-alive\r\nX-Own: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nX-Kept: 2\r\nContent-Length: 2\r\n\r\nok",
        )
    });
    let response = proxy.send(&RawRequest::get("/ok").token(token)).await?;
    for name in ["x-own", "keep-alive", "proxy-authenticate"] {
        case.check(&format!("in the answer: {name}"), "-", response.header(name).unwrap_or("-"));
    }
    case.check("in the answer: x-kept", "2", response.header("x-kept").unwrap_or("-"));
    Ok(())
}

/// HDR-06: the client address is appended to X-Forwarded-For; other forwarding headers are unchanged.
pub async fn x_forwarded_for_appends_client_address(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let plain = RawRequest::get("/ok").token(token);
    case.check("no header", "127.0.0.1", forwarded_header(case, &proxy, &plain, "x-forwarded-for").await);
    let with_header = plain.clone().header("X-Forwarded-For", "203.0.113.7");
    case.check(
        "one header",
        "203.0.113.7, 127.0.0.1",
        forwarded_header(case, &proxy, &with_header, "x-forwarded-for").await,
    );
    let with_two = with_header.clone().header("x-forwarded-for", "203.0.113.8");
    case.check(
        "two headers",
        "203.0.113.7, 203.0.113.8, 127.0.0.1",
        forwarded_header(case, &proxy, &with_two, "x-forwarded-for").await,
    );
    let others = with_header
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Host", "h")
        .header("Forwarded", "for=x");
    for (name, expected) in
        [("x-forwarded-proto", "https"), ("x-forwarded-host", "h"), ("forwarded", "for=x")]
    {
        case.check(name, expected, forwarded_header(case, &proxy, &others, name).await);
    }
    Ok(())
}

/// HDR-07: Host is required once and forwarded; User-Agent and Accept-Encoding are not added.
pub async fn host_is_forwarded_unchanged(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = RawRequest::get("/ok").token(token);
    case.check("Host", "proxy.test", forwarded_header(case, &proxy, &request, "host").await);
    let mut without = request.clone();
    without.headers.retain(|(name, _)| name != "Host");
    case.check("no Host", "nothing came, 400", forwarded_header(case, &proxy, &without, "host").await);
    let two = request.clone().header("Host", "other.test");
    case.check("two Hosts", "nothing came, 400", forwarded_header(case, &proxy, &two, "host").await);
    case.check("User-Agent", "-", forwarded_header(case, &proxy, &request, "user-agent").await);
    case.check("Accept-Encoding", "-", forwarded_header(case, &proxy, &request, "accept-encoding").await);
    let agent = request.header("User-Agent", "a/1").header("Accept-Encoding", "br");
    case.check("User-Agent of the client", "a/1", forwarded_header(case, &proxy, &agent, "user-agent").await);
    case.check(
        "Accept-Encoding of the client",
        "br",
        forwarded_header(case, &proxy, &agent, "accept-encoding").await,
    );
    Ok(())
}

/// HDR-08: only `trailers` of a TE header is forwarded.
pub async fn only_te_trailers_is_forwarded(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    let request = |value: &str| RawRequest::get("/ok").header("TE", value).token(token);
    case.check("trailers", "trailers", forwarded_header(case, &proxy, &request("trailers"), "te").await);
    case.check(
        "trailers and others",
        "trailers",
        forwarded_header(case, &proxy, &request("deflate, trailers"), "te").await,
    );
    case.check("others only", "-", forwarded_header(case, &proxy, &request("deflate"), "te").await);
    Ok(())
}

/// Starts a proxy whose TokenReviews return a changed user.
async fn start_with_user(
    case: &Case<'_>,
    user: serde_json::Value,
    flags: &[&str],
) -> testbed::Result<(testbed::faults::fault_proxy::FaultProxy, Proxy)> {
    let faults = case.faults().await?;
    let alteration = ResponseRewrite::new(move |review| {
        for (key, value) in user.as_object().into_iter().flatten() {
            review["status"]["user"][key] = value.clone();
        }
    });
    faults.inject(Fault::RewriteResponse(alteration), token_reviews(), Times::Always);
    let proxy = case
        .proxy()
        .api_server(faults.url())?
        .flag("--auth-header-fields-enabled")
        .flags(flags)
        .start()
        .await?;
    Ok((faults, proxy))
}

/// HDR-09: `system:authenticated` is always a group, without duplicates.
pub async fn system_authenticated_is_always_a_group(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let (_faults, proxy) = start_with_user(case, json!({ "groups": [] }), &[]).await?;
    let groups =
        forwarded_header(case, &proxy, &RawRequest::get("/ok").token(token), "x-remote-groups").await;
    case.check("the groups", "system:authenticated", groups);
    let (_faults, proxy) =
        start_with_user(case, json!({ "groups": ["system:authenticated", "b"] }), &[]).await?;
    let groups =
        forwarded_header(case, &proxy, &RawRequest::get("/ok").token(token), "x-remote-groups").await;
    case.check("no group twice", "system:authenticated|b", groups);
    Ok(())
}

/// HDR-10: the group separator is configurable, and a group that contains it is not forwarded as two
/// groups.
pub async fn group_with_separator_is_not_split(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let request = RawRequest::get("/ok").token(token);
    let (_faults, proxy) =
        start_with_user(case, json!({ "groups": ["a", "b"] }), &["--auth-header-groups-field-separator=;"])
            .await?;
    case.check(
        "another separator",
        "a;b;system:authenticated",
        forwarded_header(case, &proxy, &request, "x-remote-groups").await,
    );
    let (_faults, proxy) = start_with_user(case, json!({ "groups": ["a|admins"] }), &[]).await?;
    let forwarded = forwarded_header(case, &proxy, &request, "x-remote-groups").await;
    let is_split = forwarded.split('|').any(|group| group == "admins");
    case.check(
        "a group that would be two",
        "not split into two",
        if is_split { "split into two" } else { "not split into two" },
    );
    Ok(())
}

/// HDR-11: a user or group that cannot be a header value returns 502.
pub async fn unencodable_identity_returns_502(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let allow = ResponseRewrite::new(|review| review["status"]["allowed"] = json!(true));
    for (name, user) in [
        ("a line break in the user", json!({ "username": "a\r\nX-Admin: yes" })),
        ("a NUL in the user", json!({ "username": "a\u{0}b" })),
        ("a line break in a group", json!({ "groups": ["a\nb"] })),
    ] {
        let (faults, proxy) = start_with_user(case, user, &[]).await?;
        faults.inject(Fault::RewriteResponse(allow.clone()), crate::authz::access_reviews(), Times::Always);
        let _ = case.upstream.take();
        case.check(name, 502, proxy.status(&RawRequest::get("/ok").token(token)).await);
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
    }
    let (faults, proxy) = start_with_user(case, json!({ "username": "jos\u{e9}" }), &[]).await?;
    faults.inject(Fault::RewriteResponse(allow), crate::authz::access_reviews(), Times::Always);
    let forwarded =
        forwarded_header(case, &proxy, &RawRequest::get("/ok").token(token), "x-remote-user").await;
    case.check("a non-ASCII letter", "jos\u{e9}", forwarded);
    Ok(())
}

/// HDR-12: request trailers are forwarded, except identity headers.
pub async fn request_trailers_are_forwarded_without_identity(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().flag("--auth-header-fields-enabled").start().await?;
    let mut request = RawRequest::new("POST", "/ok")
        .header("Transfer-Encoding", "chunked")
        .header("Trailer", "X-Sum, X-Remote-User")
        .token(token);
    request.body = b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Remote-User: mallory\r\n\r\n".to_vec();
    case.check("the answer", 200, proxy.status(&request).await);
    let received = case
        .upstream
        .wait_for("the body", crate::fixture::SOON, |received| {
            received.iter().any(|request| request.complete)
        })
        .await?;
    let trailer = |name: &str| {
        let found = received[0].trailers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("-".into(), |(_, value)| value.clone())
    };
    case.check("a trailer", "1", trailer("x-sum"));
    case.check("a spoofed trailer", "-", trailer("x-remote-user"));
    case.check("the body", "abc", String::from_utf8_lossy(&received[0].body));
    Ok(())
}
