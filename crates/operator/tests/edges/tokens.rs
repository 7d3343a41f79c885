//! Tokens for sidecars, from a real API server.

use std::fs;
use std::time::Duration;

use api::names::object;
use api::sidecar_wire::TaskRequest;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Api;
use kube::api::PostParams;
use operator::install;
use operator::sidecar::{TokenError, TokenSource};
use plan::node::{DryRunObservation, Health, Submission, TaskObservation, Transport};
use runtime::Key;
use runtime::lease::Claim;
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::cluster::kubectl;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};
use tokio::sync::OnceCell;

use crate::server::{Caller, Server, TIMEOUT, node, reply, transport};

static INSTALLED: OnceCell<()> = OnceCell::const_new();

const ID: &str = "6f2f2d3e-1c1b-5c55-9a52-1d1c2b3a4f5e";

/// The ServiceAccount of the operator.
fn account() -> Key {
    Key { namespace: install::NAMESPACE.into(), name: install::ACCOUNT.into() }
}

/// Returns a source of tokens with the shipped permissions. `agent` identifies its requests in the audit log.
async fn source(plane: &ControlPlane, agent: &str) -> testbed::Result<TokenSource> {
    INSTALLED.get_or_try_init(|| async { install_operator(plane) }).await?;
    let user = format!("system:serviceaccount:{}:{}", install::NAMESPACE, install::ACCOUNT);
    let source = |client| TokenSource::new(client, account());
    let install = source(plane.user(&user, None)?.client("operator-tokens-install").await?);
    install.check(TIMEOUT).await.map_err(|error| Error::Other(error.to_string()))?;
    Ok(source(plane.user(&user, None)?.client(agent).await?))
}

/// Applies the namespace and the permissions of the operator.
fn install_operator(plane: &ControlPlane) -> testbed::Result<()> {
    let shipped = ["operator/namespace.yaml", "operator/rbac.yaml"];
    let files = install::files().into_iter().filter(|(file, _)| shipped.contains(file));
    let items: Vec<Value> = files.flat_map(|(_, items)| items).collect();
    kubectl::apply(plane, &json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string())
}

/// Returns the TokenRequests of an agent so far. A marker request shows that earlier ones are in the audit log.
async fn token_requests(plane: &ControlPlane, agent: &str) -> testbed::Result<Vec<AuditedRequest>> {
    let marker = plane.admin().client("operator-tokens-marker").await?;
    let begin = k8s_openapi::jiff::Timestamp::now();
    marker.apiserver_version().await?;
    let is_marker = |request: &AuditedRequest| {
        request.user_agent == "operator-tokens-marker" && request.received.0 >= begin
    };
    plane.audit().wait_for(1, TIMEOUT, is_marker).await?;
    plane.audit().requests(|request| {
        request.user_agent == agent && request.resource == "serviceaccounts" && request.subresource == "token"
    })
}

/// Returns a node, and the transport to its pod, which accepts tokens of its audience.
fn isolated(name: &str) -> (Key, Transport) {
    let node = Key { name: name.into(), ..node() };
    let audience = object::sidecar_audience(&node.name, &node.namespace);
    let host = object::pod_host(&node.name, &node.namespace);
    (node, Transport { host, audience: Some(audience), ..transport(None) })
}

/// Reads a task, until the response is not pending any more: a TokenRequest may take longer than a reconcile waits.
async fn get_task(caller: &Caller, node: &Key, to: &Transport) -> testbed::Result<TaskObservation> {
    wait::until("the response of the sidecar", TIMEOUT, || async {
        match caller.sidecars.get_task(node, to, None, ID).await {
            TaskObservation::Unknown => Err("it is pending"),
            task => Ok(task),
        }
    })
    .await
}

/// Reviews the token of a request, as a proxy with this audience does.
async fn review(plane: &ControlPlane, header: &str, audience: &str) -> testbed::Result<TokenReviewStatus> {
    let token = header.strip_prefix("Bearer ").map(str::to_owned);
    let spec = TokenReviewSpec { audiences: Some(vec![audience.to_owned()]), token };
    let review = TokenReview { spec, ..TokenReview::default() };
    let reviews: Api<TokenReview> = Api::all(plane.client().await?);
    Ok(reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default())
}

fn not_found() -> crate::server::Reply {
    reply(404, json!({ "error": "task not found" }).to_string())
}

pub async fn token_of_a_node_is_requested_once_and_only_for_it(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let agent = "operator-tokens-one";
    let tokens = source(plane, agent).await?;
    tokens.check(TIMEOUT).await?;
    let server = Server::start(None).await?;
    server.respond_with(|_| not_found());
    let caller = Caller::with_tokens(server.address, tokens.clone(), false);
    let begin = token_requests(plane, agent).await?.len();

    let (a, b) = (isolated("a"), isolated("b"));
    // Different kinds of calls, all at once.
    let (health, task, chain) = futures_util::join!(
        caller.sidecars.probe_health(&a.0, &a.1, None),
        get_task(&caller, &a.0, &a.1),
        caller.sidecars.get_chain(&a.0, &a.1, None, None),
    );
    drop((health, chain));
    assert_eq!(task?, TaskObservation::NotFound);
    for (node, to) in [&a, &a, &b, &b] {
        assert_eq!(get_task(&caller, node, to).await?, TaskObservation::NotFound);
    }
    assert_eq!(token_requests(plane, agent).await?.len() - begin, 2, "one for each node");
    let token_of = |node: &str| {
        let host = object::pod_host(node, "sei");
        let sent = server.requests().into_iter().filter(|request| request.host == host);
        let mut sent: Vec<String> =
            sent.filter(|request| request.path != "/v0/healthz").map(|request| request.token).collect();
        sent.dedup();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    };
    let (token_of_a, token_of_b) = (token_of("a"), token_of("b"));
    let audience = |node: &str| object::sidecar_audience(node, "sei");
    let accepted = review(plane, &token_of_a, &audience("a")).await?;
    let user = accepted.user.unwrap_or_default().username.unwrap_or_default();
    assert_eq!(
        (accepted.authenticated, user.as_str()),
        (Some(true), "system:serviceaccount:outrigger-system:outrigger-operator")
    );
    for (token, other) in [
        (&token_of_a, audience("b")),
        (&token_of_b, audience("a")),
        (&token_of_a, "https://kubernetes.default.svc.cluster.local".into()),
    ] {
        let rejected = review(plane, token, &other).await?;
        assert_ne!(rejected.authenticated, Some(true), "{other}: {rejected:?}");
    }
    let healthz: Vec<_> =
        server.requests().into_iter().filter(|request| request.path == "/v0/healthz").collect();
    assert!(!healthz.is_empty() && healthz.iter().all(|request| request.token.is_empty()), "{healthz:?}");
    let debug = format!("{tokens:?} {:?}", caller.sidecars);
    assert!(!debug.contains(token_of_a.trim_start_matches("Bearer ")), "{debug}");

    // A node that is deleted and created again gets a new one.
    caller.sidecars.forget(&a.0);
    get_task(&caller, &a.0, &a.1).await?;
    assert_eq!(token_requests(plane, agent).await?.len() - begin, 3);
    Ok(())
}

pub async fn rejected_token_is_replaced_once(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let agent = "operator-tokens-rejected";
    let server = Server::start(None).await?;
    let caller = Caller::with_tokens(server.address, source(plane, agent).await?, false);
    let (node, to) = isolated("a");
    server.respond_with(|_| not_found());
    get_task(&caller, &node, &to).await?;
    let first = server.requests()[0].token.clone();
    // Like a ServiceAccount that was created again: the token is not valid any more, and a new one is.
    server.respond_with({
        let first = first.clone();
        move |request| if request.token == first { reply(401, "") } else { not_found() }
    });
    assert_eq!(get_task(&caller, &node, &to).await?, TaskObservation::NotFound);
    assert_eq!(token_requests(plane, agent).await?.len(), 2);
    // Another server in place of the sidecar must not cause a TokenRequest for each of its responses.
    server.respond_with(|_| reply(401, ""));
    for _ in 0..5 {
        let unauthorized =
            TaskObservation::Unreachable("the sidecar rejected the operator's token (401)".into());
        assert_eq!(get_task(&caller, &node, &to).await?, unauthorized);
    }
    assert_eq!(token_requests(plane, agent).await?.len(), 2);
    Ok(())
}

/// A client that can annotate a pod would otherwise get a token of the operator for any server, such as the API server.
pub async fn token_is_sent_to_no_pod_of_another_audience(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let agent = "operator-tokens-foreign";
    let server = Server::start(None).await?;
    let caller = Caller::with_tokens(server.address, source(plane, agent).await?, false);
    let (node, to) = isolated("a");
    for audience in ["sidecar.sei.io/sei/b", "https://kubernetes.default.svc.cluster.local", ""] {
        let to = Transport { audience: Some(audience.into()), ..to.clone() };
        let TaskObservation::Unreachable(why) = get_task(&caller, &node, &to).await? else {
            return Err("the sidecar was asked".into());
        };
        assert!(why.contains("annotation outrigger.dev/sidecar-audience"), "{why}");
        assert_eq!(caller.sidecars.probe_health(&node, &to, None).await, Health::Ready, "needs no token");
    }
    let without = Transport { audience: None, ..to };
    let TaskObservation::Unreachable(why) = get_task(&caller, &node, &without).await? else {
        return Err("the sidecar was asked".into());
    };
    assert!(why.contains("set --legacy-sidecar-token-file"), "{why}");
    assert_eq!(caller.sidecars.probe_health(&node, &without, None).await, Health::Ready, "needs no token");
    let requests = server.requests();
    assert!(requests.iter().all(|one| one.path == "/v0/healthz" && one.token.is_empty()), "{requests:?}");
    assert_eq!(token_requests(plane, agent).await?, []);
    Ok(())
}

pub async fn task_kind_is_sent_to_pods_with_an_audience(cx: Context) -> TestResult {
    let server = Server::start(None).await?;
    let tokens = source(cx.control_plane().await?, "operator-tokens-kind").await?;
    let caller = Caller::with_tokens(server.address, tokens, true);
    server.respond_with(|request| match request.path.as_str() {
        "/v0/dry-run" => reply(200, json!({ "valid": true }).to_string()),
        "/v0/tasks" => reply(201, json!({ "id": ID }).to_string()),
        _ => not_found(),
    });
    let (node, to) = isolated("a");
    let task = TaskRequest { id: Some(ID.into()), task_type: "config-apply".into(), params: None };
    for to in [&to, &Transport { audience: None, ..to.clone() }] {
        wait::until("the submission", TIMEOUT, || async {
            let claim = Claim::permanent();
            match caller.sidecars.submit_task(&node, to, None, &task, &claim).await {
                Submission::Accepted => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
        assert_eq!(caller.sidecars.dry_run(&node, to, None, &task).await, DryRunObservation::Valid);
        get_task(&caller, &node, to).await?;
    }
    let sent: Vec<(String, String)> =
        server.requests().into_iter().map(|request| (request.path, request.task_kind)).collect();
    let expected = [
        ("/v0/tasks", "config-apply"),
        ("/v0/dry-run", "config-apply"),
        ("/v0/tasks/6f2f2d3e-1c1b-5c55-9a52-1d1c2b3a4f5e", ""),
        ("/v0/tasks", ""),
        ("/v0/dry-run", ""),
        ("/v0/tasks/6f2f2d3e-1c1b-5c55-9a52-1d1c2b3a4f5e", ""),
    ];
    assert_eq!(sent, expected.map(|(path, kind)| (path.to_owned(), kind.to_owned())));
    Ok(())
}

pub async fn missing_permission_for_tokens_is_reported_and_stops_startup(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    source(plane, "operator-tokens-install").await?;
    let agent = "operator-tokens-unprivileged";
    let unprivileged = plane.user("unprivileged", None)?.client(agent).await?;
    let tokens = TokenSource::new(unprivileged, account());
    let Err(forbidden) = tokens.check(Duration::ZERO).await else { return Err("a token was issued".into()) };
    assert_eq!(
        forbidden.to_string(),
        "the operator is not permitted to request tokens of ServiceAccount outrigger-system/outrigger-operator (403): apply \
         deploy/operator/rbac.yaml, which allows it in the namespace of the operator, or correct --token-service-account"
    );
    let server = Server::start(None).await?;
    let caller = Caller::with_tokens(server.address, tokens, false);
    let (node, to) = isolated("a");
    let before = token_requests(plane, agent).await?.len();
    for _ in 0..3 {
        let unreachable = TaskObservation::Unreachable(forbidden.to_string());
        assert_eq!(get_task(&caller, &node, &to).await?, unreachable);
    }
    assert_eq!(token_requests(plane, agent).await?.len(), before + 1, "a failure is kept for a moment");
    assert!(server.requests().is_empty(), "{:?}", server.requests());
    let missing = Key { name: "missing".into(), ..account() };
    let privileged = TokenSource::new(plane.client().await?, missing);
    let Err(error) = privileged.check(Duration::ZERO).await else { return Err("a token was issued".into()) };
    assert_eq!(error, TokenError::NotFound("outrigger-system/missing".into()));
    Ok(())
}

pub async fn rotated_legacy_token_is_used_immediately(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    server.respond_with(|request| if request.token == "Bearer two" { not_found() } else { reply(401, "") });
    let refused = TaskObservation::Unreachable("the sidecar rejected the operator's token (401)".into());
    assert_eq!(caller.sidecars.get_task(&node, &to, None, ID).await, refused);
    assert_eq!(server.requests().len(), 1, "the same token is not sent twice");
    fs::write(&caller.token, "two")?;
    let found = TaskObservation::NotFound;
    assert_eq!(caller.sidecars.get_task(&node, &to, None, ID).await, found);
    assert_eq!(caller.sidecars.get_task(&node, &to, None, ID).await, found);

    // Rotated while the old token is cached: it is rejected, and the call is retried with the new one.
    fs::write(&caller.token, "three")?;
    server.respond_with(|request| if request.token == "Bearer three" { not_found() } else { reply(401, "") });
    assert_eq!(caller.sidecars.get_task(&node, &to, None, ID).await, found);
    let tokens: Vec<String> = server.requests().into_iter().map(|request| request.token).collect();
    let expected = ["Bearer one", "Bearer one", "Bearer two", "Bearer two", "Bearer two", "Bearer three"];
    assert_eq!(tokens, expected);
    Ok(())
}

pub async fn no_request_is_sent_without_a_legacy_token(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    let task = TaskRequest { id: Some(ID.into()), task_type: "mark-ready".into(), params: None };
    let reason = "cannot read the token for pods of previous versions: check --legacy-sidecar-token-file";
    for token in [Some(""), Some("two\nlines"), None] {
        match token {
            Some(text) => fs::write(&caller.token, text)?,
            None => fs::remove_file(&caller.token)?,
        }
        let unreachable = TaskObservation::Unreachable(reason.into());
        assert_eq!(caller.sidecars.get_task(&node, &to, None, ID).await, unreachable);
        let submitted = caller.sidecars.submit_task(&node, &to, None, &task, &Claim::permanent()).await;
        assert_eq!(submitted, Submission::Unknown(reason.into()));
    }
    assert!(server.requests().is_empty(), "{:?}", server.requests());
    Ok(())
}
