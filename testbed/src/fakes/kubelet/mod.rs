//! Fake kubelet and scheduler, for tests without nodes: pods start, fail and exit in their status only, a thousand of
//! them if necessary.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use testbed::fakes::kubelet::{ContainerFailure, FakeKubelet};
//! # use testbed::fakes::sidecars::FakeSidecars;
//! # async fn example(plane: &testbed::ControlPlane) -> testbed::Result<()> {
//! let sidecars = FakeSidecars::start().await?;
//! let kubelet = FakeKubelet::start(plane, &sidecars, ["sei"]).await?;
//! let message = "manifest unknown".to_owned();
//! kubelet.fail_image("images.example/seid:v2", ContainerFailure::ImagePullBackOff(message));
//! kubelet.remove_pods_after(Duration::from_secs(2));
//! // ... let the operator reconcile, then repair the image ...
//! kubelet.restore_image("images.example/seid:v2");
//! # Ok(()) }
//! ```
//!
//! The fake kubelet runs every pod with a node label. A pod needs what a real one needs: bound claims to be scheduled,
//! Secrets and ConfigMaps to be mounted, images that can be pulled. While its sidecar and proxy containers run, the
//! [`FakeSidecar`](crate::fakes::sidecars::FakeSidecar) of its node is reachable, over HTTP or TLS as the proxy arguments and
//! the certificate Secret say; it stops with the pod. Probes succeed when that sidecar is ready. A bootstrap pod exits
//! some time after that.

mod claims;
mod environment;
mod kube_node;
mod log;
mod objects;
mod pod;
mod pods;
mod script;
mod status;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::names::label;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::Api;
use kube::runtime::watcher;
use tokio::task::JoinSet;

pub use self::script::{ClaimPolicy, ContainerFailure};

use self::environment::Environment;
use self::log::Log;
use crate::cluster::control_plane::ControlPlane;
use crate::error::Result;
use crate::fakes::sidecars::FakeSidecars;

/// A running fake kubelet; it stops when dropped and leaves all objects as they are.
pub struct FakeKubelet {
    env: Arc<Environment>,
    tasks: JoinSet<()>,
}

impl FakeKubelet {
    /// User agent of its requests, to tell them apart in the audit log.
    pub const USER_AGENT: &str = "outrigger-fake-kubelet";

    /// Runs all pods of nodes in these namespaces. From then on, the fake sidecars of these namespaces start and
    /// stop with their pods.
    pub async fn start<N: Into<String>>(
        plane: &ControlPlane,
        sidecars: &FakeSidecars,
        namespaces: impl IntoIterator<Item = N>,
    ) -> Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let log = Log::create(&plane.site().logs().join(format!("fake-kubelet-{number}.log")))?;
        let namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        let mut readiness_changes = sidecars.shared().follow_pods(&namespaces);
        let client = plane.admin().client(Self::USER_AGENT).await?;
        let kube_node = kube_node::create(&client, &environment::NODE_ADDRESS.to_string()).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(kube_node::renew_lease(client.clone(), kube_node.clone()));
        let env = Environment::new(client.clone(), sidecars.shared().clone(), kube_node, log);
        let pods = watcher::Config::default().labels(label::NODE);
        let all = watcher::Config::default();
        for ns in &namespaces {
            let (client, env) = (|| client.clone(), || env.clone());
            tasks.spawn(watch::run(Api::<Secret>::namespaced(client(), ns), all.clone(), env()));
            tasks.spawn(watch::run(Api::<ConfigMap>::namespaced(client(), ns), all.clone(), env()));
            tasks.spawn(watch::run(
                Api::<PersistentVolumeClaim>::namespaced(client(), ns),
                all.clone(),
                env(),
            ));
            tasks.spawn(watch::run(Api::<Pod>::namespaced(client(), ns), pods.clone(), env()));
        }
        let notified = env.clone();
        tasks.spawn(async move {
            while let Some(node) = readiness_changes.recv().await {
                notified.readiness_changed(&node);
            }
        });
        Ok(Self { env, tasks })
    }

    /// Containers created from this image from now on fail. Running containers are not affected.
    pub fn fail_image(&self, image: impl Into<String>, failure: ContainerFailure) {
        self.env.update_script(|script| drop(script.broken_images.insert(image.into(), failure)));
    }

    /// Containers of this image start again.
    pub fn restore_image(&self, image: &str) {
        self.env.update_script(|script| drop(script.broken_images.remove(image)));
    }

    /// Keeps pods that have not started from starting, until [`release_pods`](Self::release_pods).
    pub fn hold_pods(&self) {
        self.env.update_script(|script| script.held = true);
    }

    /// Starts the pods that were held.
    pub fn release_pods(&self) {
        self.env.update_script(|script| script.held = false);
    }

    /// Delays the start of pods after their creation; default 0.
    pub fn start_pods_after(&self, delay: Duration) {
        self.env.update_script(|script| script.start_after = delay);
    }

    /// Delays the removal of deleted pods and of their sidecars; default 0.
    pub fn remove_pods_after(&self, delay: Duration) {
        self.env.update_script(|script| script.remove_after = delay);
    }

    /// Sets when and with which exit code the seid of a bootstrap pod exits after its sidecar became ready; default
    /// at once with 0.
    pub fn set_bootstrap_exit(&self, after: Duration, exit_code: i32) {
        self.env.update_script(|script| {
            script.bootstrap_duration = after;
            script.bootstrap_exit_code = exit_code;
        });
    }

    /// Sets what happens to claims that are not bound yet.
    pub fn set_claim_policy(&self, policy: ClaimPolicy) {
        self.env.update_script(|script| script.claims = policy);
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.tasks.abort_all();
        self.env.close();
    }
}

fn is_status(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
