//! Processes that are killed at their writes.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use testbed::faults::fault_proxy::{Fault, Kill, KillPoint, RequestMatcher, Times};
use testbed::process::{Process, Program};
use testbed::{Context, Error, TestResult};

use crate::fixture::{Fixture, TIMEOUT, config_maps, create, is_reset, map};

/// Number of objects that the process would create without the fault.
const OBJECTS: usize = 5;

/// The write at which it is killed.
const FATAL_WRITE: u64 = 3;

/// Lets a real kubectl create five objects in sequence through the proxy, and kills it at the third. Returns its
/// output.
async fn crash(fixture: &Fixture<'_>, cx: &Context, crash_point: KillPoint) -> Result<String, Error> {
    let victim = Arc::new(OnceLock::<Process>::new());
    // Injected before the start, so that the process cannot be faster than the fault.
    let kill = {
        let victim = victim.clone();
        Kill::new(crash_point, move || victim.wait().kill().map(drop))
    };
    let matching = RequestMatcher::writes().agent("kubectl/");
    let fault = fixture.proxy.inject(Fault::Kill(kill), matching, Times::Nth(FATAL_WRITE));

    // Outside the log directory, because the kubeconfig contains a key.
    let folder = fixture.plane.site().dir().join(cx.name());
    let made = std::fs::create_dir_all(&folder);
    made.map_err(|source| Error::Io { what: "creating a directory".into(), source })?;
    let objects: Vec<String> = (1..=OBJECTS)
        .map(|n| {
            let mut object = serde_json::to_value(map(&format!("map-{n}")))?;
            object["metadata"]["namespace"] = fixture.ns.clone().into();
            Ok(object.to_string())
        })
        .collect::<Result<_, Error>>()?;
    let manifest: PathBuf = folder.join("maps.yaml");
    let write = std::fs::write(&manifest, objects.join("\n---\n"));
    write.map_err(|source| Error::Io { what: "writing the manifest".into(), source })?;
    let kubeconfig = fixture.plane.admin().at(fixture.proxy.url()).write_kubeconfig(&folder)?;
    let started =
        Program::new(format!("kubectl-{}", cx.name()), fixture.plane.kubernetes().program("kubectl"))
            .env("KUBECONFIG", kubeconfig)
            .args(["create", "--validate=false", "--filename"])
            .arg(&manifest)
            // From another network namespace of the site, like nodes and pods.
            .in_netns(fixture.plane.site().netns())
            .start(fixture.plane.site())?;
    let process = victim.get_or_init(|| started);
    fault.wait_fired(1, TIMEOUT).await?;
    process.check_alive().expect_err("kubectl is still running");
    assert_eq!(fault.fired(), 1);
    Ok(testbed::harness::logs::tail(process.log(), OBJECTS + 1))
}

/// Status codes of the API server and of the client.
type Codes = (Option<u16>, Option<u16>);

/// Returns the codes of each write, in journal order.
fn writes(fixture: &Fixture<'_>) -> Result<Vec<Codes>, Error> {
    let writes = fixture.proxy.journal().requests(|request| request.info.is_write())?;
    Ok(writes.iter().map(|write| (write.upstream, write.code)).collect())
}

const DONE: Codes = (Some(201), Some(201));

pub async fn kill_before_forwarding_loses_the_write(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let output = crash(&fixture, &cx, KillPoint::BeforeForwarding).await?;
    assert_eq!(fixture.stored_names().await?, ["map-1", "map-2"]);
    assert_eq!(writes(&fixture)?, [DONE, DONE, (None, None)]);
    assert!(output.contains("configmap/map-2 created") && !output.contains("map-3"), "{output}");
    Ok(())
}

pub async fn kill_before_response_keeps_the_write(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let output = crash(&fixture, &cx, KillPoint::BeforeResponse).await?;
    assert_eq!(fixture.stored_names().await?, ["map-1", "map-2", "map-3"]);
    assert_eq!(writes(&fixture)?, [DONE, DONE, (Some(201), None)]);
    assert!(output.contains("configmap/map-2 created") && !output.contains("map-3"), "{output}");
    Ok(())
}

pub async fn kill_after_response_blocks_later_writes(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    crash(&fixture, &cx, KillPoint::AfterResponse).await?;
    assert_eq!(fixture.stored_names().await?, ["map-1", "map-2", "map-3"]);
    // It may have sent the fourth write before it was killed; that one was not forwarded.
    let writes = writes(&fixture)?;
    assert_eq!(writes[..3], [DONE, DONE, DONE]);
    assert!(writes[3..].iter().all(|late| *late == (None, None)), "{writes:?}");
    Ok(())
}

pub async fn requests_of_a_dying_client_are_blocked(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let (allow, allowed) = mpsc::channel::<()>();
    let allowed = std::sync::Mutex::new(allowed);
    let kill = Kill::new(KillPoint::BeforeResponse, move || {
        let waited = allowed.lock().map(|allowed| allowed.recv_timeout(TIMEOUT));
        waited.map(drop).map_err(|_| Error::Other("poisoned".into()))
    });
    let dying = fixture.maps_as(fixture.plane.admin(), "dying/1").await?;
    let fault = fixture.proxy.inject(Fault::Kill(kill), config_maps().agent("dying/"), Times::ONCE);
    let create_as_dying = |name: &'static str| {
        let dying = dying.clone();
        tokio::spawn(async move { create(&dying, name).await })
    };
    let fatal = create_as_dying("fatal");
    let journal = fixture.proxy.journal();
    testbed::harness::wait::until("fatal write", TIMEOUT, || async {
        let done =
            journal.requests(|request| request.upstream == Some(201)).map_err(|error| error.to_string())?;
        if done.is_empty() { Err("in progress".to_owned()) } else { Ok(()) }
    })
    .await?;
    let late = create_as_dying("late");
    testbed::harness::wait::until("blocked late write", TIMEOUT, || async {
        if journal.pending() == 1 { Ok(()) } else { Err("not received yet") }
    })
    .await?;
    // Requests of other clients are not held.
    create(&fixture.maps, "others").await?;
    assert_eq!(fault.fired(), 0, "kill is still in progress");
    allow.send(())?;
    for asked in [fatal, late] {
        let error = asked.await?.expect_err("killed client got a response");
        assert!(is_reset(&error), "{error:?}");
    }
    fault.wait_fired(1, TIMEOUT).await?;
    assert_eq!(fixture.stored_names().await?, ["fatal", "others"]);
    // Its successor is not blocked.
    create(&dying, "successor").await?;
    Ok(())
}

pub async fn failed_kill_is_reported(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let kill = Kill::new(KillPoint::BeforeForwarding, || Err(Error::Other("cannot be killed".into())));
    let fault = fixture.proxy.inject(Fault::Kill(kill), RequestMatcher::writes(), Times::ONCE);
    create(&fixture.maps, "a").await.expect_err("fatal write");
    let error = fault.wait_fired(1, Duration::from_secs(5)).await.expect_err("kill failed");
    assert!(error.to_string().contains("cannot be killed"), "{error}");
    let error = fixture.proxy.check().expect_err("failure must be reported");
    assert!(error.to_string().contains("cannot be killed"), "{error}");
    Ok(())
}
