//! Played sidecars, seen by real clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic as tests may"
)]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::sidecar_wire::{NodeId, TaskResult, TaskState, TaskType, path};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use testbed::cluster::pki::{Authority, Identity, ServerNames};
use testbed::fakes::sidecars::{NodeName, Outcome, Requests, Sidecar, Sidecars, Submission, Trouble};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Everything here takes milliseconds; only a machine that is very busy comes near this.
const SOON: Duration = Duration::from_secs(20);

/// Long enough for an answer that is on its way to arrive.
const QUIET: Duration = Duration::from_millis(200);

const ID: &str = "b7e89c3a-4f12-4d8b-9a6e-1c2d3e4f5a6b";
const OTHER_ID: &str = "00000000-0000-4000-8000-000000000002";

/// An open connection to the port of all sidecars.
struct Connection(SendRequest<Full<Bytes>>);

type Answered = Result<(StatusCode, String), hyper::Error>;

impl Connection {
    async fn plain(sidecars: &Sidecars) -> Self {
        Self::over(TcpStream::connect(sidecars.address()).await.unwrap()).await
    }

    async fn tls(sidecars: &Sidecars, node: &NodeName, authority: &Authority) -> std::io::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        let certificate =
            rustls::pki_types::CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap();
        roots.add(certificate).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpStream::connect(sidecars.address()).await?;
        let name = ServerName::try_from(node.host()).unwrap();
        Ok(Self::over(TlsConnector::from(Arc::new(config)).connect(name, tcp).await?).await)
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        // How it ends is told to the one who asks.
        tokio::spawn(async move { drop(connection.await) });
        Self(sender)
    }

    async fn ask(
        &mut self,
        method: Method,
        host: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> Answered {
        let mut request = Request::builder().method(method).uri(path).header("host", host);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = self.0.send_request(request.body(Full::from(body.to_owned())).unwrap()).await?;
        let code = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((code, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn get(&mut self, node: &Sidecar, path: &str) -> Answered {
        self.ask(Method::GET, &node.name().host(), path, Some("token"), "").await
    }

    async fn submit(&mut self, node: &Sidecar, task: &Value) -> (StatusCode, Value) {
        let host = node.name().host();
        let (code, body) =
            self.ask(Method::POST, &host, path::TASKS, Some("token"), &task.to_string()).await.unwrap();
        (code, serde_json::from_str(&body).unwrap())
    }

    async fn give(&mut self, node: &Sidecar, id: &str, task_type: TaskType) {
        let answer = self.submit(node, &json!({"id": id, "type": task_type})).await;
        assert_eq!(answer, (StatusCode::CREATED, json!({"id": id})));
    }

    async fn task(&mut self, node: &Sidecar, id: &str) -> TaskResult {
        let (code, body) = self.get(node, &format!("{}/{id}", path::TASKS)).await.unwrap();
        assert_eq!(code, StatusCode::OK, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn health(&mut self, node: &Sidecar) -> StatusCode {
        self.ask(Method::GET, &node.name().host(), path::HEALTHZ, None, "").await.unwrap().0
    }
}

/// Whether a client saw its connection being reset.
fn is_reset(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == ErrorKind::ConnectionReset)
    })
}

fn certificate(authority: &Authority, node: &NodeName) -> Identity {
    authority.server("sidecar", &ServerNames { dns: vec![node.host()], addresses: Vec::new() }).unwrap()
}

#[tokio::test]
async fn tasks_complete_and_existing_ids_are_not_begun_again() {
    let sidecars = Sidecars::start().await.unwrap();
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

    // Another node knows nothing of it, over the same connection.
    let other = sidecars.node("sei", "full-1");
    assert_eq!(
        client.get(&other, &format!("{}/{ID}", path::TASKS)).await.unwrap(),
        (StatusCode::NOT_FOUND, "{\"error\":\"task not found\"}\n".into())
    );
    // Without an id, the sidecar makes one; any spelling of a UUID is the same UUID.
    let (code, made) = client.submit(&node, &json!({"type": "config-validate"})).await;
    assert_eq!(code, StatusCode::CREATED);
    assert_eq!(client.task(&node, made["id"].as_str().unwrap()).await.task_type, "config-validate");
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
        assert_eq!(client.ask(Method::DELETE, &host, &one, Some("t"), "").await.unwrap().0, code);
    }

    let counts: BTreeMap<_, _> =
        sidecars.journal().submissions().into_iter().filter(|(_, count)| *count > 1).collect();
    assert_eq!(counts, BTreeMap::from([((node.name().clone(), ID.to_owned()), 3)]));
    let repeats = sidecars.journal().repeats();
    assert_eq!(repeats.len(), 2, "{repeats:?}");
    let first = node.wait_submitted_id(ID, SOON).await.unwrap();
    assert_eq!(first.submission, Some(Submission::Begun { run: 1 }));
    assert_eq!((first.answer, first.tls), (Some(StatusCode::CREATED), false));
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_400() {
    let sidecars = Sidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let mut client = Connection::plain(&sidecars).await;
    let host = node.name().host();
    for (body, refusal) in [
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
        let (code, answer) = client.ask(Method::POST, &host, path::TASKS, Some("token"), body).await.unwrap();
        assert_eq!(code, StatusCode::BAD_REQUEST, "{body}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["error"].as_str().unwrap().contains(refusal), "{body}: {answer}");
    }
    assert!(node.tasks().is_empty());

    let rejecting = node.on_task(TaskType::ConfigValidate, Outcome::reject("not today"));
    let refused = client.submit(&node, &json!({"id": ID, "type": "config-validate"})).await;
    assert_eq!(refused, (StatusCode::BAD_REQUEST, json!({"error": "not today"})));
    assert_eq!(rejecting.fired(), 1);
    rejecting.lift();
    client.give(&node, ID, TaskType::ConfigValidate).await;
}

#[tokio::test]
async fn a_restart_forgets_readiness_and_begins_anew_what_ran() {
    let sidecars = Sidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let mut client = Connection::plain(&sidecars).await;
    assert_eq!(client.health(&node).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(client.get(&node, path::STATUS).await.unwrap().1, "{\"status\":\"Initializing\"}\n");
    client.give(&node, ID, TaskType::MarkReady).await;
    node.wait_ready(SOON).await.unwrap();
    assert_eq!(client.health(&node).await, StatusCode::OK);
    assert_eq!(client.get(&node, path::STATUS).await.unwrap().1, "{\"status\":\"Ready\"}\n");
    let restoring = node.on_task(TaskType::SnapshotRestore, Outcome::Run);
    client.give(&node, OTHER_ID, TaskType::SnapshotRestore).await;

    node.restart();
    assert_eq!(node.restarts(), 1);
    client.get(&node, path::LIVEZ).await.expect_err("a connection outlived its server");
    let mut client = Connection::plain(&sidecars).await;
    assert_eq!(client.health(&node).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(client.get(&node, path::LIVEZ).await.unwrap().0, StatusCode::OK);
    assert_eq!(restoring.fired(), 2, "what ran was not begun anew");
    let task = client.task(&node, OTHER_ID).await;
    assert_eq!((task.status, task.run), (TaskState::Running, 1));
    // The old mark-ready is done, and stays so: only a new one makes it ready.
    client.give(&node, ID, TaskType::MarkReady).await;
    assert_eq!(client.health(&node).await, StatusCode::SERVICE_UNAVAILABLE);
    client.give(&node, "00000000-0000-4000-8000-000000000003", TaskType::MarkReady).await;
    assert_eq!(client.health(&node).await, StatusCode::OK);

    node.lose_store();
    assert_eq!(client.get(&node, &format!("{}/{ID}", path::TASKS)).await.unwrap().0, StatusCode::NOT_FOUND);
    assert_eq!(client.health(&node).await, StatusCode::OK, "the process lives on");
}

#[tokio::test]
async fn tasks_end_as_scripted() {
    let sidecars = Sidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let other = sidecars.node("sei", "full-1");
    let mut client = Connection::plain(&sidecars).await;

    // The newest script that fits decides; when it is used up, older ones do.
    sidecars.on_any_task(Outcome::Run);
    node.on_task(TaskType::ConfigureGenesis, Outcome::fail(2, "no such bucket"));
    for run in 1..=3 {
        client.give(&node, ID, TaskType::ConfigureGenesis).await;
        let task = client.task(&node, ID).await;
        assert_eq!(task.run, run);
        let expected =
            if run < 3 { (TaskState::Failed, Some("no such bucket")) } else { (TaskState::Running, None) };
        assert_eq!((task.status, task.error.as_deref()), expected);
    }
    assert_eq!(node.complete(TaskType::ConfigureGenesis), 1);
    assert_eq!(client.task(&node, ID).await.status, TaskState::Completed);
    assert_eq!(node.complete(TaskType::ConfigureGenesis), 0);

    client.give(&other, ID, TaskType::ConfigureGenesis).await;
    assert_eq!(other.fail(TaskType::ConfigureGenesis, "told so"), 1);
    let failed = client.task(&other, ID).await;
    assert_eq!((failed.status, failed.error.as_deref()), (TaskState::Failed, Some("told so")));

    let always = other.on_task(TaskType::ConfigureGenesis, Outcome::fail_always("for ever"));
    for run in 2..=5 {
        client.give(&other, ID, TaskType::ConfigureGenesis).await;
        let task = client.task(&other, ID).await;
        assert_eq!((task.status, task.run), (TaskState::Failed, run));
    }
    assert_eq!(always.fired(), 4);

    let delay = Duration::from_millis(300);
    node.on_task(TaskType::MarkReady, Outcome::CompleteAfter(delay));
    let begin = Instant::now();
    client.give(&node, OTHER_ID, TaskType::MarkReady).await;
    assert!(!node.is_ready());
    node.wait_ready(SOON).await.unwrap();
    assert!(begin.elapsed() >= delay);
    assert_eq!(client.task(&node, OTHER_ID).await.status, TaskState::Completed);
}

#[tokio::test]
async fn uploads_go_on_for_ever() {
    let sidecars = Sidecars::start().await.unwrap();
    let node = sidecars.node("sei", "archive-0");
    let mut client = Connection::plain(&sidecars).await;
    client.give(&node, ID, TaskType::SnapshotUpload).await;
    assert_eq!(client.task(&node, ID).await.status, TaskState::Running);
}

#[tokio::test]
async fn only_open_paths_are_served_without_a_token() {
    let sidecars = Sidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let host = node.name().host();
    let mut client = Connection::plain(&sidecars).await;
    let guarded = [path::TASKS, path::STATUS, path::NODE_ID, "/v0/nothing"];
    for guarded in guarded {
        let answer = client.ask(Method::GET, &host, guarded, None, "").await.unwrap();
        assert_eq!(answer, (StatusCode::UNAUTHORIZED, "Unauthorized\n".into()), "{guarded}");
    }
    for open in [path::LIVEZ, path::METRICS] {
        assert_eq!(client.ask(Method::GET, &host, open, None, "").await.unwrap().0, StatusCode::OK, "{open}");
    }
    sidecars.accept_only(["good", "better"]);
    for (token, code) in
        [("good", StatusCode::OK), ("better", StatusCode::OK), ("bad", StatusCode::UNAUTHORIZED)]
    {
        let answer = client.ask(Method::GET, &host, path::TASKS, Some(token), "").await.unwrap();
        assert_eq!(answer.0, code, "{token}");
    }
    node.on_request(Requests::any(), Trouble::Forbidden);
    let (code, body) = client.ask(Method::POST, &host, path::TASKS, Some("good"), "{}").await.unwrap();
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert!(body.contains("verb=create, resource=seinodetasks"), "{body}");
    assert_eq!(client.ask(Method::GET, &host, path::LIVEZ, None, "").await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn paths_and_methods_are_those_of_the_real_one() {
    let sidecars = Sidecars::start().await.unwrap();
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
        (Method::POST, path::HEALTHZ, StatusCode::METHOD_NOT_ALLOWED),
        (Method::HEAD, path::LIVEZ, StatusCode::OK),
        (Method::GET, path::STARTUPZ, StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let answer = client.ask(method.clone(), &host, path, Some("t"), "").await.unwrap();
        assert_eq!(answer.0, code, "{method} {path}");
    }
    for nobody in ["127.0.0.1", "full-0.sei.svc.cluster.local", "full-1.full-0.sei.svc.cluster.local"] {
        let answer = client.ask(Method::GET, nobody, path::LIVEZ, None, "").await.unwrap();
        assert_eq!(answer.0, StatusCode::MISDIRECTED_REQUEST, "{nobody}");
    }
}

#[tokio::test]
async fn requests_meet_the_trouble_that_was_scripted() {
    let sidecars = Sidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let other = sidecars.node("sei", "full-1");
    let mut client = Connection::plain(&sidecars).await;

    for code in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE]
    {
        let trouble = node.on_request(Requests::any().first(2), Trouble::Answer(code, "no luck".into()));
        for _ in 0..2 {
            assert_eq!(client.get(&node, path::LIVEZ).await.unwrap(), (code, "no luck\n".into()));
        }
        assert_eq!(client.get(&node, path::LIVEZ).await.unwrap().0, StatusCode::OK);
        assert_eq!((client.get(&other, path::LIVEZ).await.unwrap().0, trouble.fired()), (StatusCode::OK, 2));
    }

    // Late: done at once, answered later.
    let delay = Duration::from_millis(300);
    let late = node.on_request(Requests::submissions().of(TaskType::MarkReady), Trouble::Late(delay));
    let begin = Instant::now();
    {
        let giving = client.give(&node, ID, TaskType::MarkReady);
        let (ready, ()) = tokio::join!(node.wait_ready(SOON), giving);
        ready.unwrap();
    }
    assert!(begin.elapsed() >= delay, "it was answered after {:?}", begin.elapsed());
    let begin = Instant::now();
    client.give(&node, OTHER_ID, TaskType::ConfigValidate).await;
    assert!(begin.elapsed() < delay, "a task of another type was answered late");
    late.lift();

    // Reads of a task are told by its type, too.
    let hang = node.on_request(Requests::reads().of(TaskType::MarkReady), Trouble::Hang);
    assert_eq!(client.task(&node, OTHER_ID).await.status, TaskState::Completed);
    let mut hanging = Connection::plain(&sidecars).await;
    timeout(QUIET, hanging.task(&node, ID)).await.expect_err("it was answered");
    hang.lift();
    let unanswered = sidecars.journal().requests(|request| request.answer.is_none());
    assert_eq!(unanswered.len(), 1, "{unanswered:?}");
    assert_eq!(unanswered[0].task_type.as_deref(), Some("mark-ready"));

    // Done, and the answer lost.
    let lost = node.on_request(Requests::submissions().first(1), Trouble::LoseAnswer);
    let id = "00000000-0000-4000-8000-000000000004";
    let host = node.name().host();
    let task = json!({"id": id, "type": "config-validate"}).to_string();
    let error =
        client.ask(Method::POST, &host, path::TASKS, Some("t"), &task).await.expect_err("it was answered");
    assert!(is_reset(&error), "{error:?}");
    let mut client = Connection::plain(&sidecars).await;
    assert_eq!(client.task(&node, id).await.status, TaskState::Completed);
    assert_eq!(lost.fired(), 1);

    let away = node.on_request(Requests::any(), Trouble::Away);
    let error = client.get(&node, path::LIVEZ).await.expect_err("somebody was there");
    assert!(is_reset(&error), "{error:?}");
    let mut client = Connection::plain(&sidecars).await;
    assert_eq!(client.get(&other, path::LIVEZ).await.unwrap().0, StatusCode::OK);
    away.lift();
    assert_eq!(client.get(&node, path::LIVEZ).await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn each_node_serves_as_it_was_told_and_no_other_way() {
    let sidecars = Sidecars::start().await.unwrap();
    let authority = Authority::new("sidecars").unwrap();
    let secure = sidecars.node("sei", "secure");
    let plain = sidecars.node("sei", "plain");
    secure.serve_tls(&certificate(&authority, secure.name())).unwrap();

    let mut client = Connection::tls(&sidecars, secure.name(), &authority).await.unwrap();
    client.give(&secure, ID, TaskType::MarkReady).await;
    assert!(sidecars.journal().requests(|request| request.node == *secure.name())[0].tls);
    // A connection to one node does not lead to another.
    assert_eq!(client.get(&plain, path::LIVEZ).await.unwrap().0, StatusCode::MISDIRECTED_REQUEST);

    let mut clear = Connection::plain(&sidecars).await;
    assert_eq!(clear.get(&plain, path::LIVEZ).await.unwrap().0, StatusCode::OK);
    let (code, body) = clear.get(&secure, path::LIVEZ).await.unwrap();
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(body.contains("HTTP request to an HTTPS server"), "{body}");
    let error = Connection::tls(&sidecars, plain.name(), &authority).await.err().expect("TLS in the clear");
    assert!(error.to_string().contains("corrupt message"), "{error}");

    // The certificate that is served is the one that was given for the node.
    secure.serve_tls(&certificate(&authority, plain.name())).unwrap();
    client.get(&secure, path::LIVEZ).await.expect_err("a connection outlived its server");
    let error =
        Connection::tls(&sidecars, secure.name(), &authority).await.err().expect("another's certificate");
    assert!(error.to_string().contains("not valid for name"), "{error}");
    secure.serve_plain();
    let mut clear = Connection::plain(&sidecars).await;
    assert_eq!(clear.health(&secure).await, StatusCode::OK, "readiness outlives a change of transport");
}

#[tokio::test]
async fn curl_is_served_like_any_client() {
    let Ok(found) = Command::new("curl").arg("--version").output() else {
        return eprintln!("curl is not installed: hyper alone has been tried");
    };
    assert!(found.status.success());
    let sidecars = Sidecars::start().await.unwrap();
    let node = sidecars.node("sei", "full-0");
    let authority = Authority::new("sidecars").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, authority.pem()).unwrap();
    let curl = async |scheme: &str, path: &str| {
        let output = tokio::process::Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "10", "--http1.0", "--noproxy", "*"])
            .args(["--output", "-", "--write-out", "%{http_code}", "--cacert"])
            .arg(&file)
            .args([
                "--connect-to",
                &format!("::{}", sidecars.address()),
                "--header",
                "Authorization: Bearer t",
            ])
            .arg(format!("{scheme}://{}:8443{path}", node.name().host()))
            .output()
            .await
            .unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
    };
    assert_eq!(curl("http", path::HEALTHZ).await, ("503".into(), true));
    assert_eq!(curl("http", path::TASKS).await, ("[]\n200".into(), true));
    assert!(!curl("https", path::LIVEZ).await.1);
    node.serve_tls(&certificate(&authority, node.name())).unwrap();
    assert_eq!(curl("https", path::STATUS).await, ("{\"status\":\"Initializing\"}\n200".into(), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_nodes_are_cheap() {
    const NODES: usize = 1_000;
    const REQUESTS: usize = 10;
    let sidecars = Arc::new(Sidecars::start().await.unwrap());
    let begin = Instant::now();
    let workers = (0..8).map(|worker| {
        let sidecars = sidecars.clone();
        tokio::spawn(async move {
            let mut client = Connection::plain(&sidecars).await;
            for number in (worker..NODES).step_by(8) {
                let node = sidecars.node("sei", format!("full-{number}"));
                client.give(&node, ID, TaskType::MarkReady).await;
                for _ in 1..REQUESTS {
                    client.task(&node, ID).await;
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let took = begin.elapsed();
    println!("{} requests to {NODES} nodes: {:.1} s", NODES * REQUESTS, took.as_secs_f64());
    assert_eq!(sidecars.journal().count(|_| true), NODES * REQUESTS);
    assert_eq!(sidecars.journal().submissions().len(), NODES);
    assert!(sidecars.journal().repeats().is_empty());
    // Some three seconds for client and server without optimization.
    assert!(took < Duration::from_secs(60), "took {took:?}");
}
