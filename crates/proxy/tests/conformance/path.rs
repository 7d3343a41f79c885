//! PATH: the authorized path and the forwarded path.

use testbed::TestResult;

use crate::case::Case;
use crate::proxy::Proxy;
use crate::raw_request::RawRequest;

/// Sends a request and returns its status and the target that reached the upstream.
async fn outcome(case: &Case<'_>, proxy: &Proxy, request: &RawRequest) -> String {
    let _ = case.upstream.take();
    let code = proxy.status(request).await;
    match case.upstream.take().first() {
        Some(received) => format!("{code}, forwarded as {}", received.target),
        None => format!("{code}, not forwarded"),
    }
}

/// Checks that ambiguous paths are rejected. The caller may use every path, so nothing else rejects them.
async fn check_rejected(case: &Case<'_>, paths: &[&str]) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.fixture.grant_paths(&case.fixture.username("caller"), &["*"], &["get"]).await?;
    let proxy = case.proxy().flag("--ignore-paths=/open/*").start().await?;
    for path in paths {
        let received = outcome(case, &proxy, &RawRequest::get(path).token(token)).await;
        case.check(path, "400, not forwarded", received);
        let open = path.replacen("/ok", "/open", 1);
        let received = outcome(case, &proxy, &RawRequest::get(&open)).await;
        case.check(
            &format!("open: {open}"),
            "not forwarded",
            if received.contains("not forwarded") { "not forwarded".into() } else { received },
        );
    }
    Ok(())
}

/// PATH-01: a path with an empty segment is rejected.
pub async fn double_slashes_are_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, &["//ok", "/ok//x", "/ok/x//"]).await
}

/// PATH-02: a path with `.` or `..` segments is rejected.
pub async fn dot_segments_are_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, &["/ok/./x", "/ok/../x", "/ok/..", "/ok/."]).await
}

/// PATH-03: a path with percent-encoded dot segments is rejected.
pub async fn encoded_dot_segments_are_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, &["/ok/%2e%2e/x", "/ok/%2E/x", "/ok/.%2e", "/ok/%2e%2e"]).await
}

/// PATH-04: a path with a percent-encoded slash is rejected.
pub async fn encoded_slash_is_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, &["/ok%2fx", "/ok/%2F"]).await
}

/// PATH-05: a path with a percent-encoded backslash is rejected.
pub async fn encoded_backslash_is_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, &["/ok%5cx", "/ok/%5C..%5Cx"]).await
}

/// PATH-06: a path with an encoded NUL or an invalid escape is rejected.
pub async fn nul_and_invalid_escapes_are_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, &["/ok%00", "/ok/%00x"]).await?;
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    for path in ["/ok/%zz", "/ok/%", "/ok/%2"] {
        let received = outcome(case, &proxy, &RawRequest::get(path).token(token)).await;
        case.check(&format!("invalid escape: {path}"), "400, not forwarded", received);
    }
    Ok(())
}

/// PATH-07: the authorized path is forwarded byte for byte, escapes included.
pub async fn path_is_forwarded_as_written(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().start().await?;
    for path in [
        "/ok/a;v=1",
        "/ok/%41%20b",
        "/ok/~a%7Eb",
        "/ok/%C3%A9",
        "/ok/a:b@c",
        "/ok/a?x=%2e%2e&y=/../",
        "/ok/...",
        "/ok/.a",
        "/ok/?",
        "/ok/a%25b",
    ] {
        let received = outcome(case, &proxy, &RawRequest::get(path).token(token)).await;
        case.check(path, format!("200, forwarded as {path}"), received);
    }
    Ok(())
}

/// PATH-08: a trailing slash is part of the path.
pub async fn trailing_slash_is_significant(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.fixture.grant_paths(&case.fixture.username("caller"), &["/exact"], &["get"]).await?;
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    case.check(
        "without a slash",
        "200, forwarded as /exact",
        outcome(case, &proxy, &RawRequest::get("/exact").token(token)).await,
    );
    case.check(
        "with a slash",
        "403, not forwarded",
        outcome(case, &proxy, &RawRequest::get("/exact/").token(token)).await,
    );
    case.check(
        "below a granted path",
        "200, forwarded as /ok/",
        outcome(case, &proxy, &RawRequest::get("/ok/").token(token)).await,
    );
    case.check(
        "ignored path, without a slash",
        "200, forwarded as /open",
        outcome(case, &proxy, &RawRequest::get("/open")).await,
    );
    case.check(
        "ignored path, with a slash",
        "401, not forwarded",
        outcome(case, &proxy, &RawRequest::get("/open/")).await,
    );
    Ok(())
}

/// PATH-09: a target in absolute form is accepted only if it names the Host.
pub async fn absolute_form_must_match_host(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    let same = RawRequest::get("http://proxy.test/ok?x=1").token(token);
    case.check("the same host", "200, forwarded as /ok?x=1", outcome(case, &proxy, &same).await);
    let open = RawRequest::get("http://proxy.test/open");
    case.check("an ignored path", "200, forwarded as /open", outcome(case, &proxy, &open).await);
    let other = RawRequest::get("http://other.test/ok").token(token);
    let _ = case.upstream.take();
    let code = proxy.status(&other).await;
    let host =
        case.upstream.take().first().map_or("nothing came".into(), |request| request.joined_header("host"));
    case.check("another name", "400, nothing came", format!("{code}, {host}"));
    case.check(
        "no path",
        "403, not forwarded",
        outcome(case, &proxy, &RawRequest::get("http://proxy.test").token(token)).await,
    );
    Ok(())
}

/// PATH-10: targets of CONNECT, `*` and targets without a leading slash are not forwarded.
pub async fn targets_without_path_are_rejected(case: &Case<'_>) -> TestResult {
    let token = case.fixture.caller_token().await?;
    case.fixture.grant_paths(&case.fixture.username("caller"), &["*"], &["*"]).await?;
    let proxy = case.proxy().start().await?;
    for (name, request, expected) in [
        ("OPTIONS *", RawRequest::new("OPTIONS", "*"), "200"),
        ("GET *", RawRequest::new("GET", "*"), "400"),
        ("CONNECT with an authority", RawRequest::new("CONNECT", "other.test:443"), "404"),
        ("CONNECT with a path", RawRequest::new("CONNECT", "/ok"), "refused"),
        ("no leading slash", RawRequest::new("GET", "ok"), "400"),
    ] {
        let _ = case.upstream.take();
        let code = proxy.status(&request.token(token)).await;
        let received = if expected == "refused" && code.starts_with('4') { "refused".into() } else { code };
        case.check(name, expected, received);
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
    }
    Ok(())
}

/// PATH-11: a target with a fragment or non-ASCII bytes is rejected.
pub async fn fragments_and_non_ascii_are_rejected(case: &Case<'_>) -> TestResult {
    check_rejected(case, &["/ok#f", "/ok/x#/../y", "/ok?x#f", "/ok/\u{e9}"]).await
}
