//! Endpoints and request parsing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{Fixture, TIMEOUT, new_id};

/// The shell loop that waits before seid starts speaks HTTP/1.0.
pub async fn healthz_over_http_1_0_follows_readiness(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    let probe = b"GET /v0/healthz HTTP/1.0\r\nHost: localhost\r\n\r\n";
    let closed = sidecar.send_raw(probe).await?;
    assert_eq!((closed.code, closed.body.as_str()), (503, ""), "{closed:?}");
    assert_eq!(sidecar.get("/v0/status").await?.body, "{\"status\":\"Initializing\"}\n");
    assert_eq!(sidecar.get("/v0/startupz").await?.code, 503);
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200, "live before ready");
    sidecar.run_task("mark-ready", &json!({})).await?;
    let open = sidecar.send_raw(probe).await?;
    assert!(open.line.starts_with("HTTP/1.") && open.line.contains("200"), "{}", open.line);
    assert_eq!(sidecar.get("/v0/status").await?.body, "{\"status\":\"Ready\"}\n");
    assert_eq!(sidecar.get("/v0/startupz").await?.code, 200);
    sidecar.run_task("mark-not-ready", &json!({})).await?;
    assert_eq!(sidecar.send_raw(probe).await?.code, 503);
    Ok(())
}

/// The operator starts `seictl serve` in every sidecar image.
pub async fn runs_as_seictl_serve(cx: Context) -> TestResult {
    let dir = tempfile::tempdir()?;
    let link = dir.path().join("seictl");
    std::os::unix::fs::symlink(testbed::harness::binaries::path("outrigger")?, &link)?;
    let sidecar = Fixture::with_program(&cx, &link)?.start().await?;
    assert_eq!(sidecar.get("/v0/status").await?.body, "{\"status\":\"Initializing\"}\n");
    Ok(())
}

/// Unknown paths, methods, HEAD and path cleaning.
pub async fn unknown_paths_and_methods_match_go_servemux(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    for path in ["/", "/v0", "/v0/none", "/v0/tasks/", "/v0/healthz/", "/v0/tasks/a/b"] {
        let response = sidecar.get(path).await?;
        assert_eq!((response.code, response.body.as_str()), (404, "404 page not found\n"), "{path}");
        assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"), "{path}");
    }
    for (method, path, allow) in [
        ("POST", "/v0/healthz", "GET, HEAD"),
        ("POST", "/v0/chain", "GET, HEAD"),
        ("PUT", "/v0/tasks", "GET, HEAD, POST"),
        ("GET", "/v0/dry-run", "POST"),
        ("POST", "/v0/tasks/0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4", "DELETE, GET, HEAD"),
    ] {
        let response = sidecar.request(method, path, "").await?;
        assert_eq!((response.code, response.body.as_str()), (405, "Method Not Allowed\n"), "{method} {path}");
        assert_eq!(response.header("allow"), Some(allow), "{method} {path}");
    }
    let head = sidecar.request("HEAD", "/v0/tasks", "").await?;
    assert_eq!(
        (head.code, head.body.as_str(), head.header("content-type")),
        (200, "", Some("application/json"))
    );
    for (path, clean) in [("//v0/tasks", "/v0/tasks"), ("/v0/../v0/status?a=b", "/v0/status?a=b")] {
        let response = sidecar.get(path).await?;
        assert!((301..=308).contains(&response.code), "{path}: {response:?}");
        assert_eq!(response.header("location"), Some(clean), "{path}");
    }
    assert_eq!(sidecar.get("/v0/%68ealthz").await?.code, 503, "paths are percent-decoded");
    Ok(())
}

/// Valid and invalid task requests.
pub async fn task_requests_are_parsed_like_go(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    for (body, error) in [
        ("", "invalid request body"),
        ("{", "invalid request body"),
        ("[]", "invalid request body"),
        (r#"{"type": 5}"#, "invalid request body"),
        (r#"{"type": "mark-ready", "params": []}"#, "invalid request body"),
        ("{}", "type is required"),
        (r#"{"type": ""}"#, "type is required"),
        ("null", "type is required"),
        (r#"{"type": "make-coffee"}"#, "unknown task type: make-coffee"),
        (r#"{"type": "tee-für-zwei"}"#, "unknown task type: tee-für-zwei"),
        (r#"{"type": "mark-ready", "id": "x"}"#, "task ID must be a valid UUID"),
    ] {
        let response = sidecar.request("POST", "/v0/tasks", body).await?;
        assert_eq!(
            (response.code, response.header("content-type")),
            (400, Some("application/json")),
            "{body}: {response:?}"
        );
        let message = response.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(error), "{body}: {message}");
    }
    let id = new_id();
    let unusual = format!(
        r#"{{"TYPE":"mark-ready","Id":"{}","unknown":[1],"schedule":"* * * * *"}} trailing garbage"#,
        id.to_uppercase()
    );
    let response = sidecar.request("POST", "/v0/tasks", &unusual).await?;
    assert_eq!((response.code, response.body), (201, format!("{{\"id\":\"{id}\"}}\n")));
    let generated = sidecar.request("POST", "/v0/tasks", r#"{"type":"mark-ready"}"#).await?;
    let generated = generated.json()["id"].as_str().unwrap_or_default().to_owned();
    assert_eq!(uuid::Uuid::parse_str(&generated)?.get_version_num(), 4);
    let listed = sidecar.get("/v0/tasks").await?.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "rejected requests left no task: {listed}");
    Ok(())
}

/// Tasks, and missing tasks.
pub async fn tasks_can_be_listed_read_and_deleted(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    assert_eq!(sidecar.get("/v0/tasks").await?.body, "[]\n");
    let missing = sidecar.get(&format!("/v0/tasks/{}", new_id())).await?;
    assert_eq!((missing.code, missing.body.as_str()), (404, "{\"error\":\"task not found\"}\n"));
    assert_eq!(sidecar.get("/v0/tasks/no-uuid").await?.code, 404);
    let id = sidecar.submit(None, "await-condition", &json!({"condition": "<&>", "n": 1})).await?;
    let failed = sidecar.wait_finished(&id).await?;
    assert_eq!((&failed["status"], &failed["run"]), (&json!("failed"), &json!(1)));
    assert_eq!(failed["params"], json!({"condition": "<&>", "n": 1}));
    assert!(failed["submittedAt"].as_str() < failed["completedAt"].as_str(), "{failed}");
    let text = sidecar.get(&format!("/v0/tasks/{id}")).await?.body;
    assert!(text.contains(r"\u003c\u0026\u003e") && !text.contains('<') && text.ends_with("}\n"), "{text}");
    assert!(!text.contains("result") && !text.contains("caller"), "{text}");
    // Every spelling of the ID refers to the same task.
    for spelled in [id.to_uppercase(), id.replace('-', ""), format!("urn:uuid:{id}"), format!("%7B{id}%7D")] {
        assert_eq!(sidecar.task(&spelled).await?["id"], json!(id), "{spelled}");
    }
    let deleted = sidecar.request("DELETE", &format!("/v0/tasks/{id}"), "").await?;
    assert_eq!((deleted.code, deleted.body.as_str()), (204, ""));
    assert_eq!(sidecar.request("DELETE", &format!("/v0/tasks/{id}"), "").await?.code, 404);
    assert_eq!(sidecar.get(&format!("/v0/tasks/{id}")).await?.code, 404);
    Ok(())
}

/// Limits on body size, head size and head duration.
pub async fn oversized_and_slow_requests_are_rejected(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    let large = format!(r#"{{"type":"mark-ready","params":{{"a":"{}"}}}}"#, "x".repeat(1 << 20));
    assert_eq!(sidecar.request("POST", "/v0/tasks", &large).await?.code, 413);
    let fits = format!(r#"{{"type":"mark-ready","params":{{"a":"{}"}}}}"#, "x".repeat(1 << 19));
    assert_eq!(sidecar.request("POST", "/v0/tasks", &fits).await?.code, 201);
    let head = |length| {
        format!("GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n", "y".repeat(length))
    };
    assert_eq!(sidecar.send_raw(head(20 << 10).as_bytes()).await?.code, 200);
    assert_eq!(sidecar.send_raw(head(40 << 10).as_bytes()).await?.code, 431);
    // A client that never finishes its request head is disconnected; others are served meanwhile.
    let start = Instant::now();
    let mut slow = TcpStream::connect(("127.0.0.1", sidecar.port)).await?;
    slow.write_all(b"GET /v0/livez HTTP/1.1\r\nHo").await?;
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(TIMEOUT, slow.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection stays open");
    assert!(start.elapsed() > Duration::from_secs(4), "disconnected after {:?}", start.elapsed());
    let no_host = sidecar.send_raw(b"GET /v0/livez HTTP/1.1\r\nConnection: close\r\n\r\n").await?;
    assert_eq!(no_host.code, 400);
    Ok(())
}

/// A connection serves several requests and stays open between them.
pub async fn keep_alive_connection_serves_several_requests(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    let mut stream = TcpStream::connect(("127.0.0.1", sidecar.port)).await?;
    for round in 0..3 {
        stream.write_all(b"GET /v0/status HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        let mut buffer = vec![0; 4096];
        let length = tokio::time::timeout(TIMEOUT, stream.read(&mut buffer)).await??;
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        assert!(text.starts_with("HTTP/1.1 200"), "{round}: {text}");
        // Longer than the head timeout: another timeout applies between requests.
        if round == 0 {
            let still_open = || async {
                match stream.try_read(&mut [0]) {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            };
            wait::throughout("the connection to stay open", Duration::from_secs(6), still_open).await?;
        }
    }
    Ok(())
}

/// The node ID, and missing or malformed keys.
pub async fn node_id_endpoint_reports_id_or_error(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let missing = sidecar.get("/v0/node-id").await?;
    assert_eq!((missing.code, missing.header("content-type")), (500, Some("application/json")));
    let file = fixture.home.join("config/node_key.json");
    // The public key is 32 zero bytes; the ID is the beginning of its SHA-256.
    let key = format!("{}{}", "B".repeat(42) + "A", "A".repeat(43) + "==");
    std::fs::write(
        &file,
        json!({"priv_key": {"type": "tendermint/PrivKeyEd25519", "value": key}}).to_string(),
    )?;
    let response = sidecar.get("/v0/node-id").await?;
    assert_eq!(response.code, 200, "{response:?}");
    let id = response.json()["nodeId"].as_str().unwrap_or_default().to_owned();
    assert_eq!((id.len(), id.to_lowercase()), (40, id.clone()));
    std::fs::write(&file, "{")?;
    assert_eq!(sidecar.get("/v0/node-id").await?.code, 500);
    Ok(())
}

/// Unauthenticated endpoints expose no caller input.
pub async fn metrics_expose_no_caller_input(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?
        .env("SEI_SIDECAR_AUTHN_MODE", "trusted-header")
        .start()
        .await?
        .with_user("alice:secret");
    sidecar.run_task("mark-ready", &json!({"token": "hunter2"})).await?;
    sidecar.run_task("await-condition", &json!({"condition": "hunter2"})).await?;
    sidecar.run_task("snapshot-upload-once", &json!({})).await?;
    assert_eq!(
        sidecar.send_raw(b"GET /v0/tasks HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?.code,
        401
    );
    let response =
        sidecar.send_raw(b"GET /v0/metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
    assert_eq!(response.code, 200);
    assert_eq!(api::sidecar_wire::exposure::violations(&response.body), Vec::<String>::new());
    for sample in [
        r#"seictl_task_submissions_total{type="mark-ready"} 1"#,
        r#"seictl_task_failures_total{type="await-condition"} 1"#,
        r#"seictl_sidecar_authn_rejections_total{reason="missing_header"} 1"#,
        r#"seictl_snapshot_upload_outcome_total{chain="test-1",outcome="skipped"} 1"#,
        r#"seictl_task_execution_duration_seconds_count{type="mark-ready",status="completed"} 1"#,
    ] {
        assert!(response.body.contains(sample), "{sample} is missing in\n{}", response.body);
    }
    assert!(!response.body.contains("hunter2") && !response.body.contains("alice"), "{}", response.body);
    let live =
        sidecar.send_raw(b"GET /v0/livez?verbose=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
    assert_eq!((live.code, live.body.as_str()), (200, ""));
    Ok(())
}

/// The server behaves as the OpenAPI document says, and nothing else.
pub async fn server_matches_openapi_document(cx: Context) -> TestResult {
    let sidecar = Fixture::new(&cx)?.start().await?;
    let document = sidecar::http::openapi::document();
    let known = sidecar.submit(None, "mark-ready", &json!({})).await?;
    sidecar.wait_finished(&known).await?;
    let methods = ["get", "post", "put", "delete", "patch"];
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for method in methods {
            let response =
                sidecar.request(&method.to_uppercase(), &path.replace("{id}", &known), "{}").await?;
            let Some(operation) = operations.get(method) else {
                assert_eq!(response.code, 405, "{method} {path} is not documented");
                continue;
            };
            let documented = operation["responses"].get(response.code.to_string());
            let documented =
                documented.unwrap_or_else(|| panic!("{method} {path}: {} is not documented", response.code));
            let content = documented["content"].as_object().and_then(|content| content.keys().next());
            let actual = response
                .header("content-type")
                .map(|content_type| content_type.split(';').next().unwrap_or_default());
            let actual = actual.filter(|_| !response.body.is_empty());
            assert_eq!(actual, content.map(String::as_str).filter(|_| actual.is_some()), "{method} {path}");
            if let Some(schema) = documented["content"]["application/json"].get("schema") {
                assert_matches_schema(&document, schema, &response.json(), &format!("{method} {path}"));
            }
        }
    }
    Ok(())
}

/// Fails if a value does not match a schema; undocumented fields are errors.
pub fn assert_matches_schema(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document
            .pointer(name.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{at}: {name} is missing"));
        return assert_matches_schema(document, schema, value, at);
    }
    if let Some(items) = schema.get("items") {
        return value
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|item| assert_matches_schema(document, items, item, at));
    }
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.contains(value), "{at}: {value} is not one of {values:?}");
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(required).is_some(), "{at}: {required} is missing in {value}");
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, value) in value.as_object().into_iter().flatten() {
            let property = properties.get(name).unwrap_or_else(|| panic!("{at}: {name} is not documented"));
            assert_matches_schema(document, property, value, &format!("{at}.{name}"));
        }
    }
}
