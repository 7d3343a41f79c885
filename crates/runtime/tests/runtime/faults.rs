//! Watches and requests that break, and heal.

use std::time::Duration;

use http::StatusCode;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::faults::fault_proxy::{Fault, FaultProxy, Matching, Refusal, Resource, Times, Verb, WatchEnd};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::process::{Ground, LONG_LEASE, Process, SOON};

/// After healing, the first new edit must be handled within this time.
const AFTER_HEALING: Duration = Duration::from_secs(5);

fn toys() -> Resource {
    Resource::new("test.outrigger.dev", "toys")
}

pub async fn watches_of_one_kind_die_and_heal_and_others_are_undisturbed(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let process =
        Process::start(&cx, &plane.admin().at(proxy.url()), &ground.namespace, "dying-watches", LONG_LEASE)?;
    process.leads().await?;
    ground.set("a", 1).await?;
    ground.settled("a", 1, SOON).await?;

    let watching = Matching::any().verb(Verb::Watch).verb(Verb::List).resource(toys());
    let refused = Refusal::of(StatusCode::INTERNAL_SERVER_ERROR);
    let dead = proxy.inject(Fault::Answer(refused), watching.clone(), Times::Always);
    assert_eq!(proxy.end_watches(&watching, &WatchEnd::Reset), 1, "it had one watch of toys");
    // Long enough for the waits between tries to have reached their longest.
    dead.wait_fired(8, SOON).await?;

    // Meanwhile somebody removes a ConfigMap: its watch lives, and the toy is known from before.
    ground.maps.delete("a", &DeleteParams::default()).await?;
    ground.settled("a", 1, AFTER_HEALING).await?;
    assert!(process.metric("outrigger_watch_restarts_total", "kind=\"toys\",cause=\"server\"").await >= 7.0);
    assert_eq!(process.metric("outrigger_watch_restarts_total", "kind=\"configmaps\"").await, 0.0);
    assert_eq!(process.ask("GET", "/livez", "").await?.0, 200, "an outage of seconds is no death");

    dead.lift();
    ground.set("a", 2).await?;
    let took = ground.settled("a", 2, AFTER_HEALING).await?;
    println!("first new edit after healing: {:.1} s", took.as_secs_f64());
    Ok(())
}

pub async fn a_watch_that_falls_into_a_black_hole_comes_back(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let user = plane.admin().at(proxy.url());
    // A watch of five seconds instead of two minutes: so long its loss can go unnoticed.
    let process = Process::start_with(&cx, &user, &ground.namespace, "black-hole", |orders| {
        orders.watch_life = Some(5)
    })?;
    process.leads().await?;
    ground.set("a", 1).await?;
    ground.settled("a", 1, SOON).await?;

    let hole = proxy.black_hole(Matching::any().verb(Verb::Watch).resource(toys()));
    hole.wait_fired(1, SOON).await?;
    ground.set("a", 2).await?;
    // The watch that was lost is given up, and the next one falls in as well: nobody waits for the first for ever.
    hole.wait_fired(2, SOON).await?;
    let seen = ground.toys.get("a").await?.status.map(|status| status.seen_size);
    assert_eq!(seen, Some(1), "nothing got through the hole");
    hole.lift();
    ground.settled("a", 2, AFTER_HEALING).await?;
    Ok(())
}

pub async fn an_object_that_cannot_be_read_harms_only_itself(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    ground.set_raw("broken-before", json!({ "size": "large" })).await?;
    let process = Process::start(&cx, plane.admin(), &ground.namespace, "unreadable", LONG_LEASE)?;
    process.leads().await?;
    ground.set("good", 1).await?;
    ground.settled("good", 1, SOON).await?;
    ground.set_raw("broken-after", json!({ "size": { "width": 3 } })).await?;
    wait::until("both to be known as broken", SOON, || async {
        let state = process.state().await?;
        let known = |name: &str| state["broken"][format!("{}/{name}", ground.namespace)].is_string();
        if known("broken-before") && known("broken-after") {
            Ok(())
        } else {
            Err(Error::Refused(state.to_string()))
        }
    })
    .await?;
    ground.set("good", 2).await?;
    ground.settled("good", 2, SOON).await?;
    assert!(process.metric("outrigger_watch_broken_objects", "kind=\"toys\"").await >= 2.0);

    ground.set_raw("broken-after", json!({ "size": 3 })).await?;
    ground.settled("broken-after", 3, SOON).await?;
    Ok(())
}

pub async fn an_api_server_that_refuses_for_a_while_is_not_flooded(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let process =
        Process::start(&cx, &plane.admin().at(proxy.url()), &ground.namespace, "refused", LONG_LEASE)?;
    process.leads().await?;
    for code in [StatusCode::TOO_MANY_REQUESTS, StatusCode::INTERNAL_SERVER_ERROR] {
        let name = format!("toy-{}", code.as_u16());
        let writes =
            Matching::writes().namespace(&ground.namespace).resource(Resource::new("", "configmaps"));
        let refusing = proxy.inject(Fault::Answer(Refusal::of(code)), writes, Times::Always);
        ground.set(&name, 1).await?;
        refusing.wait_fired(5, SOON).await?;
        let state = process.state().await?;
        let failures = &state["queue"]["failing"][format!("{}/{name}", ground.namespace)];
        assert!(failures.as_u64().is_some_and(|count| count >= 4), "it is known to fail: {state}");
        refusing.lift();
        ground.settled(&name, 1, SOON).await?;
        // 200 ms, 400 ms, 800 ms ...: a handful of tries, where a loop without waits would have made thousands.
        assert!(refusing.fired() <= 8, "{} requests while it was refused", refusing.fired());
    }
    Ok(())
}

pub async fn an_api_server_that_restarts_is_found_again(cx: Context) -> TestResult {
    let site = cx.site()?;
    let plane = ControlPlane::on(&site).start().await?;
    let ground = Ground::on(&cx, &plane).await?;
    let process = Process::start(&cx, plane.admin(), &ground.namespace, "restarted", LONG_LEASE)?;
    process.leads().await?;
    ground.set("a", 1).await?;
    ground.settled("a", 1, SOON).await?;
    plane.restart_api_server().await?;
    ground.set("a", 2).await?;
    let took = ground.settled("a", 2, AFTER_HEALING).await?;
    println!("first edit after the API server's restart: {:.1} s", took.as_secs_f64());
    assert_eq!(process.ask("GET", "/livez", "").await?.0, 200);
    Ok(())
}
