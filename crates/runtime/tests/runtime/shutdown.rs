//! Graceful shutdown.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::Signal;
use testbed::faults::fault_proxy::{Fault, FaultProxy, RequestMatcher, Resource, Times};
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, LONG_LEASE, Process, SOON};

pub async fn sigterm_finishes_writes_and_releases_the_lease(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let user = plane.admin().at(proxy.url());
    let mut leader = Process::start(&cx, &user, &fixture.namespace, "ending", LONG_LEASE)?;
    leader.wait_leading().await?;
    let standby = Process::start(&cx, plane.admin(), &fixture.namespace, "waiting", LONG_LEASE)?;

    // A write is in flight when the signal arrives.
    let maps = RequestMatcher::writes().resource(Resource::new("", "configmaps"));
    let slow = proxy.inject(Fault::Delay(Duration::from_secs(2)), maps, Times::ONCE);
    fixture.set("a", 1).await?;
    slow.wait_fired(1, SOON).await?;
    leader.signal(Signal::TERM);
    let (status, took) = leader.wait_exit(Duration::from_secs(10)).await?;
    println!("exited {:.1} s after SIGTERM, with a write of 2 s in flight", took.as_secs_f64());
    assert!(status.success(), "{status}");
    let map = fixture.maps.get("a").await?;
    assert_eq!(map.data.unwrap_or_default()["size"], "1", "the write was completed");
    // The Lease lasts a minute: the standby can only lead this soon because it was released.
    standby.wait_leading().await?;
    let leases: Api<Lease> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let holder = leases.get("toys").await?.spec.and_then(|spec| spec.holder_identity);
    assert_eq!(holder.as_deref(), Some("waiting"));
    fixture.wait_reconciled("a", 1, SOON).await?;
    Ok(())
}
