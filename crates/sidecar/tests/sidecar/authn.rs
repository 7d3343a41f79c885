//! AUTH-01 to AUTH-12: the mode, the header, the address.

use serde_json::json;
use testbed::{Context, TestResult};

use crate::ground::{Ground, exchange};

/// S20: nothing is begun with a mode that nobody knows.
pub async fn s20_wrong_settings_are_all_told_before_anything_is_begun(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?
        .env("SEI_SIDECAR_AUTHN_MODE", "trusted_header")
        .env("SEI_CHAIN_ID", "")
        .env("SEI_SNAPSHOT_UPLOAD_INTERVAL", "often");
    let (code, said) = ground.ended().await?;
    assert_eq!(code, 2, "{said}");
    for setting in ["SEI_SIDECAR_AUTHN_MODE", "SEI_CHAIN_ID", "SEI_SNAPSHOT_UPLOAD_INTERVAL"] {
        assert!(said.contains(setting), "{setting}: {said}");
    }
    assert!(!ground.home.join("sidecar.db").exists(), "something was begun");
    Ok(())
}

/// The table of section 4.
pub async fn exactly_one_name_is_let_through(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", " Trusted-Header ").start().await?;
    let with = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n")
    };
    for (headers, code, said) in [
        ("", 401, "missing X-Remote-User header"),
        ("X-Remote-User:\r\n", 401, "empty X-Remote-User header"),
        ("X-Remote-User: a\r\nX-Remote-User: b\r\n", 401, "overwrite"),
        ("X-Remote-User: a\r\nx-remote-user: a\r\n", 401, "overwrite"),
        ("X-Remote-Groups: system:masters\r\n", 401, "missing"),
        ("x-remote-user: a\r\n", 200, ""),
        ("X-Remote-User: a, b\r\n", 200, ""),
    ] {
        for path in ["/v0/tasks", "/v0/status"] {
            let answer = sidecar.raw(with(path, headers).as_bytes()).await?;
            assert_eq!(answer.code, code, "{path} {headers:?}: {answer:?}");
            assert!(answer.body.contains(said), "{path} {headers:?}: {answer:?}");
        }
    }
    for path in ["/v0/none", "//v0/tasks", "/v0/node-id", "/v0/healthz/", "/v0/livez/..", "/v0/%2568ealthz"] {
        assert_eq!(sidecar.raw(with(path, "").as_bytes()).await?.code, 401, "{path} is told to nobody");
    }
    for path in ["/v0/livez", "/v0/metrics", "/v0/%6Civez"] {
        assert_eq!(sidecar.raw(with(path, "").as_bytes()).await?.code, 200, "{path}");
    }
    for path in ["/v0/healthz", "/v0/startupz", "/v0/%68ealthz"] {
        assert_eq!(sidecar.raw(with(path, "").as_bytes()).await?.code, 503, "{path}");
    }
    Ok(())
}

/// The address: only the host's own in trusted-header mode, all otherwise.
pub async fn a_trusting_sidecar_is_not_reached_from_another_host(cx: Context) -> TestResult {
    let live = b"GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let trusting = Ground::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", "trusted-header").start().await?;
    // Every address of loopback but the first stands for those of other networks: it is bound only by who binds all.
    let other = exchange(("127.0.0.2", trusting.port), live).await;
    assert!(other.is_err(), "reached by another address: {other:?}");
    drop(trusting);
    let open = Ground::new(&cx)?.start().await?;
    assert_eq!(exchange(("127.0.0.2", open.port), live).await?.code, 200);
    assert_eq!(exchange(("::1", open.port), live).await?.code, 200);
    Ok(())
}

/// S9: who gave a task is written down, and S14: what it was given with is not.
pub async fn s09_who_gave_a_task_is_stored_and_logged(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", "trusted-header");
    let sidecar = ground.start().await?.by("system:serviceaccount:sei:operator");
    let task = sidecar.done("mark-ready", &json!({"password": "hunter2"})).await?;
    let log = sidecar.log();
    assert!(log.contains("system:serviceaccount:sei:operator"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
    assert!(!task.to_string().contains("serviceaccount"), "{task}");
    sidecar.stop(crate::ground::SOON)?;
    let ledger = rusqlite::Connection::open(ground.home.join("sidecar.db"))?;
    let caller: String = ledger.query_row("SELECT caller FROM task_results", [], |row| row.get(0))?;
    assert_eq!(caller, "system:serviceaccount:sei:operator");
    Ok(())
}
