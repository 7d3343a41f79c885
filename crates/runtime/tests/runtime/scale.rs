//! Many objects at rest: no writes, little memory, and a cheap restart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use kube::api::PostParams;
use testbed::cluster::control_plane::AuditedRequest;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, TestResult};

use crate::process::{Ground, LONG_LEASE, Process};
use crate::toy::{Toy, ToySpec};

const OBJECTS: usize = 5_000;
const REST: Duration = Duration::from_secs(60);
const AGENT: &str = "at-rest";
const SETTLED_WITHIN: Duration = Duration::from_secs(180);

fn of_toy(plane: &ControlPlane) -> Result<Vec<AuditedRequest>, Error> {
    plane.audit().requests(|one| one.user_agent == AGENT)
}

async fn settled(process: &Process) -> Result<(), Error> {
    wait::until("everything to be settled", SETTLED_WITHIN, || async {
        let count = async |kind: &str| {
            process.metric("outrigger_watch_objects", &format!("kind=\"{kind}\"")).await as usize
        };
        let (toys, maps) = (count("toys").await, count("configmaps").await);
        // Looked at after the objects: what they bring is in the queue by then.
        let state = process.state().await?;
        let (waiting, running) = (&state["queue"]["waiting"], &state["queue"]["running"]);
        if (toys, maps) == (OBJECTS, OBJECTS) && waiting == 0 && running == 0 {
            return Ok(());
        }
        Err(Error::Refused(format!("{toys} toys, {maps} ConfigMaps, {waiting} waiting, {running} running")))
    })
    .await
}

pub async fn five_thousand_objects_at_rest(cx: Context) -> TestResult {
    let site = cx.site()?;
    let plane = ControlPlane::on(&site).start().await?;
    let ground = Ground::on(&cx, &plane).await?;
    let start = || Process::start(&cx, plane.admin(), &ground.namespace, AGENT, LONG_LEASE);
    let first = start()?;
    first.leads().await?;
    let empty = first.memory();

    let begin = Instant::now();
    stream::iter(0..OBJECTS)
        .map(|number| {
            let toys = ground.toys.clone();
            async move {
                let toy = Toy::new(&format!("toy-{number}"), ToySpec { size: number as i64 });
                toys.create(&PostParams::default(), &toy).await.map(drop)
            }
        })
        .buffer_unordered(32)
        .try_collect::<()>()
        .await?;
    settled(&first).await?;
    println!("{OBJECTS} objects made and settled in {:.0} s", begin.elapsed().as_secs_f64());
    let writes = of_toy(&plane)?.iter().filter(|one| one.is_write() && one.resource != "leases").count();
    println!("writes per object from nothing to settled: {:.2}", writes as f64 / OBJECTS as f64);
    drop(first);

    // A new process, so that its memory is that of rest and not of the rush before.
    let asked_before = of_toy(&plane)?.len();
    let process = start()?;
    process.leads().await?;
    settled(&process).await?;
    let asked = of_toy(&plane)?.split_off(asked_before);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for one in asked.iter().filter(|one| one.resource != "leases") {
        *kinds.entry(format!("{} {}", one.verb, one.resource)).or_default() += 1;
    }
    println!("a restart asks the API server: {kinds:?}");
    assert!(asked.iter().all(|one| !one.is_write() || one.resource == "leases"), "a restart writes nothing");

    let quiet_from = of_toy(&plane)?.len();
    let beside_the_lease = || -> Result<Vec<AuditedRequest>, Error> {
        let mut asked = of_toy(&plane)?.split_off(quiet_from);
        asked.retain(|one| one.resource != "leases");
        Ok(asked)
    };
    wait::throughout("no write at rest", REST, || async {
        match beside_the_lease()?.iter().find(|one| one.is_write()) {
            None => Ok(()),
            Some(write) => Err(Error::Refused(format!("{write:?}"))),
        }
    })
    .await?;
    println!(
        "at rest for {} s: no writes, {} requests beside the lease's",
        REST.as_secs(),
        beside_the_lease()?.len()
    );
    let each = (process.memory().saturating_sub(empty)) / OBJECTS as u64;
    println!(
        "memory: {} MiB, {:.1} KB per object (a Toy and its ConfigMap)",
        process.memory() >> 20,
        each as f64 / 1000.0
    );
    assert!(each < 15_000, "{each} bytes per object");
    Ok(())
}
