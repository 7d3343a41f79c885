//! The process: how it begins, ends, and what it costs.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use rustix::process::Signal;
use serde_json::json;
use testbed::faults::fault_proxy::{Fault, FaultProxy, Matching, Times, Verb};
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Image, Node, TestResult};

use crate::ground::{Ground, SOON};
use crate::plugins::number;
use crate::reporter::Reporter;

/// How soon it ends.
const END_WITHIN: Duration = Duration::from_secs(1);

fn ends(reporter: &Reporter, doing: &str) -> TestResult {
    let begin = Instant::now();
    let status = reporter.process.stop(SOON)?;
    println!("ended {doing} after {:?}", begin.elapsed());
    assert_eq!(status.code(), Some(0), "{doing}");
    assert!(begin.elapsed() < END_WITHIN, "{doing}: it took {:?}", begin.elapsed());
    Ok(())
}

/// T-S1.
pub async fn a_signal_ends_it_within_a_second_wherever_it_is(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let plugin = ground.plugin(1)?;
    let idle = ground.reporter("idle").every("2s").start()?;
    ground.status(&idle, 1, "Healthy").await?;
    ends(&idle, "at rest")?;
    assert_eq!(
        ground.reports("kubeapiserver", "typed", "idle").await?.len(),
        1,
        "what it has published stays"
    );

    let proxy = FaultProxy::recorded_in(plane, cx.logs().join("journal.jsonl")).await?;
    let writes = Matching::any().verb(Verb::Patch).subresource("status");
    let slow = proxy.inject(Fault::Delay(Duration::from_secs(20)), writes, Times::Always);
    let user = plane.admin().at(proxy.url());
    let writing = ground.reporter("writing").flag("--write-timeout=20s").for_user(&user)?.start()?;
    slow.wait_fired(1, SOON).await?;
    ends(&writing, "in a write")?;

    plugin.script(|script| script.hang = true);
    let asked = plugin.calls().status;
    let probing = ground.reporter("probing").flag("--read-timeout=20s").start()?;
    wait::until("a look", SOON, || async {
        if plugin.calls().status > asked { Ok(()) } else { Err("none") }
    })
    .await?;
    ends(&probing, "in a look")
}

/// T-S2.
pub async fn a_second_signal_ends_it_at_once(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let reporter = ground.reporter("master-0").start()?;
    reporter.rounds().await?;
    let log = reporter.log();
    let line = log.lines().find(|line| line.contains("serving health")).ok_or("no address")?;
    let line: serde_json::Value = serde_json::from_str(line)?;
    // A request that never ends keeps the orderly end waiting.
    let mut open = std::net::TcpStream::connect(line["address"].as_str().unwrap_or_default())?;
    open.write_all(b"GET /metrics HTTP/1.1\r\nHost: re")?;
    reporter.rounds().await?;
    reporter.process.signal(Signal::TERM)?;
    reporter.until_told(&["SIGTERM: ending"]).await?;
    let status = reporter.process.stop(SOON)?;
    assert_eq!(status.code(), Some(1), "{}", reporter.log());
    Ok(())
}

/// T-S3, and T-SSA7: the first violation, in the order of the reporter before, in one line and with its code.
pub async fn wrong_flags_end_it_with_one_clear_line(_: Context) -> TestResult {
    let socket = "--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock";
    let node = "--node-name=master-0";
    for (flags, part) in [
        (&[][..], "--kms-sockets is missing"),
        (&["--interval=0s", "--node-name="], "--kms-sockets is missing"),
        (&["--kms-sockets=", node], "--kms-sockets: \"\" is no plugin's socket"),
        (
            &["--kms-sockets=/var/run/kmsplugin/kms-1.sock", node],
            "is no plugin's socket: use unix:///var/run/kmsplugin/kms-N.sock",
        ),
        (&["--kms-sockets=unix:///var/run/kmsplugin/kms-007.sock", node], "must have no leading zeros"),
        (&[socket, socket, "--interval=0s"], "is there twice"),
        (&[socket, "--interval=0s", "--read-timeout=0s"], "--interval must be greater than 0, and is 0s"),
        (&[socket, "--interval=-1s"], "--interval must be greater than 0, and is -1s"),
        (&[socket, "--interval=soon"], "--interval: \"soon\" is no duration"),
        (&[socket, "--read-timeout=0", "--write-timeout=0"], "--read-timeout must be greater than 0"),
        (&[socket, "--write-timeout=0"], "--write-timeout must be greater than 0"),
        (&[socket, "--publish=post"], "--node-name is missing"),
        (
            &[socket, "--node-name=Master-0"],
            "--node-name: \"Master-0\" is no name of a node: it has lower-case letters",
        ),
        (&[socket, node, "--publish=post"], "--publish: \"post\" is no form"),
        (&[socket, node, "--target=pod"], "--target: \"pod\" is no target"),
        (
            &[socket, node, "--publish=typed", "--target=kmshealth"],
            "--publish and --target kmshealth do not fit",
        ),
        (&[socket, node, "--fallback-servers=http://x"], "--fallback-servers: \"http://x\" is no server"),
        (&[socket, node, "--metrics-bind-address=here"], "--metrics-bind-address: \"here\" is no address"),
        (&[socket, node, "--log-format=xml"], "--log-format: \"xml\" is no log format"),
        (&[socket, node, "--log-level=loud=very"], "--log-level: \"loud=very\" is no log level"),
    ] {
        for name in ["kms-reporter", "kms-health-reporter"] {
            let output = Command::new(binaries::path("outrigger")?).arg(name).args(flags).output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{flags:?}: {said}");
            assert!(said.starts_with("outrigger: ") && said.contains(part), "{flags:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{flags:?}: {said}");
        }
    }
    Ok(())
}

/// T-S4.
pub async fn credentials_that_come_late_are_found(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let _plugin = ground.plugin(1)?;
    let kubeconfig = ground.folder.path().join("kubeconfig");
    let reporter = ground.reporter("master-0").by(&kubeconfig).start()?;
    reporter.until_told(&["reports cannot be published", "no_credentials", "--kubeconfig "]).await?;
    std::fs::write(&kubeconfig, "no kubeconfig at all: [")?;
    let rounds = reporter.rounds().await?;
    reporter.until_metric("outrigger_kms_round_duration_seconds_count", "", rounds + 2.0).await?;
    std::fs::write(&kubeconfig, ground.plane.admin().kubeconfig())?;
    ground.status(&reporter, 1, "Healthy").await?;
    assert_eq!(reporter.told(&["reports cannot be published"]), 1, "{}", reporter.log());
    Ok(())
}

/// T-S5: a root file system that is read-only. That it runs as any user is shown where a socket may not be opened.
pub async fn it_needs_no_writable_files(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let _plugin = ground.plugin(1)?;
    let read_only =
        ["unshare", "--mount", "--", "sh", "-c", "mount -o remount,bind,ro / && exec \"$@\"", "sh"];
    let reporter = ground.reporter("master-0").through(&read_only).start()?;
    ground.status(&reporter, 1, "Healthy").await?;
    let mounts = std::fs::read_to_string(format!("/proc/{}/mounts", reporter.process.pid()?))?;
    let root = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/")).unwrap_or_default();
    assert!(root.split(' ').nth(3).is_some_and(|options| options.starts_with("ro")), "{root}");
    Ok(())
}

/// T-S6: as a native sidecar before an API server's container, with no socket, no credentials and no API server to reach.
pub async fn the_container_behind_it_starts_whatever_it_lacks(cx: Context) -> TestResult {
    let plane = ControlPlane::on(&cx.site()?).start().await?;
    let image = "outrigger.dev/outrigger:dev";
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "kube-apiserver-like", "namespace": "kube-system" },
        "spec": {
            "hostNetwork": true,
            "initContainers": [{
                "name": "kms-reporter", "image": image, "imagePullPolicy": "Never", "restartPolicy": "Always",
                "args": ["kms-reporter", "--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock", "--node-name=master-0",
                         "--kubeconfig=/nowhere/kubeconfig", "--interval=1s"],
                "securityContext": { "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                                     "capabilities": { "drop": ["ALL"] } },
            }],
            "containers": [{
                "name": "kube-apiserver", "image": image, "imagePullPolicy": "Never",
                "command": ["testbed-pod", "serve", "--port=8080"],
            }],
        },
    });
    let node = Node::on(&plane).image(&Image::outrigger()?).static_pod(manifest).start().await?;
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, "kube-system");
    let name = format!("kube-apiserver-like-{}", node.name());
    wait::until("the container behind it", 2 * SOON, || async {
        let status = pods.get(&name).await?.status.unwrap_or_default();
        let runs = |list: &Option<Vec<ContainerStatus>>| {
            list.iter().flatten().any(|one| {
                one.state.as_ref().is_some_and(|state| state.running.is_some()) && one.restart_count == 0
            })
        };
        if runs(&status.init_container_statuses) && runs(&status.container_statuses) {
            Ok(())
        } else {
            Err(testbed::Error::Refused(format!("its status is {status:?}")))
        }
    })
    .await?;
    Ok(())
}

/// T-S7. Twenty thousand rounds with OUTRIGGER_KMS_ROUNDS=20000; by default four hundred.
pub async fn memory_is_flat_over_many_rounds(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let (_two, one) = (ground.plugin(2)?, ground.plugin(1)?);
    one.script(|script| script.healthz = b"sealed".to_vec());
    let reporter = ground.reporter("master-0").keys(&[2, 1]).every("5ms").start()?;
    let wanted = number("OUTRIGGER_KMS_ROUNDS", 400);
    let name = "outrigger_kms_round_duration_seconds_count";
    let limit = Duration::from_secs(60 + wanted / 10);
    let until = |rounds: f64| {
        let reporter = &reporter;
        async move {
            wait::until(format!("{rounds} rounds"), limit, || async {
                let now = reporter.metric(name, "").await?;
                if now >= rounds { Ok(()) } else { Err(testbed::Error::Refused(format!("{now} so far"))) }
            })
            .await
        }
    };
    until(wanted as f64 / 4.0).await?;
    let (memory, open) = (reporter.memory()?, reporter.descriptors()?);
    until(wanted as f64).await?;
    let (now, open_now) = (reporter.memory()?, reporter.descriptors()?);
    let cpu = reporter.metric("process_cpu_seconds_total", "").await?;
    let rounds = reporter.rounds().await?;
    println!(
        "after {rounds} rounds: {now} KiB (a quarter in: {memory}), {open_now} descriptors, {:.2} ms of CPU for each",
        cpu * 1e3 / rounds
    );
    assert!(now <= memory + 2048, "{memory} KiB grew to {now} KiB");
    assert!(open_now <= open + 3, "{open} descriptors grew to {open_now}");
    Ok(())
}

/// T-S8: those that are started together do not stay together. There is no API server, and what each process has decided is
/// read, not when it got its turn: a busy machine changes nothing.
pub async fn fifty_reporters_do_not_march_in_step(cx: Context) -> TestResult {
    const COUNT: usize = 50;
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let _plugin = ground.plugin(1)?;
    let nobody = plane.admin().at("https://127.0.0.1:1").write_kubeconfig(ground.folder.path())?;
    let start = |number| {
        let orders = ground.reporter(&format!("node-{number}")).every("4s").by(&nobody);
        orders.flag("--log-level=kms=debug").start()
    };
    let reporters: Vec<_> = (0..COUNT).map(start).collect::<Result<_, _>>()?;
    let (put_off, due) = ("the first round is put off", "the next one is due after this time");
    wait::until("two rounds of each", 2 * SOON, || async {
        let slow = reporters.iter().filter(|reporter| reporter.seconds(due).len() < 2).count();
        if slow == 0 { Ok(()) } else { Err(format!("{slow} are not there yet")) }
    })
    .await?;
    let first: Vec<f64> = reporters.iter().flat_map(|reporter| reporter.seconds(put_off)).collect();
    let periods: Vec<f64> = reporters.iter().flat_map(|reporter| reporter.seconds(due)).collect();
    println!("first rounds of {COUNT} reporters after {first:.1?} s, and then every {periods:.2?} s");
    assert_eq!(first.len(), COUNT);
    assert!(first.iter().all(|seconds| (0.0..=4.0).contains(seconds)), "{first:?}");
    // Each quarter of the interval has some: of one without any, chance would be to blame once in half a million runs.
    for quarter in 0..4 {
        let within = f64::from(quarter)..f64::from(quarter + 1);
        assert!(first.iter().any(|seconds| within.contains(seconds)), "none in {within:?}: {first:?}");
    }
    assert!(periods.iter().all(|seconds| (3.6..=4.4).contains(seconds)), "{periods:?}");
    for side in [3.6..4.0, 4.0..4.4] {
        assert!(periods.iter().any(|seconds| side.contains(seconds)), "none in {side:?}: {periods:?}");
    }
    Ok(())
}

/// T-S9.
pub async fn a_round_that_overruns_is_followed_at_once(cx: Context) -> TestResult {
    let ground = Ground::on(&cx, cx.control_plane().await?).await?;
    let plugin = ground.plugin(1)?;
    plugin.script(|script| script.latency = Duration::from_millis(500));
    let reporter = ground.reporter("master-0").every("200ms").start()?;
    reporter.until_told(&["are not shorter than --interval"]).await?;
    ground.status(&reporter, 1, "Healthy").await?;
    let (begin, asked) = (Instant::now(), plugin.calls().status);
    wait::until("four more looks", SOON, || async {
        assert!(plugin.connections() <= 1, "rounds overlap");
        if plugin.calls().status >= asked + 4 { Ok(()) } else { Err("not yet") }
    })
    .await?;
    assert!(begin.elapsed() < Duration::from_secs(6), "four looks of 0.5 s took {:?}", begin.elapsed());
    reporter.until_metric("outrigger_kms_round_overruns_total", "", 3.0).await?;
    Ok(())
}
