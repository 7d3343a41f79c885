//! Questions whose answers take their time.

use std::time::{Duration, Instant};

use api::sidecar_wire::TaskRequest;
use plan::node::{Health, Submission, TaskSight};
use runtime::Key;
use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, Error, TestResult};

use crate::server::{Asker, Reply, SOON, Server, node, reply, transport};

/// Longer than a pass waits, shorter than any question's deadline.
const SLOW: Duration = Duration::from_millis(1_200);

/// Longer than any deadline.
const NEVER: Duration = Duration::from_secs(600);

/// What a pass may take that has asked one question.
const A_PASS: Duration = Duration::from_millis(900);

fn task(id: &str) -> TaskRequest {
    TaskRequest { id: Some(id.into()), task_type: "mark-ready".into(), params: None }
}

fn slowly(code: u16, body: impl Into<String>) -> Reply {
    Reply { after: SLOW, ..reply(code, body) }
}

async fn asked(server: &Server, count: usize) -> testbed::Result<()> {
    wait::until(format!("{count} requests"), SOON, || async {
        let seen = server.seen();
        if seen.len() >= count { Ok(()) } else { Err(Error::Refused(format!("{seen:?}"))) }
    })
    .await
}

pub async fn an_answer_that_takes_long_holds_nothing_up_and_wakes_its_node(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.answers(|_| slowly(503, ""));
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    let begin = Instant::now();
    assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Unasked);
    assert!(begin.elapsed() < A_PASS, "{:?}", begin.elapsed());
    asker.wakes(1).await?;
    assert_eq!(asker.woken(), std::slice::from_ref(&node));
    let begin = Instant::now();
    assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::NotReady);
    assert!(begin.elapsed() < SLOW, "it was kept: {:?}", begin.elapsed());
    assert_eq!(server.seen().len(), 1);
    assert_eq!(asker.sidecars.remembered(), 0, "and given once");
    // Questions of different kinds do not wait for each other.
    let (health, known) = tokio::join!(
        asker.sidecars.health(&node, &to, None),
        asker.sidecars.task(&node, &to, None, "7a000000-0000-4000-8000-000000000000"),
    );
    assert_eq!((health, known), (Health::Unasked, TaskSight::Unasked));
    asker.wakes(3).await?;
    Ok(())
}

pub async fn a_task_is_given_once_however_long_the_answer_takes(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.answers(|seen| match seen.method.as_str() {
        "POST" => slowly(201, json!({ "id": "x" }).to_string()),
        _ => reply(404, json!({ "error": "task not found" }).to_string()),
    });
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    for _ in 0..3 {
        assert_eq!(asker.sidecars.task(&node, &to, None, "x").await, TaskSight::NotFound);
        assert_eq!(asker.sidecars.submit(&node, &to, None, &task("x")).await, None);
    }
    asker.wakes(1).await?;
    assert_eq!(asker.sidecars.submit(&node, &to, None, &task("x")).await, Some(Submission::Taken));
    let given = |server: &Server| server.seen().iter().filter(|seen| seen.method == "POST").count();
    assert_eq!(given(&server), 1);

    // An answer that nobody fetched is not taken for that to the next attempt, once the sidecar shows the attempt before.
    assert_eq!(asker.sidecars.submit(&node, &to, None, &task("x")).await, None);
    asker.wakes(2).await?;
    let failed =
        json!({ "id": "x", "type": "mark-ready", "status": "failed", "submittedAt": "2026-05-18T10:00:00Z" });
    server.answers(move |seen| match seen.method.as_str() {
        "POST" => reply(400, json!({ "error": "no" }).to_string()),
        _ => reply(200, failed.to_string()),
    });
    let shown = asker.sidecars.task(&node, &to, None, "x").await;
    assert!(matches!(shown, TaskSight::Found(_)), "{shown:?}");
    let again = asker.sidecars.submit(&node, &to, None, &task("x")).await;
    assert_eq!((again, given(&server)), (Some(Submission::Rejected("no".into())), 3));
    Ok(())
}

pub async fn a_question_about_another_task_replaces_the_one_before(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.answers(|seen| {
        let after = if seen.path.ends_with("/one") { SLOW } else { Duration::ZERO };
        Reply { after, ..reply(404, json!({ "error": "task not found" }).to_string()) }
    });
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    assert_eq!(asker.sidecars.task(&node, &to, None, "one").await, TaskSight::Unasked);
    assert_eq!(asker.sidecars.task(&node, &to, None, "two").await, TaskSight::NotFound);
    // The same task of a pod at another address is another question, too.
    assert_eq!(asker.sidecars.task(&node, &to, None, "one").await, TaskSight::Unasked);
    let mut elsewhere = to.clone();
    elsewhere.address = Some("127.0.0.2".into());
    server.answers(|_| reply(404, json!({ "error": "task not found" }).to_string()));
    let there = asker.sidecars.task(&node, &elsewhere, None, "one").await;
    assert_eq!(there, TaskSight::Unreachable("it does not take connections".into()));
    assert_eq!(asker.sidecars.remembered(), 0);
    wait::throughout("silence about what was replaced", SLOW, || async {
        if asker.woken().is_empty() { Ok(()) } else { Err(format!("{:?}", asker.woken())) }
    })
    .await?;
    Ok(())
}

pub async fn a_sidecar_that_hangs_is_unreachable_in_its_time(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.answers(|_| Reply { after: NEVER, ..reply(200, "") });
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    let begin = Instant::now();
    assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Unasked);
    asker.wakes(1).await?;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let health = asker.sidecars.health(&node, &to, None).await;
    assert_eq!(health, Health::Unreachable("no answer within 2 s".into()));

    // One that takes connections and says nothing, also not what TLS begins with.
    let deaf = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let asker = Asker::at(deaf.local_addr()?);
    assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Unasked);
    asker.wakes(1).await?;
    let health = asker.sidecars.health(&node, &to, None).await;
    assert_eq!(health, Health::Unreachable("no answer within 2 s".into()));
    Ok(())
}

pub async fn sidecars_that_hang_are_not_all_asked_at_once(_: Context) -> TestResult {
    const NODES: usize = 320;
    const AT_ONCE: usize = 256;
    let server = Server::start(None).await?;
    server.answers(|_| Reply { after: NEVER, ..reply(200, "") });
    let asker = Asker::of(&server);
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..NODES {
        let (sidecars, to) = (asker.sidecars.clone(), transport(None));
        let key = Key { name: format!("node-{number}"), ..node() };
        asking.spawn(async move { sidecars.health(&key, &to, None).await });
    }
    let asked_for = asking.join_all().await;
    assert!(asked_for.iter().all(|health| *health == Health::Unasked), "none held up its pass");
    asked(&server, AT_ONCE).await?;
    if asker.woken().is_empty() {
        assert_eq!(server.seen().len(), AT_ONCE, "the others wait for their turn");
    }
    asker.wakes(NODES).await?;
    assert_eq!(server.seen().len(), NODES, "and get it");
    Ok(())
}

pub async fn nothing_is_kept_of_a_node_that_is_gone(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    server.answers(|_| slowly(200, ""));
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Unasked);
    assert_eq!(asker.sidecars.submit(&node, &to, None, &task("x")).await, None);
    asked(&server, 2).await?;
    assert_eq!(asker.sidecars.remembered(), 2);
    asker.sidecars.forget(&node);
    assert_eq!(asker.sidecars.remembered(), 0);
    wait::throughout("silence about a node that is gone", SLOW, || async {
        if asker.woken().is_empty() { Ok(()) } else { Err(format!("{:?}", asker.woken())) }
    })
    .await?;
    assert_eq!(asker.sidecars.remembered(), 0);
    Ok(())
}
