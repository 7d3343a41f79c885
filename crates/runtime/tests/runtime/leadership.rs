//! Leader election between two processes.

use std::time::Duration;

use http::StatusCode;
use rustix::process::Signal;
use testbed::cluster::control_plane::AuditedRequest;
use testbed::faults::fault_proxy::{ErrorResponse, Fault, FaultProxy, RequestMatcher, Resource, Times};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::fixture::{Fixture, Process, SHORT_LEASE, SOON};

/// Returns the number of successful writes of a client, excluding its Lease.
fn successful_writes(plane: &ControlPlane, agent: &str) -> Result<usize, Error> {
    let matches = |request: &AuditedRequest| {
        request.user_agent == agent
            && request.is_write()
            && request.code < 400
            && request.resource != "leases"
    };
    Ok(plane.audit().requests(matches)?.len())
}

pub async fn suspended_leader_does_not_write_after_takeover(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let start =
        |identity: &str| Process::start(&cx, plane.admin(), &fixture.namespace, identity, SHORT_LEASE);
    let old = start("stopped-leader")?;
    old.wait_leading().await?;
    let new = start("next-leader")?;
    for number in 0..20 {
        fixture.set(&format!("toy-{number}"), 1).await?;
    }
    fixture.wait_reconciled("toy-19", 1, SOON).await?;
    assert_eq!(successful_writes(plane, "next-leader")?, 0, "a standby does not write");

    // The leader is suspended while edits keep arriving.
    for number in 0..20 {
        fixture.set(&format!("toy-{number}"), 2).await?;
        if number == 10 {
            old.signal(Signal::STOP);
        }
    }
    new.wait_leading().await?;
    for number in 0..20 {
        fixture.wait_reconciled(&format!("toy-{number}"), 2, SOON).await?;
    }
    assert!(successful_writes(plane, "next-leader")? > 0, "the new leader writes");
    let before = successful_writes(plane, "stopped-leader")?;

    old.signal(Signal::CONT);
    wait::until("the old leader to notice that it lost the Lease", SOON, || async {
        let state = old.state().await?;
        if state["leading"] == false { Ok(()) } else { Err(Error::Other(state.to_string())) }
    })
    .await?;
    for number in 0..20 {
        fixture.set(&format!("toy-{number}"), 3).await?;
        fixture.wait_reconciled(&format!("toy-{number}"), 3, SOON).await?;
    }
    assert_eq!(successful_writes(plane, "stopped-leader")?, before, "the old leader wrote nothing");

    // Losing the Lease did not end the process: it can lead again.
    drop(new);
    old.wait_leading().await?;
    fixture.set("toy-0", 4).await?;
    fixture.wait_reconciled("toy-0", 4, SOON).await?;
    Ok(())
}

pub async fn unrenewable_lease_is_lost_and_reacquired(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let agent = "cannot-renew";
    let process =
        Process::start(&cx, &plane.admin().at(proxy.url()), &fixture.namespace, agent, SHORT_LEASE)?;
    process.wait_leading().await?;
    let leases = RequestMatcher::any().resource(Resource::new("coordination.k8s.io", "leases"));
    let outage = proxy.inject(
        Fault::Respond(ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE)),
        leases,
        Times::Always,
    );
    wait::until("the Lease to be lost", SOON, || async {
        let state = process.state().await?;
        if state["leading"] == false { Ok(()) } else { Err(Error::Other(state.to_string())) }
    })
    .await?;
    assert_eq!(process.metric("leader_election_master_status", "name=\"toys\"").await, 0.0);
    let before = successful_writes(plane, agent)?;
    fixture.set("a", 1).await?;
    // Without the Lease it does not act: no write succeeds during two more attempts to acquire it.
    let attempts = outage.fired();
    outage.wait_fired(attempts + 2, Duration::from_secs(10)).await?;
    assert_eq!(successful_writes(plane, agent)?, before);
    outage.remove();
    process.wait_leading().await?;
    fixture.wait_reconciled("a", 1, SOON).await?;
    Ok(())
}
