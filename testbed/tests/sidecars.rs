//! The fake sidecars with real clients.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::sidecar_wire::{NodeId, TaskResult, TaskState, TaskType, path};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use testbed::cluster::pki::{CertificateAuthority, Identity, ServerNames};
use testbed::fakes::sidecars::{
    FakeSidecar, FakeSidecars, NodeName, RequestFault, RequestFilter, ScriptedOutcome, Submission,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Everything here takes milliseconds; only a very busy machine comes close to this.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Long enough for a response in flight to arrive.
const QUIET: Duration = Duration::from_millis(200);

const ID: &str = "b7e89c3a-4f12-4d8b-9a6e-1c2d3e4f5a6b";
const OTHER_ID: &str = "00000000-0000-4000-8000-000000000002";

/// Connects to the sidecar of a node with TLS and verifies its certificate.
async fn tls_stream(
    sidecars: &FakeSidecars,
    node: &NodeName,
    authority: &CertificateAuthority,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(sidecars.address()).await?;
    let name = ServerName::try_from(node.host()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await
}

/// An open connection to the shared port.
struct Connection(SendRequest<Full<Bytes>>);

type HttpResult = Result<(StatusCode, String), hyper::Error>;

impl Connection {
    async fn plain(sidecars: &FakeSidecars) -> Self {
        Self::over(TcpStream::connect(sidecars.address()).await.unwrap()).await
    }

    async fn tls(
        sidecars: &FakeSidecars,
        node: &NodeName,
        authority: &CertificateAuthority,
    ) -> std::io::Result<Self> {
        Ok(Self::over(tls_stream(sidecars, node, authority).await?).await)
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        // Errors surface in the request.
        tokio::spawn(async move { drop(connection.await) });
        Self(sender)
    }

    async fn send(
        &mut self,
        method: Method,
        host: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> HttpResult {
        let mut request = Request::builder().method(method).uri(path).header("host", host);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = self.0.send_request(request.body(Full::from(body.to_owned())).unwrap()).await?;
        let code = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((code, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn get(&mut self, node: &FakeSidecar, path: &str) -> HttpResult {
        self.send(Method::GET, &node.name().host(), path, Some("token"), "").await
    }

    async fn submit(&mut self, node: &FakeSidecar, task: &Value) -> (StatusCode, Value) {
        let host = node.name().host();
        let (code, body) =
            self.send(Method::POST, &host, path::TASKS, Some("token"), &task.to_string()).await.unwrap();
        (code, serde_json::from_str(&body).unwrap())
    }

    async fn submit_ok(&mut self, node: &FakeSidecar, id: &str, task_type: TaskType) {
        let answer = self.submit(node, &json!({"id": id, "type": task_type})).await;
        assert_eq!(answer, (StatusCode::CREATED, json!({"id": id})));
    }

    async fn task(&mut self, node: &FakeSidecar, id: &str) -> TaskResult {
        let (code, body) = self.get(node, &format!("{}/{id}", path::TASKS)).await.unwrap();
        assert_eq!(code, StatusCode::OK, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn health(&mut self, node: &FakeSidecar) -> StatusCode {
        self.send(Method::GET, &node.name().host(), path::HEALTHZ, None, "").await.unwrap().0
    }
}

/// Whether the error is a connection reset.
fn is_reset(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == ErrorKind::ConnectionReset)
    })
}

fn certificate(authority: &CertificateAuthority, node: &NodeName) -> Identity {
    authority.issue_server("sidecar", &ServerNames { dns: vec![node.host()], addresses: Vec::new() }).unwrap()
}

#[tokio::test]
async fn existing_task_ids_are_not_restarted() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let mut client = Connection::plain(&sidecars).await;
    let params = json!({"mode": "full", "incremental": false, "targetVersion": 0});
    let task = json!({"id": ID, "type": "config-apply", "params": params});
    assert_eq!(client.submit(&node, &task).await, (StatusCode::CREATED, json!({"id": ID})));
    let done = client.task(&node, ID).await;
    assert_eq!((done.status, done.run, done.error), (TaskState::Completed, 1, None));
    assert_eq!(Value::Object(done.params.unwrap()), params);
    assert!(done.completed_at.unwrap() >= done.submitted_at);
    assert_eq!(client.submit(&node, &task).await, (StatusCode::CREATED, json!({"id": ID})));
    assert_eq!(client.task(&node, ID).await.run, 1);

    // Another node does not know the task, over the same connection.
    let other = sidecars.node("sei", "full-1");
    assert_eq!(
        client.get(&other, &format!("{}/{ID}", path::TASKS)).await.unwrap(),
        (StatusCode::NOT_FOUND, "{\"error\":\"task not found\"}\n".into())
    );
    // Without an ID, the sidecar generates one; IDs are compared as UUIDs, not as text.
    let (code, created) = client.submit(&node, &json!({"type": "config-validate"})).await;
    assert_eq!(code, StatusCode::CREATED);
    assert_eq!(client.task(&node, created["id"].as_str().unwrap()).await.task_type, "config-validate");
    let (_, same) = client
        .submit(&node, &json!({"id": ID.to_uppercase(), "type": "config-apply", "params": params}))
        .await;
    assert_eq!(same, json!({"id": ID}));

    let (_, list) = client.get(&node, path::TASKS).await.unwrap();
    let list: Vec<TaskResult> = serde_json::from_str(&list).unwrap();
    assert_eq!(
        list.iter().map(|task| task.task_type.as_str()).collect::<Vec<_>>(),
        ["config-validate", "config-apply"]
    );
    let one = format!("{}/{ID}", path::TASKS);
    let host = node.name().host();
    for code in [StatusCode::NO_CONTENT, StatusCode::NOT_FOUND] {
        assert_eq!(client.send(Method::DELETE, &host, &one, Some("t"), "").await.unwrap().0, code);
    }

    let counts: BTreeMap<_, _> =
        sidecars.journal().submissions().into_iter().filter(|(_, count)| *count > 1).collect();
    assert_eq!(counts, BTreeMap::from([((node.name().clone(), ID.to_owned()), 3)]));
    let repeats = sidecars.journal().duplicates();
    assert_eq!(repeats.len(), 2, "{repeats:?}");
    let first = node.wait_submitted_id(ID, TIMEOUT).await.unwrap();
    assert_eq!(first.submission, Some(Submission::Started { run: 1 }));
    assert_eq!((first.answer, first.tls), (Some(StatusCode::CREATED), false));
}

#[tokio::test]
async fn invalid_submission_returns_400() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let mut client = Connection::plain(&sidecars).await;
    let host = node.name().host();
    for (body, message) in [
        ("no json", "invalid request body"),
        (r#"{"type": 5}"#, "invalid request body"),
        ("{}", "type is required"),
        (r#"{"type": "dance"}"#, "unknown task type: dance"),
        (r#"{"id": "1", "type": "mark-ready"}"#, "task ID must be a valid UUID"),
        (r#"{"type": "config-apply", "params": {"mode": "fast"}}"#, "fast"),
        (r#"{"type": "discover-peers", "params": {"sources": []}}"#, "at least one source"),
        (
            r#"{"type": "discover-peers", "params": {"sources": [{"type": "dnsEndpoints", "endpoints": []}]}}"#,
            "endpoints",
        ),
    ] {
        let (code, answer) =
            client.send(Method::POST, &host, path::TASKS, Some("token"), body).await.unwrap();
        assert_eq!(code, StatusCode::BAD_REQUEST, "{body}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["error"].as_str().unwrap().contains(message), "{body}: {answer}");
    }
    assert!(node.tasks().is_empty());

    let rejecting = node.on_task(TaskType::ConfigValidate, ScriptedOutcome::reject("not today"));
    let rejected = client.submit(&node, &json!({"id": ID, "type": "config-validate"})).await;
    assert_eq!(rejected, (StatusCode::BAD_REQUEST, json!({"error": "not today"})));
    assert_eq!(rejecting.fired(), 1);
    rejecting.remove();
    client.submit_ok(&node, ID, TaskType::ConfigValidate).await;
}

#[tokio::test]
async fn restart_loses_readiness_and_restarts_running_tasks() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let mut client = Connection::plain(&sidecars).await;
    assert_eq!(client.health(&node).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(client.get(&node, path::STATUS).await.unwrap().1, "{\"status\":\"Initializing\"}\n");
    client.submit_ok(&node, ID, TaskType::MarkReady).await;
    node.wait_ready(TIMEOUT).await.unwrap();
    assert_eq!(client.health(&node).await, StatusCode::OK);
    assert_eq!(client.get(&node, path::STATUS).await.unwrap().1, "{\"status\":\"Ready\"}\n");
    let restoring = node.on_task(TaskType::SnapshotRestore, ScriptedOutcome::Run);
    client.submit_ok(&node, OTHER_ID, TaskType::SnapshotRestore).await;

    node.restart();
    assert_eq!(node.restarts(), 1);
    client.get(&node, path::LIVEZ).await.expect_err("connection outlived its server");
    let mut client = Connection::plain(&sidecars).await;
    assert_eq!(client.health(&node).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(client.get(&node, path::LIVEZ).await.unwrap().0, StatusCode::OK);
    assert_eq!(restoring.fired(), 2, "running task was not restarted");
    let task = client.task(&node, OTHER_ID).await;
    assert_eq!((task.status, task.run), (TaskState::Running, 1));
    // The old mark-ready task is completed and stays so; only a new one restores readiness.
    client.submit_ok(&node, ID, TaskType::MarkReady).await;
    assert_eq!(client.health(&node).await, StatusCode::SERVICE_UNAVAILABLE);
    client.submit_ok(&node, "00000000-0000-4000-8000-000000000003", TaskType::MarkReady).await;
    assert_eq!(client.health(&node).await, StatusCode::OK);

    node.clear_tasks();
    assert_eq!(client.get(&node, &format!("{}/{ID}", path::TASKS)).await.unwrap().0, StatusCode::NOT_FOUND);
    assert_eq!(client.health(&node).await, StatusCode::OK, "the process keeps running");
}

#[tokio::test]
async fn tasks_end_as_scripted() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let other = sidecars.node("sei", "full-1");
    let mut client = Connection::plain(&sidecars).await;

    // The newest matching script wins; when it is exhausted, older ones apply.
    sidecars.on_any_task(ScriptedOutcome::Run);
    node.on_task(TaskType::ConfigureGenesis, ScriptedOutcome::fail(2, "no such bucket"));
    for run in 1..=3 {
        client.submit_ok(&node, ID, TaskType::ConfigureGenesis).await;
        let task = client.task(&node, ID).await;
        assert_eq!(task.run, run);
        let expected =
            if run < 3 { (TaskState::Failed, Some("no such bucket")) } else { (TaskState::Running, None) };
        assert_eq!((task.status, task.error.as_deref()), expected);
    }
    assert_eq!(node.complete(TaskType::ConfigureGenesis), 1);
    assert_eq!(client.task(&node, ID).await.status, TaskState::Completed);
    assert_eq!(node.complete(TaskType::ConfigureGenesis), 0);

    client.submit_ok(&other, ID, TaskType::ConfigureGenesis).await;
    assert_eq!(other.fail(TaskType::ConfigureGenesis, "scripted failure"), 1);
    let failed = client.task(&other, ID).await;
    assert_eq!((failed.status, failed.error.as_deref()), (TaskState::Failed, Some("scripted failure")));

    let always = other.on_task(TaskType::ConfigureGenesis, ScriptedOutcome::fail_always("always fails"));
    for run in 2..=5 {
        client.submit_ok(&other, ID, TaskType::ConfigureGenesis).await;
        let task = client.task(&other, ID).await;
        assert_eq!((task.status, task.run), (TaskState::Failed, run));
    }
    assert_eq!(always.fired(), 4);

    let delay = Duration::from_millis(300);
    node.on_task(TaskType::MarkReady, ScriptedOutcome::CompleteAfter(delay));
    let started = Instant::now();
    client.submit_ok(&node, OTHER_ID, TaskType::MarkReady).await;
    assert!(!node.is_ready());
    node.wait_ready(TIMEOUT).await.unwrap();
    assert!(started.elapsed() >= delay);
    assert_eq!(client.task(&node, OTHER_ID).await.status, TaskState::Completed);
}

#[tokio::test]
async fn uploads_never_complete() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "archive-0");
    let mut client = Connection::plain(&sidecars).await;
    client.submit_ok(&node, ID, TaskType::SnapshotUpload).await;
    assert_eq!(client.task(&node, ID).await.status, TaskState::Running);
}

#[tokio::test]
async fn only_open_paths_work_without_token() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let host = node.name().host();
    let mut client = Connection::plain(&sidecars).await;
    let guarded = [path::TASKS, path::STATUS, path::NODE_ID, path::CHAIN, "/v0/nothing"];
    for guarded in guarded {
        let answer = client.send(Method::GET, &host, guarded, None, "").await.unwrap();
        assert_eq!(answer, (StatusCode::UNAUTHORIZED, "Unauthorized\n".into()), "{guarded}");
    }
    for open in [path::LIVEZ, path::METRICS] {
        assert_eq!(
            client.send(Method::GET, &host, open, None, "").await.unwrap().0,
            StatusCode::OK,
            "{open}"
        );
    }
    sidecars.accept_tokens(["good", "better"]);
    for (token, code) in
        [("good", StatusCode::OK), ("better", StatusCode::OK), ("bad", StatusCode::UNAUTHORIZED)]
    {
        let answer = client.send(Method::GET, &host, path::TASKS, Some(token), "").await.unwrap();
        assert_eq!(answer.0, code, "{token}");
    }
    node.on_request(RequestFilter::any(), RequestFault::Forbidden);
    let (code, body) = client.send(Method::POST, &host, path::TASKS, Some("good"), "{}").await.unwrap();
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert!(body.contains("verb=create, resource=seinodetasks"), "{body}");
    assert_eq!(client.send(Method::GET, &host, path::LIVEZ, None, "").await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn paths_and_methods_match_the_real_sidecar() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let host = node.name().host();
    let mut client = Connection::plain(&sidecars).await;
    let (_, id) = client.get(&node, path::NODE_ID).await.unwrap();
    let id: NodeId = serde_json::from_str(&id).unwrap();
    assert_eq!((id.node_id.len(), id.node_id), (40, node.node_id()));
    for (method, path, code) in [
        (Method::GET, "/v0/nothing", StatusCode::NOT_FOUND),
        (Method::GET, "/v0/tasks/", StatusCode::NOT_FOUND),
        (Method::PUT, path::TASKS, StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, path::DRY_RUN, StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, path::HEALTHZ, StatusCode::METHOD_NOT_ALLOWED),
        (Method::HEAD, path::LIVEZ, StatusCode::OK),
        (Method::GET, path::STARTUPZ, StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let answer = client.send(method.clone(), &host, path, Some("t"), "").await.unwrap();
        assert_eq!(answer.0, code, "{method} {path}");
    }
    for host_name in ["127.0.0.1", "full-0.sei.svc.cluster.local", "full-1.full-0.sei.svc.cluster.local"] {
        let answer = client.send(Method::GET, host_name, path::LIVEZ, None, "").await.unwrap();
        assert_eq!(answer.0, StatusCode::MISDIRECTED_REQUEST, "{host_name}");
    }
}

#[tokio::test]
async fn dry_run_validates_and_executes_nothing() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let host = node.name().host();
    let mut client = Connection::plain(&sidecars).await;
    for (body, code) in [
        (json!({ "type": "config-apply", "params": { "mode": "full" } }), StatusCode::OK),
        (json!({ "type": "config-apply", "params": { "mode": "fast" } }), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({ "type": "make-coffee" }), StatusCode::BAD_REQUEST),
    ] {
        let body = body.to_string();
        let answer = client.send(Method::POST, &host, path::DRY_RUN, Some("t"), &body).await.unwrap();
        assert_eq!(answer.0, code, "{body}");
    }
    node.on_request(RequestFilter::path(path::DRY_RUN), RequestFault::unprocessable("no"));
    let answer = client.send(Method::POST, &host, path::DRY_RUN, Some("t"), "{}").await.unwrap();
    assert_eq!(answer, (StatusCode::UNPROCESSABLE_ENTITY, "{\"error\":\"no\"}\n".into()));
    assert!(node.tasks().is_empty() && sidecars.journal().submissions().is_empty());
}

#[tokio::test]
async fn requests_get_scripted_faults() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let other = sidecars.node("sei", "full-1");
    let mut client = Connection::plain(&sidecars).await;

    for code in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE]
    {
        let fault =
            node.on_request(RequestFilter::any().first(2), RequestFault::Respond(code, "no luck".into()));
        for _ in 0..2 {
            assert_eq!(client.get(&node, path::LIVEZ).await.unwrap(), (code, "no luck\n".into()));
        }
        assert_eq!(client.get(&node, path::LIVEZ).await.unwrap().0, StatusCode::OK);
        assert_eq!((client.get(&other, path::LIVEZ).await.unwrap().0, fault.fired()), (StatusCode::OK, 2));
    }

    // Delayed: processed at once, answered later.
    let delay = Duration::from_millis(300);
    let late = node.on_request(
        RequestFilter::submissions().for_task_type(TaskType::MarkReady),
        RequestFault::DelayResponse(delay),
    );
    let started = Instant::now();
    {
        let submitting = client.submit_ok(&node, ID, TaskType::MarkReady);
        let (ready, ()) = tokio::join!(node.wait_ready(TIMEOUT), submitting);
        ready.unwrap();
    }
    assert!(started.elapsed() >= delay, "answered after {:?}", started.elapsed());
    let started = Instant::now();
    client.submit_ok(&node, OTHER_ID, TaskType::ConfigValidate).await;
    assert!(started.elapsed() < delay, "task of another type was delayed");
    late.remove();

    // Reads of a task match by its type, too.
    let hang = node.on_request(RequestFilter::reads().for_task_type(TaskType::MarkReady), RequestFault::Hang);
    assert_eq!(client.task(&node, OTHER_ID).await.status, TaskState::Completed);
    let mut hanging = Connection::plain(&sidecars).await;
    timeout(QUIET, hanging.task(&node, ID)).await.expect_err("unexpected response");
    hang.remove();
    let unanswered = sidecars.journal().requests(|request| request.answer.is_none());
    assert_eq!(unanswered.len(), 1, "{unanswered:?}");
    assert_eq!(unanswered[0].task_type.as_deref(), Some("mark-ready"));

    // Processed, but the response is lost.
    let lost = node.on_request(RequestFilter::submissions().first(1), RequestFault::LoseResponse);
    let id = "00000000-0000-4000-8000-000000000004";
    let host = node.name().host();
    let task = json!({"id": id, "type": "config-validate"}).to_string();
    let error = client
        .send(Method::POST, &host, path::TASKS, Some("t"), &task)
        .await
        .expect_err("unexpected response");
    assert!(is_reset(&error), "{error:?}");
    let mut client = Connection::plain(&sidecars).await;
    assert_eq!(client.task(&node, id).await.status, TaskState::Completed);
    assert_eq!(lost.fired(), 1);

    let away = node.on_request(RequestFilter::any(), RequestFault::Reset);
    let error = client.get(&node, path::LIVEZ).await.expect_err("unexpected response");
    assert!(is_reset(&error), "{error:?}");
    let mut client = Connection::plain(&sidecars).await;
    assert_eq!(client.get(&other, path::LIVEZ).await.unwrap().0, StatusCode::OK);
    away.remove();
    assert_eq!(client.get(&node, path::LIVEZ).await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn each_node_serves_only_its_own_transport() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let authority = CertificateAuthority::new("sidecars").unwrap();
    let secure = sidecars.node("sei", "secure");
    let plain = sidecars.node("sei", "plain");
    secure.serve_tls(&certificate(&authority, secure.name())).unwrap();

    let mut client = Connection::tls(&sidecars, secure.name(), &authority).await.unwrap();
    client.submit_ok(&secure, ID, TaskType::MarkReady).await;
    assert!(sidecars.journal().requests(|request| request.node == *secure.name())[0].tls);
    // A TLS connection is bound to one node.
    assert_eq!(client.get(&plain, path::LIVEZ).await.unwrap().0, StatusCode::MISDIRECTED_REQUEST);

    let mut clear = Connection::plain(&sidecars).await;
    assert_eq!(clear.get(&plain, path::LIVEZ).await.unwrap().0, StatusCode::OK);
    let (code, body) = clear.get(&secure, path::LIVEZ).await.unwrap();
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(body.contains("HTTP request to an HTTPS server"), "{body}");
    let error = Connection::tls(&sidecars, plain.name(), &authority)
        .await
        .err()
        .expect("TLS handshake with a plain server");
    assert!(error.to_string().contains("corrupt message"), "{error}");

    // The certificate is the one configured for the node.
    secure.serve_tls(&certificate(&authority, plain.name())).unwrap();
    client.get(&secure, path::LIVEZ).await.expect_err("connection outlived its server");
    let error = Connection::tls(&sidecars, secure.name(), &authority)
        .await
        .err()
        .expect("certificate of another node");
    assert!(error.to_string().contains("not valid for name"), "{error}");
    secure.serve_plain();
    let mut clear = Connection::plain(&sidecars).await;
    assert_eq!(clear.health(&secure).await, StatusCode::OK, "readiness survives a transport change");
}

/// Sends an HTTP/1.0 request without any HTTP library and returns the status code and the body.
async fn send_http10(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    node: &NodeName,
    path: &str,
) -> std::io::Result<(String, String)> {
    let host = node.host();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}:8443\r\nAuthorization: Bearer t\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    timeout(TIMEOUT, stream.read_to_string(&mut response)).await??;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    Ok((head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned()))
}

#[tokio::test]
async fn http10_client_is_served() {
    let sidecars = FakeSidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let authority = CertificateAuthority::new("sidecars").unwrap();
    let plain = async |path: &str| {
        let tcp = TcpStream::connect(sidecars.address()).await?;
        send_http10(tcp, node.name(), path).await
    };
    let tls = async |path: &str| {
        let stream = tls_stream(&sidecars, node.name(), &authority).await?;
        send_http10(stream, node.name(), path).await
    };
    assert_eq!(plain(path::HEALTHZ).await.unwrap(), ("503".into(), String::new()));
    assert_eq!(plain(path::TASKS).await.unwrap(), ("200".into(), "[]\n".into()));
    tls(path::LIVEZ).await.expect_err("TLS handshake with a plain server");
    node.serve_tls(&certificate(&authority, node.name())).unwrap();
    assert_eq!(tls(path::STATUS).await.unwrap(), ("200".into(), "{\"status\":\"Initializing\"}\n".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_nodes_are_served_quickly() {
    const NODES: usize = 1_000;
    const REQUESTS: usize = 10;
    let sidecars = Arc::new(FakeSidecars::start().await.unwrap());
    let started = Instant::now();
    let workers = (0..8).map(|worker| {
        let sidecars = sidecars.clone();
        tokio::spawn(async move {
            let mut client = Connection::plain(&sidecars).await;
            for number in (worker..NODES).step_by(8) {
                let node = sidecars.node("sei", format!("full-{number}"));
                client.submit_ok(&node, ID, TaskType::MarkReady).await;
                for _ in 1..REQUESTS {
                    client.task(&node, ID).await;
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let took = started.elapsed();
    println!("{} requests to {NODES} nodes: {:.1} s", NODES * REQUESTS, took.as_secs_f64());
    assert_eq!(sidecars.journal().count(|_| true), NODES * REQUESTS);
    assert_eq!(sidecars.journal().submissions().len(), NODES);
    assert!(sidecars.journal().duplicates().is_empty());
    // Takes about three seconds in a debug build.
    assert!(took < Duration::from_secs(60), "took {took:?}");
}
