//! Sidecar calls with slow responses.

use std::time::{Duration, Instant};

use api::sidecar_wire::TaskRequest;
use plan::node::{ChainObservation, DryRunObservation, Health, Submission, TaskObservation};
use runtime::Key;
use runtime::lease::Claim;
use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::server::{Caller, Reply, Server, TIMEOUT, node, reply, transport};

/// Longer than a reconcile waits, shorter than the timeout of any request.
const SLOW: Duration = Duration::from_millis(1_200);

/// Longer than any timeout.
const NEVER: Duration = Duration::from_secs(600);

/// The most that a reconcile may take for one call.
const ONE_CALL: Duration = Duration::from_millis(900);

fn task(id: &str) -> TaskRequest {
    TaskRequest { id: Some(id.into()), task_type: "mark-ready".into(), params: None }
}

fn slow_reply(code: u16, body: impl Into<String>) -> Reply {
    Reply { after: SLOW, ..reply(code, body) }
}

async fn wait_requests(server: &Server, count: usize) -> testbed::Result<()> {
    wait::until(format!("{count} requests"), TIMEOUT, || async {
        let requests = server.requests();
        if requests.len() >= count { Ok(()) } else { Err(Error::Other(format!("{requests:?}"))) }
    })
    .await
}

pub async fn slow_response_does_not_block_and_wakes_node(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.respond_with(|_| slow_reply(503, ""));
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    let begin = Instant::now();
    assert_eq!(caller.sidecars.probe_health(&node, &to, None).await, Health::Unknown);
    assert!(begin.elapsed() < ONE_CALL, "{:?}", begin.elapsed());
    caller.wait_woken(1).await?;
    assert_eq!(caller.woken(), std::slice::from_ref(&node));
    let begin = Instant::now();
    assert_eq!(caller.sidecars.probe_health(&node, &to, None).await, Health::NotReady);
    assert!(begin.elapsed() < SLOW, "the result was kept: {:?}", begin.elapsed());
    assert_eq!(server.requests().len(), 1);
    assert_eq!(caller.sidecars.call_count(), 0, "a result is returned once");
    // Calls of different kinds do not wait for each other.
    let (health, task) = tokio::join!(
        caller.sidecars.probe_health(&node, &to, None),
        caller.sidecars.get_task(&node, &to, None, "7a000000-0000-4000-8000-000000000000"),
    );
    assert_eq!((health, task), (Health::Unknown, TaskObservation::Unknown));
    caller.wait_woken(3).await?;
    Ok(())
}

pub async fn slow_submission_is_sent_once(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.respond_with(|request| match request.method.as_str() {
        "POST" => slow_reply(201, json!({ "id": "x" }).to_string()),
        _ => reply(404, json!({ "error": "task not found" }).to_string()),
    });
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    for _ in 0..3 {
        assert_eq!(caller.sidecars.get_task(&node, &to, None, "x").await, TaskObservation::NotFound);
        assert_eq!(
            caller.sidecars.submit_task(&node, &to, None, &task("x"), &Claim::permanent()).await,
            Submission::Pending
        );
    }
    caller.wait_woken(1).await?;
    assert_eq!(
        caller.sidecars.submit_task(&node, &to, None, &task("x"), &Claim::permanent()).await,
        Submission::Accepted
    );
    let submissions = |server: &Server| server.requests().iter().filter(|one| one.method == "POST").count();
    assert_eq!(submissions(&server), 1);

    // Once the sidecar knows the task, an unread result is not taken for the response to the next attempt.
    assert_eq!(
        caller.sidecars.submit_task(&node, &to, None, &task("x"), &Claim::permanent()).await,
        Submission::Pending
    );
    caller.wait_woken(2).await?;
    let failed =
        json!({ "id": "x", "type": "mark-ready", "status": "failed", "submittedAt": "2026-05-18T10:00:00Z" });
    server.respond_with(move |request| match request.method.as_str() {
        "POST" => reply(400, json!({ "error": "no" }).to_string()),
        _ => reply(200, failed.to_string()),
    });
    let task_state = caller.sidecars.get_task(&node, &to, None, "x").await;
    assert!(matches!(task_state, TaskObservation::Found(_)), "{task_state:?}");
    let again = caller.sidecars.submit_task(&node, &to, None, &task("x"), &Claim::permanent()).await;
    assert_eq!((again, submissions(&server)), (Submission::Rejected("no".into()), 3));
    Ok(())
}

pub async fn call_for_another_task_replaces_previous(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.respond_with(|request| {
        let after = if request.path.ends_with("/one") { SLOW } else { Duration::ZERO };
        Reply { after, ..reply(404, json!({ "error": "task not found" }).to_string()) }
    });
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    assert_eq!(caller.sidecars.get_task(&node, &to, None, "one").await, TaskObservation::Unknown);
    assert_eq!(caller.sidecars.get_task(&node, &to, None, "two").await, TaskObservation::NotFound);
    // The same task of a pod at another address is another call, too.
    assert_eq!(caller.sidecars.get_task(&node, &to, None, "one").await, TaskObservation::Unknown);
    let mut other_pod = to.clone();
    other_pod.address = Some("127.0.0.2".into());
    server.respond_with(|_| reply(404, json!({ "error": "task not found" }).to_string()));
    let task = caller.sidecars.get_task(&node, &other_pod, None, "one").await;
    assert_eq!(task, TaskObservation::Unreachable("the sidecar refused the connection".into()));
    assert_eq!(caller.sidecars.call_count(), 0);
    wait::throughout("no wake-up for replaced calls", SLOW, || async {
        if caller.woken().is_empty() { Ok(()) } else { Err(format!("{:?}", caller.woken())) }
    })
    .await?;
    Ok(())
}

pub async fn slow_chain_response_is_kept_for_another_height(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let chain = json!({ "height": 12, "peers": 3, "catchingUp": false, "appHashAt": { "height": 7, "appHash": "AB" } });
    let body = chain.to_string();
    server.respond_with(move |_| slow_reply(200, body.clone()));
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    let begin = Instant::now();
    assert_eq!(caller.sidecars.get_chain(&node, &to, None, Some(7)).await, ChainObservation::Unknown);
    assert!(begin.elapsed() < ONE_CALL, "{:?}", begin.elapsed());
    caller.wait_woken(1).await?;
    // The chain has grown meanwhile: a call that is replaced each time would never return a result.
    let found = caller.sidecars.get_chain(&node, &to, None, Some(8)).await;
    assert_eq!(found, ChainObservation::Found(Box::new(serde_json::from_value(chain)?)));
    assert_eq!(server.requests().len(), 1);
    server.respond_with(|_| reply(404, ""));
    let chain = caller.sidecars.get_chain(&node, &to, None, Some(8)).await;
    assert_eq!((chain, caller.sidecars.call_count()), (ChainObservation::NotSupported, 0));
    Ok(())
}

/// The check must not block an update whose sidecar hangs.
pub async fn slow_dry_run_wakes_node_and_times_out(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.respond_with(|_| slow_reply(422, json!({ "error": "no" }).to_string()));
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    let begin = Instant::now();
    let dry_run = async || caller.sidecars.dry_run(&node, &to, None, &task("x")).await;
    assert_eq!(dry_run().await, DryRunObservation::Unknown);
    assert!(begin.elapsed() < ONE_CALL, "{:?}", begin.elapsed());
    caller.wait_woken(1).await?;
    assert_eq!(dry_run().await, DryRunObservation::Rejected("no".into()));
    assert_eq!(server.requests().len(), 1);
    server.respond_with(|_| Reply { after: NEVER, ..reply(200, "") });
    assert_eq!(dry_run().await, DryRunObservation::Unknown);
    caller.wait_woken(2).await?;
    let why = "the sidecar did not respond within 5 s";
    assert_eq!(dry_run().await, DryRunObservation::Unavailable(why.into()));
    Ok(())
}

pub async fn hanging_sidecar_times_out(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.respond_with(|_| Reply { after: NEVER, ..reply(200, "") });
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    let begin = Instant::now();
    assert_eq!(caller.sidecars.probe_health(&node, &to, None).await, Health::Unknown);
    caller.wait_woken(1).await?;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let health = caller.sidecars.probe_health(&node, &to, None).await;
    assert_eq!(health, Health::Unreachable("the sidecar did not respond within 2 s".into()));

    // A server that accepts connections and never responds.
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let caller = Caller::at(silent.local_addr()?);
    assert_eq!(caller.sidecars.probe_health(&node, &to, None).await, Health::Unknown);
    caller.wait_woken(1).await?;
    let health = caller.sidecars.probe_health(&node, &to, None).await;
    assert_eq!(health, Health::Unreachable("the sidecar did not respond within 2 s".into()));
    Ok(())
}

pub async fn concurrent_calls_are_bounded(_: Context) -> TestResult {
    const NODES: usize = 320;
    const MAX_CONCURRENT: usize = 256;
    let server = Server::start(None).await?;
    server.respond_with(|_| Reply { after: NEVER, ..reply(200, "") });
    let caller = Caller::new(&server);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..NODES {
        let (sidecars, to) = (caller.sidecars.clone(), transport(None));
        let key = Key { name: format!("node-{number}"), ..node() };
        calls.spawn(async move { sidecars.probe_health(&key, &to, None).await });
    }
    let results = calls.join_all().await;
    assert!(results.iter().all(|health| *health == Health::Unknown), "no call blocked its reconcile");
    wait_requests(&server, MAX_CONCURRENT).await?;
    if caller.woken().is_empty() {
        assert_eq!(server.requests().len(), MAX_CONCURRENT, "the others are queued");
    }
    caller.wait_woken(NODES).await?;
    assert_eq!(server.requests().len(), NODES, "all are sent eventually");
    Ok(())
}

pub async fn deleted_node_leaves_no_calls(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.respond_with(|_| slow_reply(200, ""));
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    assert_eq!(caller.sidecars.probe_health(&node, &to, None).await, Health::Unknown);
    assert_eq!(
        caller.sidecars.submit_task(&node, &to, None, &task("x"), &Claim::permanent()).await,
        Submission::Pending
    );
    wait_requests(&server, 2).await?;
    assert_eq!(caller.sidecars.call_count(), 2);
    caller.sidecars.forget(&node);
    assert_eq!(caller.sidecars.call_count(), 0);
    wait::throughout("no wake-up for a deleted node", SLOW, || async {
        if caller.woken().is_empty() { Ok(()) } else { Err(format!("{:?}", caller.woken())) }
    })
    .await?;
    assert_eq!(caller.sidecars.call_count(), 0);
    Ok(())
}

/// A leader that was suspended must not submit a task after another one took over.
pub async fn submission_without_valid_claim_is_not_sent(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    let expired = Claim::until(Instant::now());
    let submitted = caller.sidecars.submit_task(&node, &to, None, &task("x"), &expired).await;
    assert!(
        matches!(&submitted, Submission::Unknown(why) if why.contains("not the leader")),
        "{submitted:?}"
    );
    assert_eq!(server.requests().len(), 0);
    let valid = Claim::until(Instant::now() + TIMEOUT);
    caller.sidecars.submit_task(&node, &to, None, &task("x"), &valid).await;
    wait_requests(&server, 1).await?;
    Ok(())
}
