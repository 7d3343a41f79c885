//! Nothing is left behind, however a run ends. The runs that end badly are this program itself, told by an environment
//! variable to be one of them; what is compared is the whole machine, so these tests run one after the other.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic; clippy recognizes only those of the usual runner"
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
use testbed::harness::Suite;
use testbed::harness::binaries;
use testbed::harness::footprint;
use testbed::harness::wait;
use testbed::process::Program;
use testbed::{Context, ControlPlane, Error, Image, Node, Site, TestResult};

/// Says which badly ending run this program is.
const ROLE: &str = "OUTRIGGER_TESTBED_DOOMED";

/// What a run prints when everything it will leave is there.
const STANDING: &str = "everything stands";

/// How long a cluster, or the whole demo, may take.
const SOON: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    match std::env::var(ROLE).as_deref() {
        Ok("hangs") => Suite::new("doomed").within_another().test("hangs", |cx| Box::pin(hangs(cx))).run(),
        Ok("lingers") => {
            Suite::new("doomed").within_another().test("lingers", |cx| Box::pin(lingers(cx))).run()
        }
        Ok("begets") => Suite::new("doomed").within_another().test("begets", |cx| Box::pin(begets(cx))).run(),
        Ok("panics") => Suite::new("doomed").within_another().test("panics", |cx| Box::pin(panics(cx))).run(),
        Ok(other) => panic!("{ROLE}={other} is no run"),
        Err(_) => Suite::new("cleanup")
            .alone()
            .test("the_next_start_cleans_what_a_killed_run_left_and_leaves_live_runs_alone", |cx| {
                Box::pin(the_next_start_cleans_what_a_killed_run_left_and_leaves_live_runs_alone(cx))
            })
            .test("an_interrupted_run_leaves_nothing", |cx| Box::pin(an_interrupted_run_leaves_nothing(cx)))
            .test("a_run_that_is_ended_takes_those_with_it_that_it_began", |cx| {
                Box::pin(a_run_that_is_ended_takes_those_with_it_that_it_began(cx))
            })
            .test("a_panic_shows_the_ends_of_logs_and_leaves_nothing", |cx| {
                Box::pin(a_panic_shows_the_ends_of_logs_and_leaves_nothing(cx))
            })
            .test("the_demo_shows_everything_and_leaves_nothing", |cx| {
                Box::pin(the_demo_shows_everything_and_leaves_nothing(cx))
            })
            .test("the_demo_ends_on_ctrl_c_and_leaves_nothing", |cx| {
                Box::pin(the_demo_ends_on_ctrl_c_and_leaves_nothing(cx))
            })
            .run(),
    }
}

/// A run with a node and a pod on it, that never ends.
async fn hangs(cx: Context) -> TestResult {
    let site = cx.site()?;
    let plane = ControlPlane::on(&site).start().await?;
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
    let node = Node::on(&plane).image(&image).static_pod(pod).start().await?;
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, "kube-system");
    wait::until("a running pod", SOON, || async {
        let phase =
            pods.get(&format!("passenger-{}", node.name())).await?.status.and_then(|status| status.phase);
        if phase.as_deref() == Some("Running") {
            Ok(())
        } else {
            Err(Error::Refused(format!("it is {phase:?}")))
        }
    })
    .await?;
    println!("{STANDING} on site {}", site.number());
    std::future::pending().await
}

/// A run with a process, that never ends.
async fn lingers(cx: Context) -> TestResult {
    let site = cx.site()?;
    let _process = Program::new("idler", "/bin/sleep").args(["1000"]).start(&site)?;
    println!("{STANDING} on site {}", site.number());
    std::future::pending().await
}

/// A run that has begun another one, and never ends.
async fn begets(_: Context) -> TestResult {
    let _run = doomed("lingers").stdout(Stdio::inherit()).spawn()?;
    std::future::pending().await
}

/// A run with a process that has something to say, and a test that panics.
async fn panics(cx: Context) -> TestResult {
    let site = cx.site()?;
    let process = Program::new("talker", "/bin/sh")
        .args(["-c", "echo its last words; exec sleep 1000"])
        .start(&site)?;
    wait::until("its last words", SOON, || async { said(process.log()) }).await?;
    panic!("as planned")
}

fn said(log: &std::path::Path) -> std::io::Result<()> {
    let text = std::fs::read_to_string(log)?;
    if text.contains("last words") { Ok(()) } else { Err(std::io::Error::other("nothing yet")) }
}

/// A program that is ended with this one: a demo would outlive tests that are ended because they take too long.
fn that_ends_with_us(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

fn doomed(role: &str) -> Command {
    let mut command = that_ends_with_us(std::env::current_exe().expect("this program has a path"));
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits until a run prints a line that begins with `beginning`, and returns it. It goes on reading, since a full pipe
/// would block the run.
fn line_of(child: &mut Child, beginning: &str) -> Result<String, Error> {
    let stdout = child.stdout.take().expect("stdout is piped");
    let beginning = beginning.to_owned();
    let (found, finding) = mpsc::channel();
    let wanted = beginning.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.trim_start().starts_with(&wanted) {
                // The test may have given up.
                let _ = found.send(line);
            }
        }
    });
    finding.recv_timeout(SOON).map_err(|error| Error::Deadline {
        what: format!("a line {beginning:?}"),
        limit: SOON,
        last: error.to_string(),
    })
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

async fn the_next_start_cleans_what_a_killed_run_left_and_leaves_live_runs_alone(cx: Context) -> TestResult {
    let before = footprint::now();
    let neighbour = ControlPlane::on(&cx.site()?).start().await?;
    let mut run = doomed("hangs").spawn()?;
    let standing = line_of(&mut run, STANDING)?;
    let site = standing.rsplit(' ').next().unwrap_or_default().to_owned();

    run.kill()?;
    run.wait()?;
    let left: Vec<String> = footprint::now().difference(&before).cloned().collect();
    for what in ["process", "interface", "network namespace", "cgroup", "file"] {
        let mine = [format!("outrigger-{site}"), format!("outrigger-testbed/{site}")];
        let found =
            left.iter().any(|line| line.starts_with(what) && mine.iter().any(|name| line.contains(name)));
        assert!(found, "a killed run leaves its {what}, or this test shows nothing: {left:#?}");
    }

    let next = Site::claim(cx.logs().join("next"))?;
    neighbour.check_alive()?;
    assert_eq!(neighbour.client().await?.apiserver_version().await?.git_version, "v1.36.3");
    drop(next);
    drop(neighbour);
    assert_same(&before, &footprint::now());
    Ok(())
}

async fn an_interrupted_run_leaves_nothing(_: Context) -> TestResult {
    let before = footprint::now();
    let mut run = doomed("hangs").spawn()?;
    line_of(&mut run, STANDING)?;
    kill_process(pid_of(&run), Signal::INT)?;
    let ended = run.wait()?;
    assert_eq!(ended.code(), Some(130), "as a shell tells an interruption");
    assert_same(&before, &footprint::now());
    Ok(())
}

async fn a_run_that_is_ended_takes_those_with_it_that_it_began(_: Context) -> TestResult {
    let before = footprint::now();
    let mut run = doomed("begets").spawn()?;
    line_of(&mut run, STANDING)?;
    kill_process(pid_of(&run), Signal::TERM)?;
    assert_eq!(run.wait()?.code(), Some(143), "as a shell tells it");
    wait::until("everything to be as before", SOON, || async {
        let now = footprint::now();
        let left: Vec<_> = now.symmetric_difference(&before).collect();
        if left.is_empty() { Ok(()) } else { Err(Error::Refused(format!("there is {left:?}"))) }
    })
    .await?;
    Ok(())
}

async fn a_panic_shows_the_ends_of_logs_and_leaves_nothing(_: Context) -> TestResult {
    let before = footprint::now();
    let output = doomed("panics").output()?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(101), "{said}");
    assert!(said.contains("talker.log\nits last words"), "{said}");
    assert!(said.contains("test result: FAILED. 0 passed; 1 failed"), "{said}");
    assert_same(&before, &footprint::now());
    Ok(())
}

async fn the_demo_shows_everything_and_leaves_nothing(_: Context) -> TestResult {
    let before = footprint::now();
    // Without a terminal it ends by itself.
    let output = that_ends_with_us(binaries::path("testbed")?).arg("demo").stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for seen in [
        "validator is Running and has blocks",
        "full-node is Running and has blocks",
        "with 1 pod cycle",
        "Named after",
        "Mended after",
        "KMSPluginsDegraded is True",
        "Mended, and False again",
        "Everything was stopped and removed.",
    ] {
        assert!(said.contains(seen), "{seen:?} is not in {said}");
    }
    assert_same(&before, &footprint::now());
    Ok(())
}

async fn the_demo_ends_on_ctrl_c_and_leaves_nothing(_: Context) -> TestResult {
    let before = footprint::now();
    let demo = binaries::path("testbed")?;
    // `script` gives it a terminal, and what we write is what a person types. The shell that `script` starts must
    // not stay in between: Ctrl-C reaches it too, and one that waits for its child ends with 130 whatever that says.
    let mut run = that_ends_with_us("script")
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
    line_of(&mut run, "Press Ctrl-C")?;
    run.stdin.as_mut().expect("stdin is piped").write_all(b"\x03")?;
    let ended = run.wait()?;
    let mut errors = String::new();
    run.stderr.take().expect("stderr is piped").read_to_string(&mut errors)?;
    assert_eq!(ended.code(), Some(0), "{errors}");
    assert_same(&before, &footprint::now());
    Ok(())
}

fn assert_same(before: &std::collections::BTreeSet<String>, after: &std::collections::BTreeSet<String>) {
    let left: Vec<_> = after.difference(before).collect();
    let lost: Vec<_> = before.difference(after).collect();
    assert!(left.is_empty() && lost.is_empty(), "left behind: {left:#?}; taken away: {lost:#?}");
}
