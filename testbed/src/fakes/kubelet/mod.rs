//! Kubelets (and a scheduler) as the API shows them, for tests without machines: pods of nodes come up, fail and end in
//! their status only, a thousand of them if need be.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use testbed::kubelet_player::{Breakage, KubeletPlayer};
//! # use testbed::sidecars::Sidecars;
//! # async fn example(plane: &testbed::ControlPlane) -> testbed::Result<()> {
//! let sidecars = Sidecars::start().await?;
//! let kubelets = KubeletPlayer::start(plane, &sidecars, ["sei"]).await?;
//! let gone = "manifest unknown".to_owned();
//! kubelets.break_image("images.example/seid:v2", Breakage::ImagePullBackOff(gone));
//! kubelets.remove_pods_after(Duration::from_secs(2));
//! // ... let the operator work; what it made wrong is mended by ...
//! kubelets.mend_image("images.example/seid:v2");
//! # Ok(()) }
//! ```
//!
//! A pod is one of a node by its label. It needs what a real one needs: claims that are bound to be scheduled, Secrets
//! and ConfigMaps to be mounted, images that are not broken. When its sidecar and proxy run, the
//! [`Sidecar`](crate::fakes::sidecars::Sidecar) of that node lives, and serves as the proxy's arguments and the Secret of its
//! certificate say; it dies with the pod. Probes succeed when that sidecar is ready. A bootstrap pod ends some time
//! after that.

mod cast;
mod claims;
mod direction;
mod follow;
mod log;
mod machine;
mod objects;
mod part;
mod stage;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::names::label;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::Api;
use kube::runtime::watcher;
use tokio::task::JoinSet;

pub use self::direction::{Breakage, Claims};

use self::log::Log;
use self::stage::Stage;
use crate::cluster::control_plane::ControlPlane;
use crate::error::Result;
use crate::fakes::sidecars::Sidecars;

/// A running player; it ends when dropped, and leaves everything as it is.
pub struct KubeletPlayer {
    stage: Arc<Stage>,
    tasks: JoinSet<()>,
}

impl KubeletPlayer {
    /// The user agent of its requests, by which the audit log tells them from others'.
    pub const AGENT: &str = "outrigger-kubelet-player";

    /// Plays the kubelets of all pods of nodes in these namespaces. From here on their sidecars live and die with pods.
    pub async fn start<N: Into<String>>(
        plane: &ControlPlane,
        sidecars: &Sidecars,
        namespaces: impl IntoIterator<Item = N>,
    ) -> Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let log = Log::create(&plane.site().logs().join(format!("kubelet-player-{number}.log")))?;
        let namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        let mut told = sidecars.shared().follow_pods(&namespaces);
        let client = plane.admin().client(Self::AGENT).await?;
        let machine = machine::make(&client, &stage::MACHINE_ADDRESS.to_string()).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(machine::keep_alive(client.clone(), machine.clone()));
        let stage = Stage::new(client.clone(), sidecars.shared().clone(), machine, log);
        let pods = watcher::Config::default().labels(label::NODE);
        let all = watcher::Config::default();
        for ns in &namespaces {
            let (c, s) = (|| client.clone(), || stage.clone());
            tasks.spawn(follow::follow(Api::<Secret>::namespaced(c(), ns), all.clone(), s()));
            tasks.spawn(follow::follow(Api::<ConfigMap>::namespaced(c(), ns), all.clone(), s()));
            tasks.spawn(follow::follow(Api::<PersistentVolumeClaim>::namespaced(c(), ns), all.clone(), s()));
            tasks.spawn(follow::follow(Api::<Pod>::namespaced(c(), ns), pods.clone(), s()));
        }
        let listening = stage.clone();
        tasks.spawn(async move {
            while let Some(node) = told.recv().await {
                listening.readiness_changed(&node);
            }
        });
        Ok(Self { stage, tasks })
    }

    /// Containers that are made from an image from here on do not come up. Those that run go on.
    pub fn break_image(&self, image: impl Into<String>, how: Breakage) {
        self.stage.direct(|direction| drop(direction.broken_images.insert(image.into(), how)));
    }

    /// Containers of an image come up again.
    pub fn mend_image(&self, image: &str) {
        self.stage.direct(|direction| drop(direction.broken_images.remove(image)));
    }

    /// Pods that have not started stay so, until they are released.
    pub fn hold_pods(&self) {
        self.stage.direct(|direction| direction.held = true);
    }

    /// Lets pods start that were held.
    pub fn release_pods(&self) {
        self.stage.direct(|direction| direction.held = false);
    }

    /// Pods start so long after they were made; at once unless this is called.
    pub fn start_pods_after(&self, time: Duration) {
        self.stage.direct(|direction| direction.start_after = time);
    }

    /// Deleted pods, and their sidecars, are gone after so long; at once unless this is called.
    pub fn remove_pods_after(&self, time: Duration) {
        self.stage.direct(|direction| direction.remove_after = time);
    }

    /// A bootstrap pod's seid ends so long after its sidecar was ready, with this exit code; at once and with 0 unless
    /// this is called.
    pub fn end_bootstrap(&self, after: Duration, exit_code: i32) {
        self.stage.direct(|direction| {
            direction.bootstrap_takes = after;
            direction.bootstrap_exit_code = exit_code;
        });
    }

    /// What becomes of claims that are not bound yet.
    pub fn treat_claims(&self, how: Claims) {
        self.stage.direct(|direction| direction.claims = how);
    }
}

impl Drop for KubeletPlayer {
    fn drop(&mut self) {
        self.tasks.abort_all();
        self.stage.close();
    }
}

fn is_status(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
