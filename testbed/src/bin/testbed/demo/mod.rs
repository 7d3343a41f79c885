//! `testbed demo`: the product on a real cluster on this machine, shown with kubectl.

mod kms;
mod narrator;
mod nodes;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use testbed::cluster::control_plane::ControlPlane;
use testbed::demo::platform::{NAMESPACE, Platform};
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::harness::logs;
use testbed::harness::wait;
use testbed::process::signals;
use testbed::{Error, Part, Result, Site};

use self::kms::Watch;
use self::narrator::Narrator;
use self::nodes::Nodes;

/// The namespace and the name of the operator, as the manifests have them.
const OPERATOR: (&str, &str) = ("outrigger-system", "outrigger-operator");

/// How long the operator may take to be ready; it takes some seconds.
const READY_WITHIN: Duration = Duration::from_secs(180);

/// How much is shown, and how it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    /// Only until the operator is up.
    pub(crate) quick: bool,
    /// End when everything is shown.
    pub(crate) exit: bool,
}

/// Runs the demo; it ends by itself when asked to or when nobody is there to end it.
pub(crate) fn run_demo(ways: Ways) -> Result<()> {
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
    // Not part of the story, and not of its times: built once per machine.
    Part::kubernetes()?;
    for part in [Part::Dns, Part::CertManager, Part::S3, Part::Seid] {
        part.ensure()?;
    }
    let narrator = Narrator::new();
    runtime.block_on(show(&narrator, ways, &waiting))?;
    narrator.say("Everything was stopped and removed.");
    Ok(())
}

async fn show(narrator: &Narrator, ways: Ways, waiting: &AtomicBool) -> Result<()> {
    let site = Site::claim(logs::folder("demo", "cluster"))?;
    let folder = site.dir().join("kmsplugin");
    std::fs::create_dir_all(&folder)
        .map_err(|source| Error::Io { what: format!("creating {}", folder.display()), source })?;
    let plugin = KmsPlugin::start("kms-1", &folder)?;
    let platform = start(narrator, &site, &plugin).await?;
    install(narrator, &platform).await?;
    if !ways.quick {
        let nodes = Nodes::of(narrator, &platform).await?;
        nodes.begin().await?;
        nodes.edit().await?;
        nodes.break_and_mend().await?;
        let watch = Watch::start(narrator, platform.plane(), &plugin).await?;
        watch.break_and_mend(&plugin).await?;
    }
    platform.check_alive()?;
    narrator.say(format!("That was all, in {:.0} s.", narrator.took().as_secs_f64()));
    if ways.exit || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        narrator.say("Nobody is there to look around, or EXIT=1 was given: ending.");
    } else {
        // Before the invitation: who reads it may press the keys at once.
        waiting.store(true, Ordering::SeqCst);
        invite(platform.plane(), &site)?;
        // The signal's thread removes everything and ends the process.
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn start(narrator: &Narrator, site: &Arc<Site>, plugin: &KmsPlugin) -> Result<Platform> {
    narrator.chapter(
        "A cluster",
        "etcd and kube-apiserver, which encrypts Secrets by a KMS plugin; then nodes with containerd and kubelet, DNS, cert-manager and \
         an S3 server. All of it is real, and in networks of its own on this machine.",
    );
    let plane =
        ControlPlane::on(site).controllers().scheduler().encrypted_by(plugin.provider()).start().await?;
    narrator.say(format!(
        "The control plane serves at {} ({:.1} s from start to ready).",
        plane.url(),
        plane.started_in().as_secs_f64()
    ));
    let platform = Platform::of(plane).await?;
    for node in platform.cluster().nodes() {
        narrator.say(format!("{} is ready ({:.1} s).", node.name(), node.started_in().as_secs_f64()));
    }
    narrator.show(platform.plane(), &["get", "nodes"])?;
    Ok(platform)
}

async fn install(narrator: &Narrator, platform: &Platform) -> Result<()> {
    narrator.chapter(
        "The operator",
        "Two of it, of which one leads, with no more rights than they use, in a namespace of the strictest standard for pods.",
    );
    narrator.say("kubectl apply --server-side -k examples/one-machine, and -k examples/nodes");
    platform.install()?;
    let (namespace, name) = OPERATOR;
    let deployments: Api<Deployment> = Api::namespaced(platform.plane().client().await?, namespace);
    wait::until("both operators to be ready", READY_WITHIN, || async {
        let status = deployments.get(name).await?.status.unwrap_or_default();
        match status.available_replicas {
            Some(2) => Ok(()),
            _ => Err(Error::Refused(format!("{status:?}"))),
        }
    })
    .await?;
    narrator.say("Both are ready.");
    narrator.show(platform.plane(), &["get", "deployment,pods", "--namespace", namespace, "--output", "wide"])
}

/// Tells how to use the cluster from another terminal.
fn invite(plane: &ControlPlane, site: &Site) -> Result<()> {
    let kubeconfig = plane.admin().write_kubeconfig(site.dir())?;
    println!();
    println!("Look around from another terminal:");
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!("  alias kubectl={}", plane.kubernetes().program("kubectl").display());
    println!("  kubectl get pods -A -o wide");
    println!("  kubectl get seinodes -n {NAMESPACE} -w");
    println!("  kubectl describe seinode full-node -n {NAMESPACE}");
    println!("  kubectl logs -n {} deployment/{} -f", OPERATOR.0, OPERATOR.1);
    println!("Logs of every process are in {}.", canonical(site.logs()));
    println!("Press Ctrl-C to stop and remove everything.");
    Ok(())
}

fn canonical(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}
