//! An orderly end.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::Signal;
use testbed::faults::fault_proxy::{Fault, FaultProxy, Matching, Resource, Times};
use testbed::{Context, TestResult};

use crate::process::{Ground, LONG_LEASE, Process, SOON};

pub async fn a_process_that_is_told_to_end_finishes_its_write_and_gives_the_lease_back(
    cx: Context,
) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let user = plane.admin().at(proxy.url());
    let mut leader = Process::start(&cx, &user, &ground.namespace, "ending", LONG_LEASE)?;
    leader.leads().await?;
    let next = Process::start(&cx, plane.admin(), &ground.namespace, "waiting", LONG_LEASE)?;

    // A write is on its way when the word comes.
    let maps = Matching::writes().resource(Resource::new("", "configmaps"));
    let slow = proxy.inject(Fault::Delay(Duration::from_secs(2)), maps, Times::ONCE);
    ground.set("a", 1).await?;
    slow.wait_fired(1, SOON).await?;
    leader.signal(Signal::TERM);
    let (status, took) = leader.ended(Duration::from_secs(10)).await?;
    println!("ended {:.1} s after SIGTERM, with a write of 2 s on its way", took.as_secs_f64());
    assert!(status.success(), "{status}");
    let map = ground.maps.get("a").await?;
    assert_eq!(map.data.unwrap_or_default()["size"], "1", "the write was finished");
    // The lease is of a minute: who takes it over so soon did not wait for its end.
    next.leads().await?;
    let leases: Api<Lease> = Api::namespaced(ground.client.clone(), &ground.namespace);
    let holder = leases.get("toys").await?.spec.and_then(|spec| spec.holder_identity);
    assert_eq!(holder.as_deref(), Some("waiting"));
    ground.settled("a", 1, SOON).await?;
    Ok(())
}
