//! PATH: which path is asked about, and which one is forwarded.

use testbed::TestResult;

use crate::ask::Ask;
use crate::case::Case;
use crate::program::Proxy;

/// The code, and which target reached the upstream.
async fn outcome(case: &Case<'_>, proxy: &Proxy, ask: &Ask) -> String {
    let _ = case.upstream.take();
    let code = proxy.code(ask).await;
    match case.upstream.take().first() {
        Some(seen) => format!("{code}, forwarded as {}", seen.target),
        None => format!("{code}, not forwarded"),
    }
}

/// Paths that two readers read differently are refused: with a permission for everything, so that nothing else refuses them.
async fn refused(case: &Case<'_>, paths: &[&str]) -> TestResult {
    let token = case.ground.caller().await?;
    case.ground.grant_paths(&case.ground.name_of("caller"), &["*"], &["get"]).await?;
    let proxy = case.proxy().flag("--ignore-paths=/open/*").start().await?;
    for path in paths {
        let seen = outcome(case, &proxy, &Ask::get(path).token(token)).await;
        case.check(path, "400, not forwarded", seen);
        let open = path.replacen("/ok", "/open", 1);
        let seen = outcome(case, &proxy, &Ask::get(&open)).await;
        case.check(
            &format!("open: {open}"),
            "not forwarded",
            if seen.contains("not forwarded") { "not forwarded".into() } else { seen },
        );
    }
    Ok(())
}

/// PATH-01.
pub async fn double_slashes(case: &Case<'_>) -> TestResult {
    refused(case, &["//ok", "/ok//x", "/ok/x//"]).await
}

/// PATH-02.
pub async fn dots(case: &Case<'_>) -> TestResult {
    refused(case, &["/ok/./x", "/ok/../x", "/ok/..", "/ok/."]).await
}

/// PATH-03: dots that only a second reader sees (W6).
pub async fn encoded_dots(case: &Case<'_>) -> TestResult {
    refused(case, &["/ok/%2e%2e/x", "/ok/%2E/x", "/ok/.%2e", "/ok/%2e%2e"]).await
}

/// PATH-04.
pub async fn encoded_slash(case: &Case<'_>) -> TestResult {
    refused(case, &["/ok%2fx", "/ok/%2F"]).await
}

/// PATH-05.
pub async fn backslash(case: &Case<'_>) -> TestResult {
    refused(case, &["/ok%5cx", "/ok/%5C..%5Cx"]).await
}

/// PATH-06.
pub async fn nul(case: &Case<'_>) -> TestResult {
    refused(case, &["/ok%00", "/ok/%00x"]).await?;
    let token = case.ground.caller().await?;
    let proxy = case.proxy().start().await?;
    for path in ["/ok/%zz", "/ok/%", "/ok/%2"] {
        let seen = outcome(case, &proxy, &Ask::get(path).token(token)).await;
        case.check(&format!("no escape: {path}"), "400, not forwarded", seen);
    }
    Ok(())
}

/// PATH-07: what one asks about is what one forwards, escapes as they were written.
pub async fn as_written(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
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
        let seen = outcome(case, &proxy, &Ask::get(path).token(token)).await;
        case.check(path, format!("200, forwarded as {path}"), seen);
    }
    Ok(())
}

/// PATH-08: a slash at the end is part of the name.
pub async fn trailing_slash(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.ground.grant_paths(&case.ground.name_of("caller"), &["/exact"], &["get"]).await?;
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    case.check(
        "without",
        "200, forwarded as /exact",
        outcome(case, &proxy, &Ask::get("/exact").token(token)).await,
    );
    case.check("with", "403, not forwarded", outcome(case, &proxy, &Ask::get("/exact/").token(token)).await);
    case.check(
        "below a rule",
        "200, forwarded as /ok/",
        outcome(case, &proxy, &Ask::get("/ok/").token(token)).await,
    );
    case.check("open, without", "200, forwarded as /open", outcome(case, &proxy, &Ask::get("/open")).await);
    case.check("open, with", "401, not forwarded", outcome(case, &proxy, &Ask::get("/open/")).await);
    Ok(())
}

/// PATH-09: a target with a name in it.
pub async fn absolute_form(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    let proxy = case.proxy().flag("--ignore-paths=/open").start().await?;
    let same = Ask::get("http://proxy.test/ok?x=1").token(token);
    case.check("the same name", "200, forwarded as /ok?x=1", outcome(case, &proxy, &same).await);
    let open = Ask::get("http://proxy.test/open");
    case.check("an open path", "200, forwarded as /open", outcome(case, &proxy, &open).await);
    let other = Ask::get("http://other.test/ok").token(token);
    let _ = case.upstream.take();
    let code = proxy.code(&other).await;
    let host = case.upstream.take().first().map_or("nothing came".into(), |one| one.shown("host"));
    case.check("another name", "400, nothing came", format!("{code}, {host}"));
    case.check(
        "no path",
        "403, not forwarded",
        outcome(case, &proxy, &Ask::get("http://proxy.test").token(token)).await,
    );
    Ok(())
}

/// PATH-10: targets that are no paths.
pub async fn no_paths(case: &Case<'_>) -> TestResult {
    let token = case.ground.caller().await?;
    case.ground.grant_paths(&case.ground.name_of("caller"), &["*"], &["*"]).await?;
    let proxy = case.proxy().start().await?;
    for (name, ask, wanted) in [
        ("OPTIONS *", Ask::new("OPTIONS", "*"), "200"),
        ("GET *", Ask::new("GET", "*"), "400"),
        ("CONNECT with a name", Ask::new("CONNECT", "other.test:443"), "404"),
        ("CONNECT with a path", Ask::new("CONNECT", "/ok"), "refused"),
        ("no slash", Ask::new("GET", "ok"), "400"),
    ] {
        let _ = case.upstream.take();
        let code = proxy.code(&ask.token(token)).await;
        let seen = if wanted == "refused" && code.starts_with('4') { "refused".into() } else { code };
        case.check(name, wanted, seen);
        case.check(&format!("{name}: came through"), 0, case.upstream.take().len());
    }
    Ok(())
}

/// PATH-11: what no target may hold: a fragment, which some readers cut off, and bytes that are not of ASCII.
pub async fn no_targets(case: &Case<'_>) -> TestResult {
    refused(case, &["/ok#f", "/ok/x#/../y", "/ok?x#f", "/ok/\u{e9}"]).await
}
