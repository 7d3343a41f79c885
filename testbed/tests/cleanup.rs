//! Every run cleans up, however it ends. The runs that end badly are this binary itself, selected by an environment
//! variable. The tests compare the whole machine, so they run one after the other.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic; clippy recognizes only libtest tests"
)]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testbed::cluster::site;
use testbed::harness::Suite;
use testbed::harness::binaries;
use testbed::harness::footprint;
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, ControlPlane, Error, Image, Node, Site, TestResult};

/// Selects which badly ending run this process is.
const ROLE: &str = "OUTRIGGER_TESTBED_DOOMED";

/// Printed by a run once everything it starts is up.
const READY: &str = "run is ready";

/// Timeout for a cluster, or for the whole demo.
const SOON: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    match std::env::var(ROLE).as_deref() {
        Ok("node_forever") => {
            Suite::new("cleanup-child").nested().test("node_forever", |cx| Box::pin(node_forever(cx))).run()
        }
        Ok("process_forever") => Suite::new("cleanup-child")
            .nested()
            .test("process_forever", |cx| Box::pin(process_forever(cx)))
            .run(),
        Ok("nested_forever") => Suite::new("cleanup-child")
            .nested()
            .test("nested_forever", |cx| Box::pin(nested_forever(cx)))
            .run(),
        Ok("panics") => Suite::new("cleanup-child").nested().test("panics", |cx| Box::pin(panics(cx))).run(),
        Ok(other) => panic!("unknown {ROLE}={other}"),
        Err(_) => testbed::tests![
            next_start_cleans_up_only_killed_runs,
            interrupted_run_leaves_nothing,
            terminated_run_stops_nested_runs,
            terminated_run_cleans_up_without_reader_of_stderr,
            panic_prints_log_tails_and_leaves_nothing,
            demo_completes_and_leaves_nothing,
            demo_ends_on_ctrl_c_and_leaves_nothing,
        ]
        .exclusive()
        .run(),
    }
}

/// A run with a node and a pod that never ends.
async fn node_forever(cx: Context) -> TestResult {
    let site = cx.site()?;
    let plane = ControlPlane::builder(&site).start().await?;
    let image = Image::outrigger()?;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "passenger", "namespace": "kube-system" },
        "spec": { "containers": [{
            "name": "only",
            "image": image.name(),
            "imagePullPolicy": "Never",
            "command": ["testbed-pod", "serve", "--port=8080"],
        }]},
    });
    let node = Node::builder(&plane).image(&image).static_pod(pod).start().await?;
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, "kube-system");
    wait::until("running pod", SOON, || async {
        let phase =
            pods.get(&format!("passenger-{}", node.name())).await?.status.and_then(|status| status.phase);
        if phase.as_deref() == Some("Running") {
            Ok(())
        } else {
            Err(Error::Other(format!("phase {phase:?}")))
        }
    })
    .await?;
    println!("{READY} on site {}", site.number());
    std::future::pending().await
}

/// A run with a process that never ends.
async fn process_forever(cx: Context) -> TestResult {
    let site = cx.site()?;
    let _process = Program::new("idler", "/bin/sleep").args(["1000"]).start(&site)?;
    println!("{READY} on site {}", site.number());
    std::future::pending().await
}

/// A run that starts another run and never ends.
async fn nested_forever(_: Context) -> TestResult {
    let _run = child_run("process_forever").stdout(Stdio::inherit()).spawn()?;
    std::future::pending().await
}

/// A run with a process that logs, and a test that panics.
async fn panics(cx: Context) -> TestResult {
    let site = cx.site()?;
    let process =
        Program::new("talker", "/bin/sh").args(["-c", "echo final message; exec sleep 1000"]).start(&site)?;
    wait::until("log output", SOON, || async { check_logged(process.log()) }).await?;
    panic!("expected panic")
}

fn check_logged(log: &std::path::Path) -> std::io::Result<()> {
    let text = std::fs::read_to_string(log)?;
    if text.contains("final message") { Ok(()) } else { Err(std::io::Error::other("no output yet")) }
}

/// A program that is terminated with this process. Otherwise, a demo would outlive tests that are killed by a
/// timeout.
fn dies_with_parent(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

fn child_run(role: &str) -> Command {
    let mut command = dies_with_parent(std::env::current_exe().expect("this program has a path"));
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for a line of output with this prefix and returns it. Keeps reading afterwards, because a full pipe would
/// block the run.
fn wait_for_line(child: &mut Child, prefix: &str) -> Result<String, Error> {
    let stdout = child.stdout.take().expect("stdout is piped");
    let prefix = prefix.to_owned();
    let (sender, receiver) = mpsc::channel();
    let wanted = prefix.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.trim_start().starts_with(&wanted) {
                // The test may have timed out.
                let _ = sender.send(line);
            }
        }
    });
    receiver.recv_timeout(SOON).map_err(|error| Error::Deadline {
        what: format!("output line {prefix:?}"),
        limit: SOON,
        last: error.to_string(),
    })
}

/// Reads the site number at the end of the line that a run prints once it is ready.
fn site_number(ready: &str) -> Result<u8, Error> {
    let number = ready.rsplit(' ').next().unwrap_or_default();
    number.parse().map_err(|error| Error::Other(format!("no site number in {ready:?}: {error}")))
}

fn child_pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

async fn next_start_cleans_up_only_killed_runs(cx: Context) -> TestResult {
    let before = footprint::snapshot();
    let neighbour = ControlPlane::builder(&cx.site()?).start().await?;
    let mut run = child_run("node_forever").spawn()?;
    let site = site_number(&wait_for_line(&mut run, READY)?)?;

    run.kill()?;
    run.wait()?;
    let left: Vec<String> = footprint::snapshot().difference(&before).cloned().collect();
    for what in ["process", "interface", "network namespace", "cgroup", "file"] {
        let mine = [format!("outrigger-{site}"), format!("outrigger-testbed/{site}")];
        let found =
            left.iter().any(|line| line.starts_with(what) && mine.iter().any(|name| line.contains(name)));
        assert!(found, "a killed run must leave its {what}, or this test proves nothing: {left:#?}");
    }

    let next = Site::claim(cx.logs().join("next"))?;
    neighbour.check_alive()?;
    assert_eq!(neighbour.client().await?.apiserver_version().await?.git_version, "v1.36.3");
    drop(next);
    drop(neighbour);
    assert_unchanged(&before, &footprint::snapshot());
    Ok(())
}

async fn interrupted_run_leaves_nothing(_: Context) -> TestResult {
    let before = footprint::snapshot();
    let mut run = child_run("node_forever").spawn()?;
    wait_for_line(&mut run, READY)?;
    kill_process(child_pid(&run), Signal::INT)?;
    let ended = run.wait()?;
    assert_eq!(ended.code(), Some(130), "128 + SIGINT, as shells report it");
    assert_unchanged(&before, &footprint::snapshot());
    Ok(())
}

async fn terminated_run_stops_nested_runs(_: Context) -> TestResult {
    let before = footprint::snapshot();
    let mut run = child_run("nested_forever").spawn()?;
    let nested = site_number(&wait_for_line(&mut run, READY)?)?;
    assert!(site::is_live(nested), "the nested run owns site {nested}");
    kill_process(child_pid(&run), Signal::TERM)?;
    assert_eq!(run.wait()?.code(), Some(143), "128 + SIGTERM, as shells report it");
    // Snapshots do not contain what a live run owns.
    wait::until("exit of the nested run", SOON, || async {
        if site::is_live(nested) { Err(Error::Other(format!("site {nested} is in use"))) } else { Ok(()) }
    })
    .await?;
    assert_unchanged(&before, &footprint::snapshot());
    Ok(())
}

async fn terminated_run_cleans_up_without_reader_of_stderr(_: Context) -> TestResult {
    let before = footprint::snapshot();
    let mut run = child_run("process_forever").spawn()?;
    wait_for_line(&mut run, READY)?;
    drop(run.stderr.take());
    kill_process(child_pid(&run), Signal::TERM)?;
    wait::until("exit", SOON, || {
        let ended = run.try_wait();
        async move {
            match ended {
                Ok(Some(status)) if status.code() == Some(143) => Ok(()),
                other => Err(Error::Other(format!("run ended with {other:?}"))),
            }
        }
    })
    .await?;
    assert_unchanged(&before, &footprint::snapshot());
    Ok(())
}

async fn panic_prints_log_tails_and_leaves_nothing(_: Context) -> TestResult {
    let before = footprint::snapshot();
    let output = child_run("panics").output()?;
    let output_text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(101), "{output_text}");
    assert!(output_text.contains("talker.log\nfinal message"), "{output_text}");
    assert!(output_text.contains("test result: FAILED. 0 passed; 1 failed"), "{output_text}");
    assert_unchanged(&before, &footprint::snapshot());
    Ok(())
}

async fn demo_completes_and_leaves_nothing(_: Context) -> TestResult {
    let before = footprint::snapshot();
    // Without a terminal, the demo ends by itself.
    let output = dies_with_parent(binaries::path("testbed")?).arg("demo").stdin(Stdio::null()).output()?;
    let output_text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{output_text}");
    for seen in [
        "validator is Running and produces blocks",
        "full-node is Running and follows the chain",
        "with 1 pod cycle",
        "status reports the failure after",
        "full-node is Running again",
        "KMSPluginsDegraded is True",
        "KMSPluginsDegraded is False again",
        "cluster is stopped and removed",
    ] {
        assert!(output_text.contains(seen), "{seen:?} missing in {output_text}");
    }
    assert_unchanged(&before, &footprint::snapshot());
    Ok(())
}

async fn demo_ends_on_ctrl_c_and_leaves_nothing(_: Context) -> TestResult {
    let before = footprint::snapshot();
    let demo = binaries::path("testbed")?;
    // `script` provides a terminal; what is written to it is what a user types. `exec` replaces the shell that
    // `script` starts, because Ctrl-C reaches it, too, and it would exit with 130 regardless of its child.
    let mut run = dies_with_parent("script")
        .args([
            "--quiet",
            "--return",
            "--command",
            &format!("exec {} demo --quick", demo.display()),
            "/dev/null",
        ])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    wait_for_line(&mut run, "Press Ctrl-C")?;
    run.stdin.as_mut().expect("stdin is piped").write_all(b"\x03")?;
    let ended = run.wait()?;
    let mut errors = String::new();
    run.stderr.take().expect("stderr is piped").read_to_string(&mut errors)?;
    assert_eq!(ended.code(), Some(0), "{errors}");
    assert_unchanged(&before, &footprint::snapshot());
    Ok(())
}

fn assert_unchanged(before: &std::collections::BTreeSet<String>, after: &std::collections::BTreeSet<String>) {
    let left: Vec<_> = after.difference(before).collect();
    let lost: Vec<_> = before.difference(after).collect();
    assert!(left.is_empty() && lost.is_empty(), "left behind: {left:#?}; missing: {lost:#?}");
}
