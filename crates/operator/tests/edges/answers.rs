//! What answers mean, and what questions carry.

use std::fs;

use api::names::object;
use api::sidecar_wire::{TaskRequest, TaskState};
use plan::node::{Health, Submission, TaskSight};
use serde_json::json;
use testbed::{Context, TestResult};

use crate::server::{Asker, Server, node, reply, transport};

const ID: &str = "6f2f2d3e-1c1b-5c55-9a52-1d1c2b3a4f5e";

fn task() -> TaskRequest {
    TaskRequest { id: Some(ID.into()), task_type: "mark-ready".into(), params: None }
}

fn result(id: &str, error: &str) -> String {
    json!({ "id": id, "type": "mark-ready", "status": "failed", "run": 2, "error": error, "submittedAt": "2026-05-18T10:00:00Z" })
        .to_string()
}

pub async fn each_answer_means_one_thing_and_says_it_in_the_same_words(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let asker = Asker::of(&server);
    let (sidecars, node, to) = (&asker.sidecars, node(), transport(None));

    let unauthorized = "it does not accept the operator's token (401)";
    let forbidden = "it does not let the operator in (403): bind its ServiceAccount to a role with rights on seinodetasks";
    let (nonsense, too_long) = ("its answer cannot be understood", "its answer is longer than 1 MiB");
    let long = "x".repeat(2 * 1024 * 1024);
    let said = |text: &str| json!({ "error": text }).to_string();

    let unreachable = |why: &str| Health::Unreachable(why.into());
    for (code, body, wanted) in [
        (200, "", Health::Ready),
        (503, "", Health::NotReady),
        (502, "", unreachable("it answers with code 502")),
        (401, "", unreachable(unauthorized)),
        (403, "", unreachable(forbidden)),
        (200, &long, unreachable(too_long)),
    ] {
        let body = body.to_owned();
        server.answers(move |_| reply(code, body.clone()));
        for _ in 0..2 {
            assert_eq!(sidecars.health(&node, &to, None).await, wanted, "{code}");
        }
    }

    let unreachable = |why: &str| TaskSight::Unreachable(why.into());
    for (code, body, wanted) in [
        (404, said("task not found"), TaskSight::NotFound),
        (404, "404 page not found".into(), unreachable("it answers with code 404")),
        (200, "{}".into(), unreachable(nonsense)),
        (200, result("another", ""), unreachable(nonsense)),
        (403, String::new(), unreachable(forbidden)),
        (500, String::new(), unreachable("it answers with code 500")),
    ] {
        server.answers(move |_| reply(code, body.clone()));
        for _ in 0..2 {
            assert_eq!(sidecars.task(&node, &to, None, ID).await, wanted, "{code}");
        }
    }
    server.answers(|_| reply(200, result(ID, &"no ".repeat(10_000))));
    let TaskSight::Found(found) = sidecars.task(&node, &to, None, ID).await else {
        return Err("the task is there".into());
    };
    assert_eq!((found.status, found.run), (TaskState::Failed, 2));
    let length = found.error.as_deref().map_or(0, str::len);
    assert!(length > 1000 && length < 1100, "{length} bytes fit into a status");

    let rejected = |why: &str| Submission::Rejected(why.into());
    let unknown = |why: &str| Submission::Unknown(why.into());
    for (code, body, wanted) in [
        (201, json!({ "id": ID }).to_string(), Submission::Taken),
        (202, json!({ "id": ID }).to_string(), Submission::Taken),
        (201, json!({ "id": "another" }).to_string(), unknown(nonsense)),
        (201, String::new(), unknown(nonsense)),
        (400, said("unknown mode: turbo"), rejected("unknown mode: turbo")),
        (400, "nonsense".into(), rejected("it answers with code 400")),
        (413, String::new(), rejected("it answers with code 413")),
        // About the operator, not about the task: somebody may mend it.
        (401, said("hush"), unknown(unauthorized)),
        (403, said("hush"), unknown(forbidden)),
        (404, String::new(), unknown("it answers with code 404")),
        (503, String::new(), unknown("it answers with code 503")),
    ] {
        server.answers(move |_| reply(code, body.clone()));
        for _ in 0..2 {
            assert_eq!(sidecars.submit(&node, &to, None, &task()).await, Some(wanted.clone()), "{code}");
        }
    }
    assert_eq!(sidecars.remembered(), 0, "what was answered at once is not kept");
    Ok(())
}

pub async fn questions_name_the_pod_and_share_a_connection(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    server.answers(|_| reply(201, json!({ "id": ID }).to_string()));
    asker.sidecars.submit(&node, &to, None, &task()).await;
    asker.sidecars.task(&node, &to, None, ID).await;
    asker.sidecars.health(&node, &to, None).await;
    let seen = server.seen();
    let asked: Vec<String> = seen.iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect();
    assert_eq!(asked, ["POST /v0/tasks".into(), format!("GET /v0/tasks/{ID}"), "GET /v0/healthz".into()]);
    assert_eq!(seen[0].body, json!({ "id": ID, "type": "mark-ready" }).to_string());
    for seen in &seen {
        assert_eq!((seen.host.as_str(), seen.token.as_str()), (&*object::pod_host("a", "sei"), "Bearer one"));
        assert_eq!(seen.connection, 1, "{seen:?}");
    }
    Ok(())
}

pub async fn a_connection_that_was_closed_unnoticed_costs_no_answer(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    for round in 1..=5 {
        server.answers(|_| reply(200, ""));
        assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Ready, "round {round}");
        server.cut_connections().await;
        server.answers(|_| reply(404, json!({ "error": "task not found" }).to_string()));
        assert_eq!(asker.sidecars.task(&node, &to, None, ID).await, TaskSight::NotFound, "round {round}");
        server.cut_connections().await;
    }
    assert_eq!(server.seen().len(), 10, "and nothing was asked twice");
    Ok(())
}

pub async fn a_token_that_was_replaced_is_shown_at_once(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    server.answers(|seen| reply(if seen.token == "Bearer two" { 200 } else { 401 }, ""));
    let refused = Health::Unreachable("it does not accept the operator's token (401)".into());
    assert_eq!(asker.sidecars.health(&node, &to, None).await, refused);
    assert_eq!(server.seen().len(), 1, "the same token is not shown twice");
    fs::write(&asker.token, "two")?;
    assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Ready);
    assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Ready);

    // Replaced while the old one is still cached: it is refused, and the new one shown in the same question.
    fs::write(&asker.token, "three")?;
    server.answers(|seen| reply(if seen.token == "Bearer three" { 200 } else { 401 }, ""));
    assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Ready);
    let shown: Vec<String> = server.seen().into_iter().map(|seen| seen.token).collect();
    let wanted = ["Bearer one", "Bearer one", "Bearer two", "Bearer two", "Bearer two", "Bearer three"];
    assert_eq!(shown, wanted);
    Ok(())
}

pub async fn without_a_token_nothing_is_sent(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let asker = Asker::of(&server);
    let (node, to) = (node(), transport(None));
    let why = "the operator has no token to show: its --sidecar-token-file cannot be read";
    for unusable in [Some(""), Some("two\nlines"), None] {
        match unusable {
            Some(text) => fs::write(&asker.token, text)?,
            None => fs::remove_file(&asker.token)?,
        }
        assert_eq!(asker.sidecars.health(&node, &to, None).await, Health::Unreachable(why.into()));
        let submitted = asker.sidecars.submit(&node, &to, None, &task()).await;
        assert_eq!(submitted, Some(Submission::Unknown(why.into())));
    }
    assert!(server.seen().is_empty(), "{:?}", server.seen());
    Ok(())
}

pub async fn where_nothing_listens_nothing_is_known(_: Context) -> TestResult {
    let address = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let asker = Asker::at(address);
    let node = node();
    let refused = Health::Unreachable("it does not take connections".into());
    assert_eq!(asker.sidecars.health(&node, &transport(None), None).await, refused);
    let mut nowhere = transport(None);
    nowhere.address = None;
    let nowhere = asker.sidecars.task(&node, &nowhere, None, ID).await;
    assert_eq!(nowhere, TaskSight::Unreachable("its pod has no address yet".into()));
    Ok(())
}
