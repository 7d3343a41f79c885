//! Processes that are killed over what they write.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use testbed::faults::fault_proxy::{Fault, Kill, Matching, Moment, Times};
use testbed::process::{Process, Program};
use testbed::{Context, Error, TestResult};

use crate::bench::{Bench, SOON, create, is_reset, map, of_maps};

/// How many objects the process would make if it were left alone.
const WANTED: usize = 5;

/// Which of its writes it is killed over.
const FATAL: u64 = 3;

/// Lets a real kubectl make five objects one after the other through the proxy, and kills it over the third. Returns what
/// it said.
async fn crash(bench: &Bench<'_>, cx: &Context, moment: Moment) -> Result<String, Error> {
    let victim = Arc::new(OnceLock::<Process>::new());
    // Injected before the start: the victim must not be faster than the fault.
    let kill = {
        let victim = victim.clone();
        Kill::at(moment, move || victim.wait().kill().map(drop))
    };
    let matching = Matching::writes().agent("kubectl/");
    let fault = bench.proxy.inject(Fault::Kill(kill), matching, Times::Nth(FATAL));

    // Not among the logs: the key of the kubeconfig has no place there.
    let folder = bench.plane.site().dir().join(cx.name());
    let made = std::fs::create_dir_all(&folder);
    made.map_err(|source| Error::Io { what: "making a folder".into(), source })?;
    let wanted: Vec<String> = (1..=WANTED)
        .map(|n| {
            let mut object = serde_json::to_value(map(&format!("map-{n}")))?;
            object["metadata"]["namespace"] = bench.ns.clone().into();
            Ok(object.to_string())
        })
        .collect::<Result<_, Error>>()?;
    let manifest: PathBuf = folder.join("maps.yaml");
    let write = std::fs::write(&manifest, wanted.join("\n---\n"));
    write.map_err(|source| Error::Io { what: "writing the manifest".into(), source })?;
    let kubeconfig = bench.plane.admin().at(bench.proxy.url()).write_kubeconfig(&folder)?;
    let started = Program::new(format!("kubectl-{}", cx.name()), bench.plane.kubernetes().program("kubectl"))
        .env("KUBECONFIG", kubeconfig)
        .args(["create", "--validate=false", "--filename"])
        .arg(&manifest)
        // From another machine of the site, as nodes and pods do.
        .in_netns(bench.plane.site().netns())
        .start(bench.plane.site())?;
    let process = victim.get_or_init(|| started);
    fault.wait_fired(1, SOON).await?;
    process.check_alive().expect_err("kubectl survived");
    assert_eq!(fault.fired(), 1);
    Ok(testbed::harness::logs::tail(process.log(), WANTED + 1))
}

/// The API server's code for a write, and the client's.
type Codes = (Option<u16>, Option<u16>);

/// What became of each write, in the order of the journal.
fn writes(bench: &Bench<'_>) -> Result<Vec<Codes>, Error> {
    let writes = bench.proxy.journal().requests(|request| request.asked.is_write())?;
    Ok(writes.iter().map(|write| (write.upstream, write.code)).collect())
}

const DONE: Codes = (Some(201), Some(201));

pub async fn a_process_killed_before_its_write_is_forwarded(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let said = crash(&bench, &cx, Moment::BeforeForwarding).await?;
    assert_eq!(bench.there().await?, ["map-1", "map-2"]);
    assert_eq!(writes(&bench)?, [DONE, DONE, (None, None)]);
    assert!(said.contains("configmap/map-2 created") && !said.contains("map-3"), "{said}");
    Ok(())
}

pub async fn a_process_killed_before_it_hears_of_its_write(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let said = crash(&bench, &cx, Moment::BeforeAnswer).await?;
    assert_eq!(bench.there().await?, ["map-1", "map-2", "map-3"]);
    assert_eq!(writes(&bench)?, [DONE, DONE, (Some(201), None)]);
    assert!(said.contains("configmap/map-2 created") && !said.contains("map-3"), "{said}");
    Ok(())
}

pub async fn a_process_killed_after_it_heard_of_its_write(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    crash(&bench, &cx, Moment::AfterAnswer).await?;
    assert_eq!(bench.there().await?, ["map-1", "map-2", "map-3"]);
    // It may have been fast enough to ask for the fourth before its end; that was not forwarded.
    let writes = writes(&bench)?;
    assert_eq!(writes[..3], [DONE, DONE, DONE]);
    assert!(writes[3..].iter().all(|late| *late == (None, None)), "{writes:?}");
    Ok(())
}

pub async fn nothing_of_a_dying_client_gets_through(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let (allow, allowed) = mpsc::channel::<()>();
    let allowed = std::sync::Mutex::new(allowed);
    let kill = Kill::at(Moment::BeforeAnswer, move || {
        let waited = allowed.lock().map(|allowed| allowed.recv_timeout(SOON));
        waited.map(drop).map_err(|_| Error::Refused("poisoned".into()))
    });
    let dying = bench.maps_of(bench.plane.admin(), "dying/1").await?;
    let fault = bench.proxy.inject(Fault::Kill(kill), of_maps().agent("dying/"), Times::ONCE);
    let ask = |name: &'static str| {
        let dying = dying.clone();
        tokio::spawn(async move { create(&dying, name).await })
    };
    let fatal = ask("fatal");
    let journal = bench.proxy.journal();
    testbed::harness::wait::until("the fatal write", SOON, || async {
        let done =
            journal.requests(|request| request.upstream == Some(201)).map_err(|error| error.to_string())?;
        if done.is_empty() { Err("it is on its way".to_owned()) } else { Ok(()) }
    })
    .await?;
    let late = ask("late");
    testbed::harness::wait::until("the late write at the gate", SOON, || async {
        if journal.pending() == 1 { Ok(()) } else { Err("it has not come yet") }
    })
    .await?;
    // Others are not concerned, and their requests are not held up.
    create(&bench.maps, "others").await?;
    assert_eq!(fault.fired(), 0, "the process still dies");
    allow.send(())?;
    for asked in [fatal, late] {
        let error = asked.await?.expect_err("a dead client was answered");
        assert!(is_reset(&error), "{error:?}");
    }
    fault.wait_fired(1, SOON).await?;
    assert_eq!(bench.there().await?, ["fatal", "others"]);
    // Its successor is let through.
    create(&dying, "successor").await?;
    Ok(())
}

pub async fn a_kill_that_fails_surfaces(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let kill = Kill::at(Moment::BeforeForwarding, || Err(Error::Refused("it is immortal".into())));
    let fault = bench.proxy.inject(Fault::Kill(kill), Matching::writes(), Times::ONCE);
    create(&bench.maps, "a").await.expect_err("the write was fatal");
    let error = fault.wait_fired(1, Duration::from_secs(5)).await.expect_err("the kill failed");
    assert!(error.to_string().contains("it is immortal"), "{error}");
    let error = bench.proxy.check().expect_err("the proxy knows");
    assert!(error.to_string().contains("it is immortal"), "{error}");
    Ok(())
}
