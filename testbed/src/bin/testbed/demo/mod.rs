//! `testbed demo`: runs the product on a real local cluster and shows it with kubectl.

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
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::harness::logs;
use testbed::harness::wait;
use testbed::process::signals;
use testbed::{Error, Part, Result, Site};

use self::kms::KmsDemo;
use self::narrator::Narrator;
use self::nodes::NodeDemo;

/// Namespace and name of the Deployment of the operator.
const OPERATOR: (&str, &str) = ("outrigger-system", "outrigger-operator");

/// Timeout for the operator to become available; usually a few seconds.
const READY_WITHIN: Duration = Duration::from_secs(180);

/// Options of the demo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Stop after the operator is installed.
    pub(crate) quick: bool,
    /// Exit at the end.
    pub(crate) exit: bool,
}

/// Runs the demo. With `exit`, or without a terminal, it exits at the end; otherwise it waits for Ctrl-C.
pub(crate) fn run_demo(options: Options) -> Result<()> {
    let waiting = Arc::new(AtomicBool::new(false));
    let is_waiting = waiting.clone();
    // Ctrl-C is the regular end of the demo once it waits; before that it is an interruption.
    signals::cleanup_on_signal(
        move |signal| if is_waiting.load(Ordering::SeqCst) { 0 } else { 128 + signal },
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::Io { what: "starting a runtime".into(), source })?;
    // Built once per machine, so not part of the measured times.
    Part::kubernetes()?;
    for part in [Part::Dns, Part::CertManager, Part::S3, Part::Seid] {
        part.ensure()?;
    }
    let narrator = Narrator::new();
    runtime.block_on(show(&narrator, options, &waiting))?;
    narrator.event("cluster is stopped and removed");
    Ok(())
}

async fn show(narrator: &Narrator, options: Options, waiting: &AtomicBool) -> Result<()> {
    let site = Site::claim(logs::test_dir("demo", "cluster"))?;
    let socket_dir = site.dir().join("kmsplugin");
    std::fs::create_dir_all(&socket_dir)
        .map_err(|source| Error::Io { what: format!("creating {}", socket_dir.display()), source })?;
    let plugin = FakeKmsPlugin::start("kms-1", &socket_dir)?;
    let platform = start(narrator, &site, &plugin).await?;
    install(narrator, &platform).await?;
    if !options.quick {
        let nodes = NodeDemo::new(narrator, &platform).await?;
        nodes.create().await?;
        nodes.edit().await?;
        nodes.fail_and_recover().await?;
        let kms = KmsDemo::start(narrator, platform.plane(), &plugin).await?;
        kms.fail_and_recover(&plugin).await?;
    }
    platform.check_alive()?;
    narrator.event(format!("demo completed in {:.0} s", narrator.elapsed().as_secs_f64()));
    if options.exit || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        narrator.event("exiting (--exit, or no terminal)");
    } else {
        // Set before the instructions are printed: the user may press Ctrl-C at once.
        waiting.store(true, Ordering::SeqCst);
        print_instructions(platform.plane(), &site)?;
        // The signal thread cleans up and exits the process.
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn start(narrator: &Narrator, site: &Arc<Site>, plugin: &FakeKmsPlugin) -> Result<Platform> {
    narrator.section(
        "Cluster",
        "etcd and kube-apiserver with KMS encryption of Secrets, nodes with containerd and kubelet, DNS, cert-manager and S3. \
         All components are real and run in separate networks on this machine.",
    );
    let plane =
        ControlPlane::builder(site).controllers().scheduler().kms_provider(plugin.provider()).start().await?;
    narrator.event(format!(
        "control plane is ready at {} ({:.1} s)",
        plane.url(),
        plane.started_in().as_secs_f64()
    ));
    let platform = Platform::with_control_plane(plane).await?;
    for node in platform.cluster().nodes() {
        narrator.event(format!("{} is Ready ({:.1} s)", node.name(), node.started_in().as_secs_f64()));
    }
    narrator.show(platform.plane(), &["get", "nodes"])?;
    Ok(platform)
}

async fn install(narrator: &Narrator, platform: &Platform) -> Result<()> {
    narrator.section(
        "Operator",
        "Two replicas with leader election and least-privilege RBAC, in a namespace with the restricted Pod Security Standard.",
    );
    narrator.event("kubectl apply --server-side -k deploy/crds");
    narrator.event("kubectl apply --server-side -k examples/one-machine");
    narrator.event("kubectl apply --server-side -k examples/nodes");
    platform.install()?;
    let (namespace, name) = OPERATOR;
    let deployments: Api<Deployment> = Api::namespaced(platform.plane().client().await?, namespace);
    wait::until("both replicas of the operator to become available", READY_WITHIN, || async {
        let status = deployments.get(name).await?.status.unwrap_or_default();
        match status.available_replicas {
            Some(2) => Ok(()),
            _ => Err(Error::Other(format!("{status:?}"))),
        }
    })
    .await?;
    narrator.event("operator is available (2/2 replicas)");
    narrator.show(platform.plane(), &["get", "deployment,pods", "--namespace", namespace, "--output", "wide"])
}

/// Prints how to use the cluster from another terminal.
fn print_instructions(plane: &ControlPlane, site: &Site) -> Result<()> {
    let kubeconfig = plane.admin().write_kubeconfig(site.dir())?;
    println!();
    println!("Use the cluster from another terminal:");
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!("  alias kubectl={}", plane.kubernetes().program("kubectl").display());
    println!("  kubectl get pods -A -o wide");
    println!("  kubectl get seinodes -n {NAMESPACE} -w");
    println!("  kubectl describe seinode full-node -n {NAMESPACE}");
    println!("  kubectl logs -n {} deployment/{} -f", OPERATOR.0, OPERATOR.1);
    println!("Logs of all processes: {}", canonical(site.logs()));
    println!("Press Ctrl-C to stop and remove everything.");
    Ok(())
}

fn canonical(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}
