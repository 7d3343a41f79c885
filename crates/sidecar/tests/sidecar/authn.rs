//! Authentication modes, the user header and the listen address.

use serde_json::json;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, exchange};

/// Nothing starts with invalid settings, and all of them are reported.
pub async fn invalid_settings_exit_before_any_work(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?
        .env("SEI_SIDECAR_AUTHN_MODE", "trusted_header")
        .env("SEI_CHAIN_ID", "")
        .env("SEI_SNAPSHOT_UPLOAD_INTERVAL", "often");
    let (code, output) = fixture.run_to_exit().await?;
    assert_eq!(code, 2, "{output}");
    for setting in ["SEI_SIDECAR_AUTHN_MODE", "SEI_CHAIN_ID", "SEI_SNAPSHOT_UPLOAD_INTERVAL"] {
        assert!(output.contains(setting), "{setting}: {output}");
    }
    assert!(!fixture.home.join("sidecar.db").exists(), "the sidecar started");
    Ok(())
}

/// Every combination of user headers, on authenticated and unauthenticated paths.
pub async fn exactly_one_user_header_is_required(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", " Trusted-Header ").start().await?;
    let with = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n")
    };
    for (headers, code, message) in [
        ("", 401, "missing X-Remote-User header"),
        ("X-Remote-User:\r\n", 401, "empty X-Remote-User header"),
        ("X-Remote-User: a\r\nX-Remote-User: b\r\n", 401, "overwrite"),
        ("X-Remote-User: a\r\nx-remote-user: a\r\n", 401, "overwrite"),
        ("X-Remote-Groups: system:masters\r\n", 401, "missing"),
        ("x-remote-user: a\r\n", 200, ""),
        ("X-Remote-User: a, b\r\n", 200, ""),
    ] {
        for path in ["/v0/tasks", "/v0/status"] {
            let response = sidecar.send_raw(with(path, headers).as_bytes()).await?;
            assert_eq!(response.code, code, "{path} {headers:?}: {response:?}");
            assert!(response.body.contains(message), "{path} {headers:?}: {response:?}");
        }
    }
    for path in [
        "/v0/none",
        "//v0/tasks",
        "/v0/node-id",
        "/v0/chain",
        "/v0/dry-run",
        "/v0/healthz/",
        "/v0/livez/..",
        "/v0/%2568ealthz",
    ] {
        assert_eq!(sidecar.send_raw(with(path, "").as_bytes()).await?.code, 401, "{path} is not revealed");
    }
    for path in ["/v0/livez", "/v0/metrics", "/v0/%6Civez"] {
        assert_eq!(sidecar.send_raw(with(path, "").as_bytes()).await?.code, 200, "{path}");
    }
    for path in ["/v0/healthz", "/v0/startupz", "/v0/%68ealthz"] {
        assert_eq!(sidecar.send_raw(with(path, "").as_bytes()).await?.code, 503, "{path}");
    }
    Ok(())
}

/// Listens on localhost only in trusted-header mode, on all addresses otherwise.
pub async fn trusted_header_mode_listens_on_localhost_only(cx: Context) -> TestResult {
    let request = b"GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let trusted = Fixture::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", "trusted-header").start().await?;
    // 127.0.0.2 stands for other networks: it is reachable only if all addresses are bound.
    let other = exchange(("127.0.0.2", trusted.port), request).await;
    assert!(other.is_err(), "reachable on another address: {other:?}");
    drop(trusted);
    let open = Fixture::new(&cx)?.start().await?;
    assert_eq!(exchange(("127.0.0.2", open.port), request).await?.code, 200);
    assert_eq!(exchange(("::1", open.port), request).await?.code, 200);
    Ok(())
}

/// The caller is stored and logged; parameters are not logged.
pub async fn caller_is_stored_and_logged_but_not_params(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", "trusted-header");
    let sidecar = fixture.start().await?.with_user("system:serviceaccount:sei:operator");
    let task = sidecar.run_task("mark-ready", &json!({"password": "hunter2"})).await?;
    let log = sidecar.log();
    assert!(log.contains("system:serviceaccount:sei:operator"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
    assert!(!task.to_string().contains("serviceaccount"), "{task}");
    sidecar.stop(crate::fixture::TIMEOUT)?;
    let ledger = rusqlite::Connection::open(fixture.home.join("sidecar.db"))?;
    let caller: String = ledger.query_row("SELECT caller FROM task_results", [], |row| row.get(0))?;
    assert_eq!(caller, "system:serviceaccount:sei:operator");
    Ok(())
}
