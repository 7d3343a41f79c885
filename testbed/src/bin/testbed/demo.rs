//! `testbed demo`: a real cluster on this machine with pods of our own image, shown with kubectl.

use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use testbed::control_plane::ControlPlane;
use testbed::dns::Dns;
use testbed::image::Image;
use testbed::node::Node;
use testbed::{Error, Part, Result, Site, logs, signals, wait};

/// What is applied: pods of two containers from our image, one of them a native sidecar.
const MANIFEST: &str = include_str!("demo.yaml");

/// How long the pods may take; they take a few seconds.
const RUNNING_WITHIN: Duration = Duration::from_secs(120);

/// Tells what happens, with the time since the start.
struct Narrator {
    begin: Instant,
}

impl Narrator {
    fn say(&self, what: impl AsRef<str>) {
        println!("[{:5.1} s] {}", self.begin.elapsed().as_secs_f64(), what.as_ref());
    }

    /// Shows a kubectl command and what it prints.
    fn show(&self, plane: &ControlPlane, args: &[&str]) -> Result<()> {
        println!("          $ kubectl {}", args.join(" "));
        let mut command = plane.kubectl()?;
        let said = run(command.args(args))?;
        for line in said.lines() {
            println!("          {line}");
        }
        Ok(())
    }
}

/// Runs the demo; it ends by itself when asked to or when nobody is there to end it.
pub(crate) fn run_demo(exit: bool) -> Result<()> {
    let waiting = Arc::new(AtomicBool::new(false));
    let is_waiting = waiting.clone();
    // Ctrl-C is how the demo is meant to end, once everything is shown; before that it is an interruption.
    signals::remove_on_signal(
        move |signal| if is_waiting.load(Ordering::SeqCst) { 0 } else { 128 + signal },
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::Io { what: "starting a runtime".into(), source })?;
    let narrator = Narrator { begin: Instant::now() };
    runtime.block_on(async {
        // Not part of the story, and not of its times: built once per machine.
        Part::kubernetes()?;
        Part::Dns.ensure()?;
        show(&narrator, exit, &waiting).await
    })?;
    narrator.say("Everything was stopped and removed.");
    Ok(())
}

async fn show(narrator: &Narrator, exit: bool, waiting: &AtomicBool) -> Result<()> {
    narrator.say("Starting a control plane: etcd, kube-apiserver, controllers and scheduler, in a network of their own.");
    let site = Site::claim(logs::folder("demo", "cluster"))?;
    let plane = ControlPlane::on(&site).controllers().scheduler().start().await?;
    narrator.say(format!(
        "It serves at {} ({:.1} s from start to ready).",
        plane.url(),
        plane.started_in().as_secs_f64()
    ));

    narrator.say("Starting DNS and two nodes: containerd, kubelet and kube-proxy each, loading our image.");
    let image = Image::outrigger()?;
    let _dns = Dns::on(&plane).await?;
    let (first, second) =
        tokio::try_join!(Node::on(&plane).image(&image).start(), Node::on(&plane).image(&image).start())?;
    for node in [&first, &second] {
        narrator.say(format!("{} is ready ({:.1} s).", node.name(), node.started_in().as_secs_f64()));
    }
    narrator.show(&plane, &["get", "nodes", "-o", "wide"])?;

    narrator
        .say("Applying a StatefulSet of two pods. Each has a native sidecar: it starts first and ends last.");
    let manifest = site.dir().join("demo.yaml");
    std::fs::write(&manifest, MANIFEST)
        .map_err(|source| Error::Io { what: format!("writing {}", manifest.display()), source })?;
    run(plane.kubectl()?.args(["apply", "--filename"]).arg(&manifest))?;
    wait_for_pods(&plane).await?;
    narrator.say("Both pods are Running, on different nodes.");
    narrator.show(&plane, &["get", "statefulset,pods", "-o", "wide"])?;
    narrator.say("The pods hold our binary, and reach each other by name through the cluster's DNS.");
    narrator.show(&plane, &["exec", "outrigger-0", "-c", "node", "--", "outrigger", "--version"])?;
    let ask = [
        "exec",
        "outrigger-0",
        "-c",
        "node",
        "--",
        "testbed-pod",
        "get",
        "http://outrigger-1.outrigger:8080/",
    ];
    // DNS learns of a ready pod a moment after the API server does.
    wait::until("the neighbour's name", RUNNING_WITHIN, || async { run(plane.kubectl()?.args(ask)) }).await?;
    narrator.show(&plane, &ask)?;

    if exit || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        narrator.say("Nobody is there to look around, or EXIT=1 was given: ending.");
    } else {
        // Before the invitation: who reads it may press the keys at once.
        waiting.store(true, Ordering::SeqCst);
        invite(&plane, &site)?;
        // The signal's thread removes everything and ends the process.
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// Tells how to use the cluster from another terminal.
fn invite(plane: &ControlPlane, site: &Site) -> Result<()> {
    let kubeconfig = plane.admin().write_kubeconfig(site.dir())?;
    println!();
    println!("Look around from another terminal:");
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!("  alias kubectl={}", plane.kubernetes().program("kubectl").display());
    println!("  kubectl get pods -A -o wide");
    println!("  kubectl logs outrigger-0 -c sidecar");
    println!("Logs of every process are in {}.", canonical(site.logs()));
    println!("Press Ctrl-C to stop and remove everything.");
    Ok(())
}

fn canonical(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Waits for both pods; says what each is waiting for when they do not come.
async fn wait_for_pods(plane: &ControlPlane) -> Result<()> {
    let template = "{.status.readyReplicas}";
    wait::until("two ready pods", RUNNING_WITHIN, || async {
        let ready = run(plane.kubectl()?.args([
            "get",
            "statefulset",
            "outrigger",
            "-o",
            &format!("jsonpath={template}"),
        ]))?;
        if ready == "2" {
            return Ok(());
        }
        let pods = run(plane.kubectl()?.args(["get", "pods", "--no-headers"]))?;
        Err(Error::Refused(format!(
            "{} ready; pods: {}",
            if ready.is_empty() { "0" } else { &ready },
            pods.trim()
        )))
    })
    .await
}

/// Runs a command to its end; what it printed on failure is in the error.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|source| Error::Io { what: "starting kubectl".into(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Command { command: format!("{command:?}"), status: output.status, stderr })
}
