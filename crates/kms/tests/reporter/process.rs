//! The reporter's process: start-up, shutdown and resource usage.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use rustix::process::Signal;
use serde_json::json;
use testbed::faults::fault_proxy::{Fault, FaultProxy, RequestMatcher, Times, Verb};
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Image, Node, TestResult};

use crate::fixture::{Fixture, TIMEOUT};
use crate::plugins::number;
use crate::reporter_process::Reporter;

/// Maximum duration of a shutdown.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

fn assert_fast_shutdown(reporter: &Reporter, doing: &str) -> TestResult {
    let start = Instant::now();
    let status = reporter.process.stop(TIMEOUT)?;
    println!("shut down while {doing} after {:?}", start.elapsed());
    assert_eq!(status.code(), Some(0), "{doing}");
    assert!(start.elapsed() < SHUTDOWN_LIMIT, "{doing}: it took {:?}", start.elapsed());
    Ok(())
}

/// T-S1: SIGTERM while idle, publishing and probing.
pub async fn sigterm_ends_reporter_within_a_second(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::on(&cx, plane).await?;
    let plugin = fixture.start_plugin(1)?;
    let idle = fixture.reporter("idle").interval("2s").start()?;
    fixture.until_status(&idle, 1, "Healthy").await?;
    assert_fast_shutdown(&idle, "idle")?;
    assert_eq!(fixture.reports("kubeapiserver", "typed", "idle").await?.len(), 1, "published reports stay");

    let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("journal.jsonl")).await?;
    let writes = RequestMatcher::any().verb(Verb::Patch).subresource("status");
    let slow = proxy.inject(Fault::Delay(Duration::from_secs(20)), writes, Times::Always);
    let user = plane.admin().at(proxy.url());
    let writing = fixture.reporter("writing").flag("--write-timeout=20s").for_user(&user)?.start()?;
    slow.wait_fired(1, TIMEOUT).await?;
    assert_fast_shutdown(&writing, "publishing")?;

    plugin.script(|script| script.hang = true);
    let calls = plugin.calls().status;
    let probing = fixture.reporter("probing").flag("--read-timeout=20s").start()?;
    wait::until("a probe", TIMEOUT, || async {
        if plugin.calls().status > calls { Ok(()) } else { Err("none") }
    })
    .await?;
    assert_fast_shutdown(&probing, "probing")
}

/// T-S2: a second SIGTERM during shutdown.
pub async fn second_signal_exits_immediately(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let reporter = fixture.reporter("master-0").start()?;
    reporter.rounds().await?;
    let log = reporter.log();
    let line = log.lines().find(|line| line.contains("\"server\":\"metrics\"")).ok_or("no address")?;
    let line: serde_json::Value = serde_json::from_str(line)?;
    // An unfinished request delays the graceful shutdown.
    let mut open = std::net::TcpStream::connect(line["address"].as_str().unwrap_or_default())?;
    open.write_all(b"GET /metrics HTTP/1.1\r\nHost: re")?;
    reporter.rounds().await?;
    reporter.process.signal(Signal::TERM)?;
    reporter.until_logged(&["received shutdown signal", "SIGTERM"]).await?;
    let status = reporter.process.stop(TIMEOUT)?;
    assert_eq!(status.code(), Some(1), "{}", reporter.log());
    Ok(())
}

/// T-S3, T-SSA7: the first invalid flag in the order of the upstream reporter, in one line, with exit code 1.
pub async fn invalid_flag_exits_with_one_line(_: Context) -> TestResult {
    let socket = "--kms-sockets=unix:///var/run/kmsplugin/kms-1.sock";
    let node = "--node-name=master-0";
    for (flags, part) in [
        (&[][..], "--kms-sockets is required"),
        (&["--interval=0s", "--node-name="], "--kms-sockets is required"),
        (&["--kms-sockets=", node], "invalid --kms-sockets \"\""),
        (
            &["--kms-sockets=/var/run/kmsplugin/kms-1.sock", node],
            "invalid --kms-sockets \"/var/run/kmsplugin/kms-1.sock\": expected unix:///var/run/kmsplugin/kms-N.sock",
        ),
        (&["--kms-sockets=unix:///var/run/kmsplugin/kms-007.sock", node], "must have no leading zeros"),
        (&[socket, socket, "--interval=0s"], "is listed twice"),
        (
            &[socket, "--interval=0s", "--read-timeout=0s"],
            "invalid --interval \"0s\": must be greater than 0",
        ),
        (&[socket, "--interval=-1s"], "invalid --interval \"-1s\": must be greater than 0"),
        (&[socket, "--interval=soon"], "--interval: invalid duration \"soon\""),
        (
            &[socket, "--read-timeout=0", "--write-timeout=0"],
            "invalid --read-timeout \"0\": must be greater than 0",
        ),
        (&[socket, "--write-timeout=0"], "invalid --write-timeout \"0\": must be greater than 0"),
        (&[socket, "--publish=post"], "--node-name is required"),
        (
            &[socket, "--node-name=Master-0"],
            "invalid --node-name \"Master-0\": expected a lowercase RFC 1123 subdomain",
        ),
        (
            &[socket, node, "--publish=post"],
            "invalid --publish \"post\": expected condition, typed or kmshealth",
        ),
        (&[socket, node, "--target=pod"], "invalid --target \"pod\": expected one of kubeapiserver"),
        (
            &[socket, node, "--publish=typed", "--target=kmshealth"],
            "--publish does not support --target kmshealth",
        ),
        (
            &[socket, node, "--fallback-servers=http://x"],
            "invalid --fallback-servers \"http://x\": expected an https:// URL",
        ),
        (&[socket, node, "--metrics-bind-address=here"], "--metrics-bind-address: invalid address \"here\""),
        (
            &[socket, node, "--admin-bind-address=:8082"],
            "--admin-bind-address: \":8082\" can be reached from other hosts without authentication",
        ),
        (&[socket, node, "--log-format=xml"], "--log-format: invalid log format \"xml\""),
        (&[socket, node, "--log-level=loud=very"], "--log-level: invalid log level \"loud=very\""),
    ] {
        for name in ["kms-reporter", "kms-health-reporter"] {
            let output = Command::new(binaries::path("outrigger")?).arg(name).args(flags).output()?;
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{flags:?}: {stderr}");
            assert!(stderr.starts_with("outrigger: ") && stderr.contains(part), "{flags:?}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{flags:?}: {stderr}");
        }
    }
    Ok(())
}

/// T-S4: the kubeconfig appears after the reporter starts.
pub async fn late_credentials_are_found(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let _plugin = fixture.start_plugin(1)?;
    let kubeconfig = fixture.dir.path().join("kubeconfig");
    let reporter = fixture.reporter("master-0").kubeconfig(&kubeconfig).start()?;
    reporter.until_logged(&["failed to publish reports", "no_credentials", "--kubeconfig "]).await?;
    std::fs::write(&kubeconfig, "not a kubeconfig: [")?;
    let rounds = reporter.rounds().await?;
    reporter.until_metric("outrigger_kms_round_duration_seconds_count", "", rounds + 2.0).await?;
    std::fs::write(&kubeconfig, fixture.plane.admin().kubeconfig())?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    assert_eq!(reporter.count_logged(&["failed to publish reports"]), 1, "{}", reporter.log());
    Ok(())
}

/// T-S5: a read-only root file system. `socket_without_permission_is_reported` covers other users.
pub async fn reporter_runs_on_read_only_root(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let _plugin = fixture.start_plugin(1)?;
    let read_only =
        ["unshare", "--mount", "--", "sh", "-c", "mount -o remount,bind,ro / && exec \"$@\"", "sh"];
    let reporter = fixture.reporter("master-0").wrapped_by(&read_only).start()?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    let mounts = std::fs::read_to_string(format!("/proc/{}/mounts", reporter.process.pid()?))?;
    let root = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/")).unwrap_or_default();
    assert!(root.split(' ').nth(3).is_some_and(|options| options.starts_with("ro")), "{root}");
    Ok(())
}

/// T-S6: a native sidecar before an API server's container, without socket, credentials and reachable API server.
pub async fn next_container_starts_without_working_reporter(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).start().await?;
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
    let node = Node::builder(&plane).image(&Image::outrigger()?).static_pod(manifest).start().await?;
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, "kube-system");
    let name = format!("kube-apiserver-like-{}", node.name());
    wait::until("the next container", 2 * TIMEOUT, || async {
        let status = pods.get(&name).await?.status.unwrap_or_default();
        let runs = |list: &Option<Vec<ContainerStatus>>| {
            list.iter().flatten().any(|one| {
                one.state.as_ref().is_some_and(|state| state.running.is_some()) && one.restart_count == 0
            })
        };
        if runs(&status.init_container_statuses) && runs(&status.container_statuses) {
            Ok(())
        } else {
            Err(testbed::Error::Other(format!("{status:?}")))
        }
    })
    .await?;
    Ok(())
}

/// T-S7: OUTRIGGER_KMS_ROUNDS rounds (default 400, full form 20000).
pub async fn memory_is_constant_over_many_rounds(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let (_two, one) = (fixture.start_plugin(2)?, fixture.start_plugin(1)?);
    one.script(|script| script.healthz = b"sealed".to_vec());
    let reporter = fixture.reporter("master-0").keys(&[2, 1]).interval("5ms").start()?;
    let total = number("OUTRIGGER_KMS_ROUNDS", 400);
    let name = "outrigger_kms_round_duration_seconds_count";
    let limit = Duration::from_secs(60 + total / 10);
    let until = |rounds: f64| {
        let reporter = &reporter;
        async move {
            wait::until(format!("{rounds} rounds"), limit, || async {
                let now = reporter.metric(name, "").await?;
                if now >= rounds { Ok(()) } else { Err(testbed::Error::Other(format!("{now} so far"))) }
            })
            .await
        }
    };
    until(total as f64 / 4.0).await?;
    let (memory, open) = (reporter.memory()?, reporter.descriptors()?);
    until(total as f64).await?;
    let (now, open_now) = (reporter.memory()?, reporter.descriptors()?);
    let cpu = reporter.metric("process_cpu_seconds_total", "").await?;
    let rounds = reporter.rounds().await?;
    println!(
        "after {rounds} rounds: {now} KiB (a quarter in: {memory}), {open_now} descriptors, {:.2} ms of CPU per round",
        cpu * 1e3 / rounds
    );
    assert!(now <= memory + 2048, "{memory} KiB grew to {now} KiB");
    assert!(open_now <= open + 3, "{open} descriptors grew to {open_now}");
    Ok(())
}

/// T-S8: reporters that start together spread out. The delays that each process chose are read from its log, so that a loaded machine
/// does not matter. There is no API server.
pub async fn fifty_reporters_are_spread_by_jitter(cx: Context) -> TestResult {
    const COUNT: usize = 50;
    let plane = cx.control_plane().await?;
    let fixture = Fixture::on(&cx, plane).await?;
    let _plugin = fixture.start_plugin(1)?;
    let unreachable = plane.admin().at("https://127.0.0.1:1").write_kubeconfig(fixture.dir.path())?;
    let start = |number| {
        let builder = fixture.reporter(&format!("node-{number}")).interval("4s").kubeconfig(&unreachable);
        builder.flag("--log-level=kms=debug").start()
    };
    let reporters: Vec<_> = (0..COUNT).map(start).collect::<Result<_, _>>()?;
    let (delayed, due) = ("delaying first round", "next round due after this period");
    wait::until("two rounds of each", 2 * TIMEOUT, || async {
        let slow = reporters.iter().filter(|reporter| reporter.seconds(due).len() < 2).count();
        if slow == 0 { Ok(()) } else { Err(format!("{slow} have fewer")) }
    })
    .await?;
    let first: Vec<f64> = reporters.iter().flat_map(|reporter| reporter.seconds(delayed)).collect();
    let periods: Vec<f64> = reporters.iter().flat_map(|reporter| reporter.seconds(due)).collect();
    println!("first rounds of {COUNT} reporters after {first:.1?} s, and then every {periods:.2?} s");
    assert_eq!(first.len(), COUNT);
    assert!(first.iter().all(|seconds| (0.0..=4.0).contains(seconds)), "{first:?}");
    // Each quarter of the interval has some. A quarter without any happens by chance once in half a million runs.
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

/// T-S9: probes take longer than the interval.
pub async fn overrunning_round_is_followed_immediately(cx: Context) -> TestResult {
    let fixture = Fixture::on(&cx, cx.control_plane().await?).await?;
    let plugin = fixture.start_plugin(1)?;
    plugin.script(|script| script.latency = Duration::from_millis(500));
    let reporter = fixture.reporter("master-0").interval("200ms").start()?;
    reporter.until_logged(&["is not less than --interval"]).await?;
    fixture.until_status(&reporter, 1, "Healthy").await?;
    let (start, calls) = (Instant::now(), plugin.calls().status);
    wait::until("four more probes", TIMEOUT, || async {
        assert!(plugin.connections() <= 1, "rounds overlap");
        if plugin.calls().status >= calls + 4 { Ok(()) } else { Err("not yet") }
    })
    .await?;
    assert!(start.elapsed() < Duration::from_secs(6), "four probes of 0.5 s took {:?}", start.elapsed());
    reporter.until_metric("outrigger_kms_round_overruns_total", "", 3.0).await?;
    Ok(())
}
