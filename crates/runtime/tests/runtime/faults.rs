//! Failing watches and requests.

use std::time::Duration;

use http::StatusCode;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::faults::fault_proxy::{
    ErrorResponse, Fault, FaultProxy, RequestMatcher, Resource, Times, Verb, WatchEnd,
};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::fixture::{Fixture, LONG_LEASE, Process, SOON};

/// How soon the first edit after a recovery must be reconciled.
const AFTER_RECOVERY: Duration = Duration::from_secs(5);

fn toys() -> Resource {
    Resource::new("test.outrigger.dev", "toys")
}

pub async fn failing_watch_recovers_and_does_not_affect_others(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let process =
        Process::start(&cx, &plane.admin().at(proxy.url()), &fixture.namespace, "dying-watches", LONG_LEASE)?;
    process.wait_leading().await?;
    fixture.set("a", 1).await?;
    fixture.wait_reconciled("a", 1, SOON).await?;

    let watching = RequestMatcher::any().verb(Verb::Watch).verb(Verb::List).resource(toys());
    let refused = ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR);
    let outage = proxy.inject(Fault::Respond(refused), watching.clone(), Times::Always);
    assert_eq!(proxy.end_watches(&watching, &WatchEnd::Reset), 1, "there is one watch of toys");
    // Long enough for the backoff to reach its maximum.
    outage.wait_fired(8, SOON).await?;

    // A deleted ConfigMap is restored during the outage: its own watch works, and the toy is cached.
    fixture.maps.delete("a", &DeleteParams::default()).await?;
    fixture.wait_reconciled("a", 1, AFTER_RECOVERY).await?;
    assert!(process.metric("outrigger_watch_restarts_total", "kind=\"toys\",cause=\"server\"").await >= 7.0);
    assert_eq!(process.metric("outrigger_watch_restarts_total", "kind=\"configmaps\"").await, 0.0);
    assert_eq!(process.request("GET", "/livez", "").await?.0, 200, "an outage of seconds is tolerated");

    outage.remove();
    fixture.set("a", 2).await?;
    let took = fixture.wait_reconciled("a", 2, AFTER_RECOVERY).await?;
    println!("first edit after recovery: {:.1} s", took.as_secs_f64());
    Ok(())
}

pub async fn black_holed_watch_recovers(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let user = plane.admin().at(proxy.url());
    // A watch timeout of five seconds instead of two minutes: that is how long a lost connection goes unnoticed.
    let process = Process::start_with(&cx, &user, &fixture.namespace, "black-hole", |config| {
        config.watch_timeout = Some(5)
    })?;
    process.wait_leading().await?;
    fixture.set("a", 1).await?;
    fixture.wait_reconciled("a", 1, SOON).await?;

    let hole = proxy.black_hole(RequestMatcher::any().verb(Verb::Watch).resource(toys()));
    hole.wait_fired(1, SOON).await?;
    fixture.set("a", 2).await?;
    // The lost watch times out, and its successor is black-holed as well.
    hole.wait_fired(2, SOON).await?;
    let seen = fixture.toys.get("a").await?.status.map(|status| status.seen_size);
    assert_eq!(seen, Some(1), "no event was delivered");
    hole.remove();
    fixture.wait_reconciled("a", 2, AFTER_RECOVERY).await?;
    Ok(())
}

pub async fn invalid_object_does_not_affect_others(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    fixture.set_raw("broken-before", json!({ "size": "large" })).await?;
    let process = Process::start(&cx, plane.admin(), &fixture.namespace, "unreadable", LONG_LEASE)?;
    process.wait_leading().await?;
    fixture.set("good", 1).await?;
    fixture.wait_reconciled("good", 1, SOON).await?;
    fixture.set_raw("broken-after", json!({ "size": { "width": 3 } })).await?;
    wait::until("both objects to be reported as invalid", SOON, || async {
        let state = process.state().await?;
        let is_invalid = |name: &str| state["invalid"][format!("{}/{name}", fixture.namespace)].is_string();
        if is_invalid("broken-before") && is_invalid("broken-after") {
            Ok(())
        } else {
            Err(Error::Other(state.to_string()))
        }
    })
    .await?;
    fixture.set("good", 2).await?;
    fixture.wait_reconciled("good", 2, SOON).await?;
    assert!(process.metric("outrigger_watch_broken_objects", "kind=\"toys\"").await >= 2.0);

    fixture.set_raw("broken-after", json!({ "size": 3 })).await?;
    fixture.wait_reconciled("broken-after", 3, SOON).await?;
    Ok(())
}

pub async fn failing_api_server_is_not_flooded(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let process =
        Process::start(&cx, &plane.admin().at(proxy.url()), &fixture.namespace, "refused", LONG_LEASE)?;
    process.wait_leading().await?;
    for code in [StatusCode::TOO_MANY_REQUESTS, StatusCode::INTERNAL_SERVER_ERROR] {
        let name = format!("toy-{}", code.as_u16());
        let writes =
            RequestMatcher::writes().namespace(&fixture.namespace).resource(Resource::new("", "configmaps"));
        let outage = proxy.inject(Fault::Respond(ErrorResponse::new(code)), writes, Times::Always);
        fixture.set(&name, 1).await?;
        outage.wait_fired(5, SOON).await?;
        let state = process.state().await?;
        let failures = &state["queue"]["failing"][format!("{}/{name}", fixture.namespace)];
        assert!(failures.as_u64().is_some_and(|count| count >= 4), "not reported as failing: {state}");
        outage.remove();
        fixture.wait_reconciled(&name, 1, SOON).await?;
        // With a backoff of 200 ms, 400 ms, 800 ms ... there are a handful of attempts; without it, thousands.
        assert!(outage.fired() <= 8, "{} requests during the outage", outage.fired());
    }
    Ok(())
}

pub async fn api_server_restart_is_survived(cx: Context) -> TestResult {
    let site = cx.site()?;
    let plane = ControlPlane::builder(&site).start().await?;
    let fixture = Fixture::new(&cx, &plane).await?;
    let process = Process::start(&cx, plane.admin(), &fixture.namespace, "restarted", LONG_LEASE)?;
    process.wait_leading().await?;
    fixture.set("a", 1).await?;
    fixture.wait_reconciled("a", 1, SOON).await?;
    plane.restart_api_server().await?;
    fixture.set("a", 2).await?;
    let took = fixture.wait_reconciled("a", 2, AFTER_RECOVERY).await?;
    println!("first edit after the API server restart: {:.1} s", took.as_secs_f64());
    assert_eq!(process.request("GET", "/livez", "").await?.0, 200);
    Ok(())
}
