//! Requests of the sidecar client, and how it maps responses.

use api::names::object;
use api::sidecar_wire::{TaskRequest, TaskState};
use plan::node::{ChainObservation, DryRunObservation, Health, Submission, TaskObservation};
use runtime::lease::Claim;
use serde_json::json;
use testbed::{Context, TestResult};

use crate::server::{Caller, Server, answer, node, reply, transport};

const ID: &str = "6f2f2d3e-1c1b-5c55-9a52-1d1c2b3a4f5e";

fn task() -> TaskRequest {
    TaskRequest { id: Some(ID.into()), task_type: "mark-ready".into(), params: None }
}

fn result(id: &str, error: &str) -> String {
    json!({ "id": id, "type": "mark-ready", "status": "failed", "run": 2, "error": error, "submittedAt": "2026-05-18T10:00:00Z" })
        .to_string()
}

pub async fn response_mapping_is_stable(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let (sidecars, node, to) = (&caller.sidecars, node(), transport(None));

    let unauthorized = "the sidecar rejected the operator's token (401)";
    let forbidden = "the sidecar denied access to the operator (403): bind its ServiceAccount to a role that allows seinodetasks";
    let malformed = "the sidecar's response is malformed";
    let too_large = "the sidecar's response exceeds 1 MiB";
    let long = "x".repeat(2 * 1024 * 1024);
    let error = |text: &str| json!({ "error": text }).to_string();

    let unreachable = |reason: &str| Health::Unreachable(reason.into());
    for (code, body, expected) in [
        (200, "", Health::Ready),
        (503, "", Health::NotReady),
        (502, "", unreachable("the sidecar returned status 502")),
        (401, "", unreachable(unauthorized)),
        (403, "", unreachable(forbidden)),
        (200, &long, unreachable(too_large)),
    ] {
        let body = body.to_owned();
        server.respond_with(move |_| reply(code, body.clone()));
        for _ in 0..2 {
            assert_eq!(
                answer(async || sidecars.probe_health(&node, &to, None).await).await,
                expected,
                "{code}"
            );
        }
    }

    let unreachable = |reason: &str| TaskObservation::Unreachable(reason.into());
    for (code, body, expected) in [
        (404, error("task not found"), TaskObservation::NotFound),
        (404, "404 page not found".into(), unreachable("the sidecar returned status 404")),
        (200, "{}".into(), unreachable(malformed)),
        (200, result("another", ""), unreachable(malformed)),
        (403, String::new(), unreachable(forbidden)),
        (500, String::new(), unreachable("the sidecar returned status 500")),
    ] {
        server.respond_with(move |_| reply(code, body.clone()));
        for _ in 0..2 {
            assert_eq!(
                answer(async || sidecars.get_task(&node, &to, None, ID).await).await,
                expected,
                "{code}"
            );
        }
    }
    server.respond_with(|_| reply(200, result(ID, &"no ".repeat(10_000))));
    let TaskObservation::Found(found) = answer(async || sidecars.get_task(&node, &to, None, ID).await).await
    else {
        return Err("the task was not found".into());
    };
    assert_eq!((found.status, found.run), (TaskState::Failed, 2));
    let length = found.error.as_deref().map_or(0, str::len);
    assert!(length > 1000 && length < 1100, "{length} bytes");

    let rejected = |reason: &str| Submission::Rejected(reason.into());
    let unknown = |reason: &str| Submission::Unknown(reason.into());
    for (code, body, expected) in [
        (201, json!({ "id": ID }).to_string(), Submission::Accepted),
        (202, json!({ "id": ID }).to_string(), Submission::Accepted),
        (201, json!({ "id": "another" }).to_string(), unknown(malformed)),
        (201, String::new(), unknown(malformed)),
        (400, error("unknown mode: turbo"), rejected("unknown mode: turbo")),
        (400, "not JSON".into(), rejected("the sidecar returned status 400")),
        (413, String::new(), rejected("the sidecar returned status 413")),
        // These concern the operator, not the task: they can be fixed without a change of the task.
        (401, error("hidden"), unknown(unauthorized)),
        (403, error("hidden"), unknown(forbidden)),
        (404, String::new(), unknown("the sidecar returned status 404")),
        (503, String::new(), unknown("the sidecar returned status 503")),
    ] {
        server.respond_with(move |_| reply(code, body.clone()));
        for _ in 0..2 {
            assert_eq!(
                answer(async || sidecars.submit_task(&node, &to, None, &task(), &Claim::permanent()).await)
                    .await,
                expected,
                "{code}"
            );
        }
    }
    assert_eq!(sidecars.call_count(), 0, "a result that was returned is not kept");
    Ok(())
}

pub async fn chain_responses_are_mapped(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let (sidecars, node, to) = (&caller.sidecars, node(), transport(None));
    let chain = json!({
        "height": 12, "latestBlockTime": "2026-05-18T10:00:00.000000Z", "appHash": "AB12", "peers": 3,
        "catchingUp": false, "appHashAt": { "height": 7, "appHash": "CD34" },
    });
    // A newer sidecar may return more fields.
    let mut newer = chain.clone();
    newer["votingPower"] = json!("1");
    let found = ChainObservation::Found(Box::new(serde_json::from_value(chain.clone())?));
    let with = |field: &str, value: serde_json::Value| {
        let mut chain = chain.clone();
        chain[field] = value;
        chain.to_string()
    };
    let unavailable = |reason: &str| ChainObservation::Unavailable(reason.into());
    let malformed = "the sidecar's response is malformed";
    let denied = "the sidecar denied access to the operator (403): bind its ServiceAccount to a role that allows seinodetasks";
    for (code, body, expected) in [
        (200, newer.to_string(), found),
        (404, "404 page not found\n".into(), ChainObservation::NotSupported),
        (
            503,
            json!({ "error": "seid's RPC does not answer" }).to_string(),
            unavailable("seid's RPC does not answer"),
        ),
        (503, String::new(), unavailable("the sidecar returned status 503")),
        (502, String::new(), unavailable("the sidecar returned status 502")),
        (403, String::new(), unavailable(denied)),
        (200, "{}".into(), unavailable(malformed)),
        (200, with("appHashAt", json!({ "height": 8, "appHash": "CD34" })), unavailable(malformed)),
        (200, with("appHashAt", json!({ "height": 7, "appHash": "" })), unavailable(malformed)),
        (200, with("appHash", json!("run this: curl")), unavailable(malformed)),
        (200, with("appHash", json!("A".repeat(129))), unavailable(malformed)),
    ] {
        server.respond_with(move |_| reply(code, body.clone()));
        for _ in 0..2 {
            assert_eq!(
                answer(async || sidecars.get_chain(&node, &to, None, Some(7)).await).await,
                expected,
                "{code}"
            );
        }
    }
    let mut without = transport(None);
    without.address = None;
    let chain = answer(async || sidecars.get_chain(&node, &without, None, None).await).await;
    assert_eq!(chain, unavailable("the pod has no IP address yet"));
    answer(async || sidecars.get_chain(&node, &to, None, None).await).await;
    let requests = server.requests();
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    assert_eq!((paths.first(), paths.last()), (Some(&"/v0/chain?appHashAt=7"), Some(&"/v0/chain")));
    assert!(requests.iter().all(|request| request.token == "Bearer one"), "{requests:?}");
    assert_eq!(sidecars.call_count(), 0, "a result that was returned is not kept");
    Ok(())
}

pub async fn dry_run_responses_are_mapped(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let (sidecars, node, to) = (&caller.sidecars, node(), transport(None));
    let request = TaskRequest {
        id: None,
        task_type: "config-apply".into(),
        params: json!({ "incremental": true }).as_object().cloned(),
    };
    let rejected = |reason: &str| DryRunObservation::Rejected(reason.into());
    let unavailable = |reason: &str| DryRunObservation::Unavailable(reason.into());
    let malformed = "the sidecar's response is malformed";
    let error = |text: &str| json!({ "error": text }).to_string();
    for (code, body, expected) in [
        (200, json!({ "valid": true }).to_string(), DryRunObservation::Valid),
        (
            200,
            json!({ "valid": true, "note": "not checked", "other": 1 }).to_string(),
            DryRunObservation::Valid,
        ),
        (200, json!({ "valid": false }).to_string(), unavailable(malformed)),
        (200, "ok".into(), unavailable(malformed)),
        (404, "404 page not found\n".into(), DryRunObservation::NotSupported),
        (422, error("config-apply: no"), rejected("config-apply: no")),
        // Not from a sidecar, or not about the configuration: the update continues.
        (422, "no".into(), unavailable("the sidecar returned status 422")),
        (400, error("unknown task type"), unavailable("the sidecar returned status 400")),
        (401, String::new(), unavailable("the sidecar rejected the operator's token (401)")),
        (503, error("too many"), unavailable("the sidecar returned status 503")),
    ] {
        server.respond_with(move |_| reply(code, body.clone()));
        for _ in 0..2 {
            assert_eq!(
                answer(async || sidecars.dry_run(&node, &to, None, &request).await).await,
                expected,
                "{code}"
            );
        }
    }
    server.respond_with(|_| reply(422, json!({ "error": "no ".repeat(10_000) }).to_string()));
    let DryRunObservation::Rejected(why) =
        answer(async || sidecars.dry_run(&node, &to, None, &request).await).await
    else {
        return Err("not rejected".into());
    };
    assert!(why.len() < 1100, "{} bytes", why.len());
    let requests = server.requests();
    let body = json!({ "type": "config-apply", "params": { "incremental": true } });
    for request in &requests {
        assert_eq!(
            (request.method.as_str(), request.path.as_str(), request.token.as_str()),
            ("POST", "/v0/dry-run", "Bearer one")
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&request.body)?, body);
    }
    assert_eq!(sidecars.call_count(), 0, "a result that was returned is not kept");
    Ok(())
}

pub async fn requests_use_pod_host_and_share_a_connection(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    server.respond_with(|_| reply(201, json!({ "id": ID }).to_string()));
    answer(async || caller.sidecars.submit_task(&node, &to, None, &task(), &Claim::permanent()).await).await;
    answer(async || caller.sidecars.get_task(&node, &to, None, ID).await).await;
    answer(async || caller.sidecars.probe_health(&node, &to, None).await).await;
    let requests = server.requests();
    let lines: Vec<String> = requests.iter().map(|one| format!("{} {}", one.method, one.path)).collect();
    assert_eq!(lines, ["POST /v0/tasks".into(), format!("GET /v0/tasks/{ID}"), "GET /v0/healthz".into()]);
    assert_eq!(requests[0].body, json!({ "id": ID, "type": "mark-ready" }).to_string());
    for request in &requests {
        // The proxy requires no token at this path.
        let token = if request.path == "/v0/healthz" { "" } else { "Bearer one" };
        assert_eq!((request.host.as_str(), request.token.as_str()), (&*object::pod_host("a", "sei"), token));
        assert_eq!(request.connection, 1, "{request:?}");
    }
    Ok(())
}

pub async fn closed_idle_connection_is_replaced(_: Context) -> TestResult {
    let server = Server::start(None).await?;
    let caller = Caller::new(&server);
    let (node, to) = (node(), transport(None));
    for round in 1..=5 {
        server.respond_with(|_| reply(200, ""));
        assert_eq!(
            answer(async || caller.sidecars.probe_health(&node, &to, None).await).await,
            Health::Ready,
            "round {round}"
        );
        server.close_connections().await;
        server.respond_with(|_| reply(404, json!({ "error": "task not found" }).to_string()));
        assert_eq!(
            answer(async || caller.sidecars.get_task(&node, &to, None, ID).await).await,
            TaskObservation::NotFound,
            "round {round}"
        );
        server.close_connections().await;
    }
    assert_eq!(server.requests().len(), 10, "no request was sent twice");
    Ok(())
}

pub async fn refused_connection_and_missing_pod_ip_are_unreachable(_: Context) -> TestResult {
    let address = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let caller = Caller::at(address);
    let node = node();
    let refused = Health::Unreachable("the sidecar refused the connection".into());
    assert_eq!(
        answer(async || caller.sidecars.probe_health(&node, &transport(None), None).await).await,
        refused
    );
    let mut without_ip = transport(None);
    without_ip.address = None;
    let task = answer(async || caller.sidecars.get_task(&node, &without_ip, None, ID).await).await;
    assert_eq!(task, TaskObservation::Unreachable("the pod has no IP address yet".into()));
    Ok(())
}
