//! Authentication modes, the user header and the listen address.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Sidecar, TIMEOUT, exchange, exchange_unix, free_port};

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

/// The sidecar listens on loopback only, in every mode; trusted-header is the default.
pub async fn sidecar_listens_on_loopback_only(cx: Context) -> TestResult {
    let request = b"GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let tasks = b"GET /v0/tasks HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    // 127.0.0.2 stands for other networks: it is reachable only if all addresses are bound.
    for (mode, code) in [("", 401), ("trusted-header", 401), ("unauthenticated", 200)] {
        let sidecar = Fixture::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", mode).start().await?;
        let other = exchange(("127.0.0.2", sidecar.port), request).await;
        assert!(other.is_err(), "{mode:?}: reachable on another address: {other:?}");
        assert_eq!(sidecar.send_raw(tasks).await?.code, code, "{mode:?}");
        let warns = sidecar.log().contains("requests are not authenticated");
        assert_eq!(warns, mode == "unauthenticated", "{}", sidecar.log());
    }
    for mode in ["", "trusted-header", "unauthenticated"] {
        let port = free_port();
        let fixture = Fixture::new(&cx)?
            .env("OUTRIGGER_SIDECAR_LISTEN", format!("tcp:0.0.0.0:{port}"))
            .env("SEI_SIDECAR_AUTHN_MODE", mode);
        let (code, output) = fixture.run_to_exit().await?;
        assert_eq!(code, 2, "{mode:?}: {output}");
        let line = output.lines().rfind(|line| line.contains("--listen (OUTRIGGER_SIDECAR_LISTEN)"));
        assert!(line.is_some_and(|line| line.contains("loopback") && line.contains("proxy")), "{output}");
    }
    Ok(())
}

/// Waits until a sidecar serves on its Unix socket.
async fn wait_served(sidecar: &Sidecar, socket: &Path) -> TestResult {
    let request = b"GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    wait::until("the sidecar to serve", TIMEOUT, || async {
        sidecar.process.check_alive()?;
        exchange_unix(socket, request).await.map(drop)
    })
    .await?;
    Ok(())
}

/// On a Unix socket the whole API is served; every container of the pod reaches the port, which serves healthz only.
pub async fn unix_socket_serves_the_api_and_loopback_only_healthz(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let socket = fixture.site.dir().join("api.sock");
    let fixture = fixture
        .env("SEI_SIDECAR_AUTHN_MODE", "trusted-header")
        .env("OUTRIGGER_SIDECAR_LISTEN", format!("unix:{}", socket.display()));
    let request = |method: &str, path: &str, headers: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n").into_bytes()
    };
    let user = "X-Remote-User: someone\r\n";
    let sidecar = fixture.spawn()?;
    wait_served(&sidecar, &socket).await?;
    let mode = std::fs::metadata(&socket)?.permissions().mode();
    assert_eq!(mode & 0o007, 0, "{mode:o}: other users can connect");
    for (headers, code) in [("", 401), (user, 200)] {
        assert_eq!(exchange_unix(&socket, &request("GET", "/v0/tasks", headers)).await?.code, code);
    }
    for path in [
        "/v0/tasks",
        "/v0/status",
        "/v0/livez",
        "/v0/metrics",
        "/v0/startupz",
        "//v0/healthz",
        "/v0/%68ealthz",
    ] {
        let response = sidecar.send_raw(&request("GET", path, user)).await?;
        assert_eq!(response.code, 404, "{path}: {response:?}");
    }
    for method in ["POST", "DELETE", "HEAD", "PUT"] {
        for path in ["/v0/tasks", "/v0/healthz"] {
            assert_eq!(sidecar.send_raw(&request(method, path, user)).await?.code, 404, "{method} {path}");
        }
    }
    assert_eq!(sidecar.send_raw(&request("GET", "/v0/healthz", "")).await?.code, 503);
    // The start script of seid.
    let probe = sidecar.send_raw(b"GET /v0/healthz HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    assert_eq!(probe.code, 503, "{probe:?}");
    let other = exchange(("127.0.0.2", sidecar.port), &request("GET", "/v0/healthz", "")).await;
    assert!(other.is_err(), "reachable on another address: {other:?}");

    // Another sidecar does not take over a live socket.
    let second = Fixture::new(&cx)?
        .env("SEI_SIDECAR_AUTHN_MODE", "trusted-header")
        .env("OUTRIGGER_SIDECAR_LISTEN", format!("unix:{}", socket.display()));
    let (code, output) = second.run_to_exit().await?;
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("another process listens on it"), "{output}");
    assert_eq!(exchange_unix(&socket, &request("GET", "/v0/tasks", user)).await?.code, 200);
    // The socket of a killed one is replaced.
    sidecar.kill()?;
    drop(sidecar);
    assert!(socket.exists());
    let sidecar = fixture.spawn()?;
    wait_served(&sidecar, &socket).await?;
    assert_eq!(exchange_unix(&socket, &request("GET", "/v0/tasks", user)).await?.code, 200);
    sidecar.stop(TIMEOUT)?;
    let missing = Fixture::new(&cx)?.env("OUTRIGGER_SIDECAR_LISTEN", "unix:/nonexistent/api.sock");
    let (code, output) = missing.run_to_exit().await?;
    assert_eq!(code, 1, "{output}");
    // The log of the fixture also has what was started before.
    let line = output.lines().rfind(|line| line.contains("--listen")).unwrap_or_default();
    assert!(line.contains("/nonexistent/api.sock") && line.contains("directory does not exist"), "{output}");
    Ok(())
}

/// The header by which the proxy authorizes must agree with the body, and is rejected where nothing compares it.
pub async fn task_kind_header_must_match_the_body(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    let post = |path: &str, headers: &str, task_type: &str| {
        let body = json!({ "type": task_type }).to_string();
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (path, accepted) in [("/v0/tasks", 201), ("/v0/dry-run", 200)] {
        for (headers, code) in [
            ("", accepted),
            ("X-Sei-Task-Kind: mark-ready\r\n", accepted),
            ("x-sei-task-kind: mark-ready\r\n", accepted),
            ("X-Sei-Task-Kind: mark-not-ready\r\n", 400),
            ("X-Sei-Task-Kind: Mark-Ready\r\n", 400),
            ("X-Sei-Task-Kind:\r\n", 400),
            ("X-Sei-Task-Kind: mark-ready\r\nX-Sei-Task-Kind: mark-ready\r\n", 400),
            ("X-Sei-Task-Kind: mark-ready, reset-data\r\n", 400),
        ] {
            let response = sidecar.send_raw(post(path, headers, "mark-ready").as_bytes()).await?;
            assert_eq!(response.code, code, "{path} {headers:?}: {response:?}");
            if code == 400 {
                let error = response.json()["error"].as_str().unwrap_or_default().to_owned();
                assert!(error.contains("x-sei-task-kind") && !error.contains('\n'), "{headers:?}: {error}");
            }
        }
    }
    for (method, path) in [
        ("GET", "/v0/tasks"),
        ("GET", "/v0/status"),
        ("GET", "/v0/healthz"),
        ("DELETE", "/v0/tasks/0b0e9c1e-0000-4000-8000-000000000000"),
        ("POST", "//v0/tasks"),
        ("POST", "/v0/none"),
    ] {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Sei-Task-Kind: mark-ready\r\n\r\n"
        );
        assert_eq!(sidecar.send_raw(request.as_bytes()).await?.code, 400, "{method} {path}");
    }
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
