//! Many idle objects: no writes, little memory, and a cheap restart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use kube::api::PostParams;
use testbed::cluster::control_plane::AuditedRequest;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::fixture::{Fixture, LONG_LEASE, Process};
use crate::toy::{Toy, ToySpec};

const OBJECTS: usize = 5_000;
const IDLE: Duration = Duration::from_secs(60);
const AGENT: &str = "idle";
const CONVERGE_TIMEOUT: Duration = Duration::from_secs(180);

/// Returns all requests of the toy controller.
fn requests(plane: &ControlPlane) -> Result<Vec<AuditedRequest>, Error> {
    plane.audit().requests(|request| request.user_agent == AGENT)
}

async fn wait_converged(process: &Process) -> Result<(), Error> {
    wait::until("all objects to converge", CONVERGE_TIMEOUT, || async {
        let count = async |kind: &str| {
            process.metric("outrigger_watch_objects", &format!("kind=\"{kind}\"")).await as usize
        };
        let (toys, maps) = (count("toys").await, count("configmaps").await);
        // Read after the caches: by then their changes are in the queue.
        let state = process.state().await?;
        let (waiting, running) = (&state["queue"]["waiting"], &state["queue"]["running"]);
        if (toys, maps) == (OBJECTS, OBJECTS) && waiting == 0 && running == 0 {
            return Ok(());
        }
        Err(Error::Other(format!("{toys} toys, {maps} ConfigMaps, {waiting} waiting, {running} running")))
    })
    .await
}

pub async fn five_thousand_idle_objects(cx: Context) -> TestResult {
    let site = cx.site()?;
    let plane = ControlPlane::builder(&site).start().await?;
    let fixture = Fixture::new(&cx, &plane).await?;
    let start = || Process::start(&cx, plane.admin(), &fixture.namespace, AGENT, LONG_LEASE);
    let first = start()?;
    first.wait_leading().await?;
    let baseline = first.memory();

    let start_time = Instant::now();
    stream::iter(0..OBJECTS)
        .map(|number| {
            let toys = fixture.toys.clone();
            async move {
                let toy = Toy::new(&format!("toy-{number}"), ToySpec { size: number as i64 });
                toys.create(&PostParams::default(), &toy).await.map(drop)
            }
        })
        .buffer_unordered(32)
        .try_collect::<()>()
        .await?;
    wait_converged(&first).await?;
    println!("{OBJECTS} objects created and converged in {:.0} s", start_time.elapsed().as_secs_f64());
    let is_write = |request: &AuditedRequest| request.is_write() && request.resource != "leases";
    let writes = requests(&plane)?.iter().filter(|request| is_write(request)).count();
    println!("writes per object until converged: {:.2}", writes as f64 / OBJECTS as f64);
    drop(first);

    // A new process, so that its memory is that of steady state and not of the rush before.
    let before_restart = requests(&plane)?.len();
    let process = start()?;
    process.wait_leading().await?;
    wait_converged(&process).await?;
    let sent = requests(&plane)?.split_off(before_restart);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for request in sent.iter().filter(|request| request.resource != "leases") {
        *kinds.entry(format!("{} {}", request.verb, request.resource)).or_default() += 1;
    }
    println!("requests of a restart: {kinds:?}");
    assert!(!sent.iter().any(is_write), "a restart writes nothing");

    let idle_from = requests(&plane)?.len();
    let sent_while_idle = || -> Result<Vec<AuditedRequest>, Error> {
        let mut sent = requests(&plane)?.split_off(idle_from);
        sent.retain(|request| request.resource != "leases");
        Ok(sent)
    };
    wait::throughout("no write while idle", IDLE, || async {
        match sent_while_idle()?.iter().find(|request| request.is_write()) {
            None => Ok(()),
            Some(write) => Err(Error::Other(format!("{write:?}"))),
        }
    })
    .await?;
    println!(
        "idle for {} s: no writes, {} requests without those for the Lease",
        IDLE.as_secs(),
        sent_while_idle()?.len()
    );
    let per_object = (process.memory().saturating_sub(baseline)) / OBJECTS as u64;
    println!(
        "memory: {} MiB, {:.1} KB per object (a Toy and its ConfigMap)",
        process.memory() >> 20,
        per_object as f64 / 1000.0
    );
    assert!(per_object < 15_000, "{per_object} bytes per object");
    Ok(())
}
