//! API-01 to API-20: the endpoints, in the words that clients know.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::harness::wait;
use testbed::{Context, TestResult};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ground::{Ground, SOON, new_id};

/// API-01: the shell loop before seid.
pub async fn the_start_gate_speaks_http_1_0_and_opens_with_mark_ready(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    let gate = b"GET /v0/healthz HTTP/1.0\r\nHost: localhost\r\n\r\n";
    let closed = sidecar.raw(gate).await?;
    assert_eq!((closed.code, closed.body.as_str()), (503, ""), "{closed:?}");
    assert_eq!(sidecar.get("/v0/status").await?.body, "{\"status\":\"Initializing\"}\n");
    assert_eq!(sidecar.get("/v0/startupz").await?.code, 503);
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200, "alive before it is ready");
    sidecar.done("mark-ready", &json!({})).await?;
    let open = sidecar.raw(gate).await?;
    assert!(open.line.starts_with("HTTP/1.") && open.line.contains("200"), "{}", open.line);
    assert_eq!(sidecar.get("/v0/status").await?.body, "{\"status\":\"Ready\"}\n");
    assert_eq!(sidecar.get("/v0/startupz").await?.code, 200);
    sidecar.done("mark-not-ready", &json!({})).await?;
    assert_eq!(sidecar.raw(gate).await?.code, 503);
    Ok(())
}

/// The operator starts `seictl serve`, whichever image it is.
pub async fn it_also_runs_as_seictl_serve(cx: Context) -> TestResult {
    let folder = tempfile::tempdir()?;
    let link = folder.path().join("seictl");
    std::os::unix::fs::symlink(testbed::harness::binaries::path("outrigger")?, &link)?;
    let sidecar = Ground::with(&cx, &link)?.start().await?;
    assert_eq!(sidecar.get("/v0/status").await?.body, "{\"status\":\"Initializing\"}\n");
    Ok(())
}

/// API-02 to API-06: methods, paths, HEAD.
pub async fn paths_and_methods_are_answered_as_the_router_of_go_does(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    for path in ["/", "/v0", "/v0/none", "/v0/tasks/", "/v0/healthz/", "/v0/tasks/a/b"] {
        let answer = sidecar.get(path).await?;
        assert_eq!((answer.code, answer.body.as_str()), (404, "404 page not found\n"), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"), "{path}");
    }
    for (method, path, allow) in [
        ("POST", "/v0/healthz", "GET, HEAD"),
        ("PUT", "/v0/tasks", "GET, HEAD, POST"),
        ("POST", "/v0/tasks/0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4", "DELETE, GET, HEAD"),
    ] {
        let answer = sidecar.ask(method, path, "").await?;
        assert_eq!((answer.code, answer.body.as_str()), (405, "Method Not Allowed\n"), "{method} {path}");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
    let head = sidecar.ask("HEAD", "/v0/tasks", "").await?;
    assert_eq!(
        (head.code, head.body.as_str(), head.header("content-type")),
        (200, "", Some("application/json"))
    );
    for (path, clean) in [("//v0/tasks", "/v0/tasks"), ("/v0/../v0/status?a=b", "/v0/status?a=b")] {
        let answer = sidecar.get(path).await?;
        assert!((301..=308).contains(&answer.code), "{path}: {answer:?}");
        assert_eq!(answer.header("location"), Some(clean), "{path}");
    }
    assert_eq!(sidecar.get("/v0/%68ealthz").await?.code, 503, "paths are decoded");
    Ok(())
}

/// API-07 to API-12: what a submission may look like.
pub async fn submissions_are_read_as_go_reads_them(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    for (body, why) in [
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
        let answer = sidecar.ask("POST", "/v0/tasks", body).await?;
        assert_eq!(
            (answer.code, answer.header("content-type")),
            (400, Some("application/json")),
            "{body}: {answer:?}"
        );
        let said = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(why), "{body}: {said}");
    }
    let id = new_id();
    let odd = format!(
        r#"{{"TYPE":"mark-ready","Id":"{}","unknown":[1],"schedule":"* * * * *"}} trailing garbage"#,
        id.to_uppercase()
    );
    let answer = sidecar.ask("POST", "/v0/tasks", &odd).await?;
    assert_eq!((answer.code, answer.body), (201, format!("{{\"id\":\"{id}\"}}\n")));
    let made = sidecar.ask("POST", "/v0/tasks", r#"{"type":"mark-ready"}"#).await?;
    let made = made.json()["id"].as_str().unwrap_or_default().to_owned();
    assert_eq!(uuid::Uuid::parse_str(&made)?.get_version_num(), 4);
    let listed = sidecar.get("/v0/tasks").await?.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "what was refused left nothing: {listed}");
    Ok(())
}

/// API-13: tasks, and the absence of tasks.
pub async fn tasks_are_listed_read_and_deleted(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    assert_eq!(sidecar.get("/v0/tasks").await?.body, "[]\n");
    let missing = sidecar.get(&format!("/v0/tasks/{}", new_id())).await?;
    assert_eq!((missing.code, missing.body.as_str()), (404, "{\"error\":\"task not found\"}\n"));
    assert_eq!(sidecar.get("/v0/tasks/no-uuid").await?.code, 404);
    let id = sidecar.submit(None, "await-condition", &json!({"condition": "<&>", "n": 1})).await?;
    let failed = sidecar.ended(&id).await?;
    assert_eq!((&failed["status"], &failed["run"]), (&json!("failed"), &json!(1)));
    assert_eq!(failed["params"], json!({"condition": "<&>", "n": 1}));
    assert!(failed["submittedAt"].as_str() < failed["completedAt"].as_str(), "{failed}");
    let text = sidecar.get(&format!("/v0/tasks/{id}")).await?.body;
    assert!(text.contains(r"\u003c\u0026\u003e") && !text.contains('<') && text.ends_with("}\n"), "{text}");
    assert!(!text.contains("result") && !text.contains("caller"), "{text}");
    // Every spelling of the id is the same task.
    for spelled in [id.to_uppercase(), id.replace('-', ""), format!("urn:uuid:{id}"), format!("%7B{id}%7D")] {
        assert_eq!(sidecar.task(&spelled).await?["id"], json!(id), "{spelled}");
    }
    let deleted = sidecar.ask("DELETE", &format!("/v0/tasks/{id}"), "").await?;
    assert_eq!((deleted.code, deleted.body.as_str()), (204, ""));
    assert_eq!(sidecar.ask("DELETE", &format!("/v0/tasks/{id}"), "").await?.code, 404);
    assert_eq!(sidecar.get(&format!("/v0/tasks/{id}")).await?.code, 404);
    Ok(())
}

/// API-14 to API-17, S6: limits of requests.
pub async fn s06_requests_have_limits(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    let large = format!(r#"{{"type":"mark-ready","params":{{"a":"{}"}}}}"#, "x".repeat(1 << 20));
    assert_eq!(sidecar.ask("POST", "/v0/tasks", &large).await?.code, 413);
    let fits = format!(r#"{{"type":"mark-ready","params":{{"a":"{}"}}}}"#, "x".repeat(1 << 19));
    assert_eq!(sidecar.ask("POST", "/v0/tasks", &fits).await?.code, 201);
    let head = |length| {
        format!("GET /v0/livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n", "y".repeat(length))
    };
    assert_eq!(sidecar.raw(head(20 << 10).as_bytes()).await?.code, 200);
    assert_eq!(sidecar.raw(head(40 << 10).as_bytes()).await?.code, 431);
    // Who does not finish a head is not kept, and others are served meanwhile.
    let begin = Instant::now();
    let mut slow = TcpStream::connect(("127.0.0.1", sidecar.port)).await?;
    slow.write_all(b"GET /v0/livez HTTP/1.1\r\nHo").await?;
    assert_eq!(sidecar.get("/v0/livez").await?.code, 200);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(SOON, slow.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "a head that never ends is kept");
    assert!(begin.elapsed() > Duration::from_secs(4), "cut off after {:?}", begin.elapsed());
    let no_host = sidecar.raw(b"GET /v0/livez HTTP/1.1\r\nConnection: close\r\n\r\n").await?;
    assert_eq!(no_host.code, 400);
    Ok(())
}

/// A connection may carry more than one request, and stays open between them.
pub async fn connections_are_kept_open(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    let mut stream = TcpStream::connect(("127.0.0.1", sidecar.port)).await?;
    for round in 0..3 {
        stream.write_all(b"GET /v0/status HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        let mut buffer = vec![0; 4096];
        let length = tokio::time::timeout(SOON, stream.read(&mut buffer)).await??;
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        assert!(text.starts_with("HTTP/1.1 200"), "{round}: {text}");
        // Longer than a head may take: between requests another limit holds.
        if round == 0 {
            let still_open = || async {
                match stream.try_read(&mut [0]) {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            };
            wait::throughout("an open connection", Duration::from_secs(6), still_open).await?;
        }
    }
    Ok(())
}

/// API-18: who the node is.
pub async fn the_node_id_is_told_or_why_not(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let missing = sidecar.get("/v0/node-id").await?;
    assert_eq!((missing.code, missing.header("content-type")), (500, Some("application/json")));
    let file = ground.home.join("config/node_key.json");
    // 32 bytes of zeros are the public half; the id is the beginning of their SHA-256.
    let key = format!("{}{}", "B".repeat(42) + "A", "A".repeat(43) + "==");
    std::fs::write(
        &file,
        json!({"priv_key": {"type": "tendermint/PrivKeyEd25519", "value": key}}).to_string(),
    )?;
    let answer = sidecar.get("/v0/node-id").await?;
    assert_eq!(answer.code, 200, "{answer:?}");
    let id = answer.json()["nodeId"].as_str().unwrap_or_default().to_owned();
    assert_eq!((id.len(), id.to_lowercase()), (40, id.clone()));
    std::fs::write(&file, "{")?;
    assert_eq!(sidecar.get("/v0/node-id").await?.code, 500);
    Ok(())
}

/// S23: what is shown without a token.
pub async fn s23_metrics_show_nothing_that_a_caller_wrote(cx: Context) -> TestResult {
    let sidecar =
        Ground::new(&cx)?.env("SEI_SIDECAR_AUTHN_MODE", "trusted-header").start().await?.by("alice:secret");
    sidecar.done("mark-ready", &json!({"token": "hunter2"})).await?;
    sidecar.done("await-condition", &json!({"condition": "hunter2"})).await?;
    sidecar.done("snapshot-upload-once", &json!({})).await?;
    assert_eq!(
        sidecar.raw(b"GET /v0/tasks HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?.code,
        401
    );
    let answer = sidecar.raw(b"GET /v0/metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
    assert_eq!(answer.code, 200);
    assert_eq!(api::sidecar_wire::exposure::violations(&answer.body), Vec::<String>::new());
    for sample in [
        r#"seictl_task_submissions_total{type="mark-ready"} 1"#,
        r#"seictl_task_failures_total{type="await-condition"} 1"#,
        r#"seictl_sidecar_authn_rejections_total{reason="missing_header"} 1"#,
        r#"seictl_snapshot_upload_outcome_total{chain="test-1",outcome="skipped"} 1"#,
        r#"seictl_task_execution_duration_seconds_count{type="mark-ready",status="completed"} 1"#,
    ] {
        assert!(answer.body.contains(sample), "{sample} is not in\n{}", answer.body);
    }
    assert!(!answer.body.contains("hunter2") && !answer.body.contains("alice"), "{}", answer.body);
    let live =
        sidecar.raw(b"GET /v0/livez?verbose=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
    assert_eq!((live.code, live.body.as_str()), (200, ""));
    Ok(())
}

/// The document that describes the API names what the server does, and nothing else.
pub async fn the_openapi_document_is_what_the_server_does(cx: Context) -> TestResult {
    let sidecar = Ground::new(&cx)?.start().await?;
    let document = sidecar::http::openapi::document();
    let known = sidecar.submit(None, "mark-ready", &json!({})).await?;
    sidecar.ended(&known).await?;
    let methods = ["get", "post", "put", "delete", "patch"];
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for method in methods {
            let answer = sidecar.ask(&method.to_uppercase(), &path.replace("{id}", &known), "{}").await?;
            let Some(operation) = operations.get(method) else {
                assert_eq!(answer.code, 405, "{method} {path} is not described");
                continue;
            };
            let described = operation["responses"].get(answer.code.to_string());
            let described =
                described.unwrap_or_else(|| panic!("{method} {path}: {} is not described", answer.code));
            let content = described["content"].as_object().and_then(|content| content.keys().next());
            let given = answer.header("content-type").map(|kind| kind.split(';').next().unwrap_or_default());
            let given = given.filter(|_| !answer.body.is_empty());
            assert_eq!(given, content.map(String::as_str).filter(|_| given.is_some()), "{method} {path}");
            if let Some(schema) = described["content"]["application/json"].get("schema") {
                fits(&document, schema, &answer.json(), &format!("{method} {path}"));
            }
        }
    }
    Ok(())
}

/// Fails when a value is not what a schema says; no field may be undescribed.
fn fits(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document
            .pointer(name.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{at}: {name} is missing"));
        return fits(document, schema, value, at);
    }
    if let Some(items) = schema.get("items") {
        return value.as_array().into_iter().flatten().for_each(|item| fits(document, items, item, at));
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{at}: {value} is none of {words:?}");
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(required).is_some(), "{at}: {required} is missing in {value}");
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, value) in value.as_object().into_iter().flatten() {
            let property = properties.get(name).unwrap_or_else(|| panic!("{at}: {name} is not described"));
            fits(document, property, value, &format!("{at}.{name}"));
        }
    }
}
