//! Two processes, one lease.

use std::time::Duration;

use http::StatusCode;
use rustix::process::Signal;
use testbed::cluster::control_plane::AuditedRequest;
use testbed::faults::fault_proxy::{Fault, FaultProxy, Matching, Refusal, Resource, Times};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::process::{Ground, Process, SHORT_LEASE, SOON};

/// Writes of a client that were accepted, its lease aside.
fn accepted(plane: &ControlPlane, agent: &str) -> Result<usize, Error> {
    let counts = |one: &AuditedRequest| {
        one.user_agent == agent && one.is_write() && one.code < 400 && one.resource != "leases"
    };
    Ok(plane.audit().requests(counts)?.len())
}

pub async fn a_leader_that_was_stopped_writes_nothing_after_the_next_one(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let start = |identity: &str| Process::start(&cx, plane.admin(), &ground.namespace, identity, SHORT_LEASE);
    let old = start("stopped-leader")?;
    old.leads().await?;
    let new = start("next-leader")?;
    for number in 0..20 {
        ground.set(&format!("toy-{number}"), 1).await?;
    }
    ground.settled("toy-19", 1, SOON).await?;
    assert_eq!(accepted(plane, "next-leader")?, 0, "who waits does not write");

    // Stopped in the middle of work: edits come in until the very moment, and go on coming.
    for number in 0..20 {
        ground.set(&format!("toy-{number}"), 2).await?;
        if number == 10 {
            old.signal(Signal::STOP);
        }
    }
    new.leads().await?;
    for number in 0..20 {
        ground.settled(&format!("toy-{number}"), 2, SOON).await?;
    }
    assert!(accepted(plane, "next-leader")? > 0, "the next one wrote");
    let before = accepted(plane, "stopped-leader")?;

    old.signal(Signal::CONT);
    wait::until("the old leader to see that it is one no more", SOON, || async {
        let state = old.state().await?;
        if state["leading"] == false { Ok(()) } else { Err(Error::Refused(state.to_string())) }
    })
    .await?;
    for number in 0..20 {
        ground.set(&format!("toy-{number}"), 3).await?;
        ground.settled(&format!("toy-{number}"), 3, SOON).await?;
    }
    assert_eq!(accepted(plane, "stopped-leader")?, before, "no write of the old leader was accepted");

    // It was not ended by losing the lease: it is ready to lead again.
    drop(new);
    old.leads().await?;
    ground.set("toy-0", 4).await?;
    ground.settled("toy-0", 4, SOON).await?;
    Ok(())
}

pub async fn a_lease_that_cannot_be_renewed_is_given_up_and_taken_again(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let agent = "cannot-renew";
    let process = Process::start(&cx, &plane.admin().at(proxy.url()), &ground.namespace, agent, SHORT_LEASE)?;
    process.leads().await?;
    let leases = Matching::any().resource(Resource::new("coordination.k8s.io", "leases"));
    let away =
        proxy.inject(Fault::Answer(Refusal::of(StatusCode::SERVICE_UNAVAILABLE)), leases, Times::Always);
    wait::until("it to give up", SOON, || async {
        let state = process.state().await?;
        if state["leading"] == false { Ok(()) } else { Err(Error::Refused(state.to_string())) }
    })
    .await?;
    assert_eq!(process.metric("leader_election_master_status", "name=\"toys\"").await, 0.0);
    let before = accepted(plane, agent)?;
    ground.set("a", 1).await?;
    // As long as it leads no more, it does not act: nothing was accepted by the time it has tried twice again.
    let tried = away.fired();
    away.wait_fired(tried + 2, Duration::from_secs(10)).await?;
    assert_eq!(accepted(plane, agent)?, before);
    away.lift();
    process.leads().await?;
    ground.settled("a", 1, SOON).await?;
    Ok(())
}
