//! A node of a cluster: real containerd, kubelet and kube-proxy in their own namespaces.

mod cni;
mod containerd;
mod containers;
mod kube_proxy;
mod kubelet;
mod namespaces;
pub mod policy_engine;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node as NodeObject, NodeCondition};
use kube::api::Api;
use serde_json::Value;

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::image::Image;
use crate::cluster::site::{NodeNumber, Site};
use crate::error::{Error, IoContext, Result};
use crate::harness::wait;
use crate::process::Process;
use crate::sync::lock;
pub(crate) use containers::network_namespace;
pub use containers::{kill as kill_container, kill_and_edit as kill_container_and_edit};
use namespaces::NodeNamespaces;

/// Timeout for a node to become ready; usually a few seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Configuration of a node to start.
#[derive(Debug)]
pub struct Builder<'a> {
    plane: &'a ControlPlane,
    images: Vec<&'a Image>,
    tags: Vec<(&'a Image, String)>,
    static_pods: Vec<Value>,
    pool: Option<Pool>,
}

/// A node pool with a label and a taint.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Name of the pool; value of the label and the taint.
    pub name: &'static str,
    /// Label key.
    pub label: &'static str,
    /// Taint key; the effect is `NoSchedule`.
    pub taint: &'static str,
}

impl<'a> Builder<'a> {
    /// Preloads an image. Nothing is ever pulled: other images do not exist.
    #[must_use]
    pub fn image(mut self, image: &'a Image) -> Self {
        self.images.push(image);
        self
    }

    /// Preloads an image under an additional name, such as a digest reference.
    #[must_use]
    pub fn image_as(mut self, image: &'a Image, name: impl Into<String>) -> Self {
        self.tags.push((image, name.into()));
        self.image(image)
    }

    /// Adds a static pod, which the kubelet runs from a file.
    #[must_use]
    pub fn static_pod(mut self, pod: Value) -> Self {
        self.static_pods.push(pod);
        self
    }

    /// Makes the node a member of a pool.
    #[must_use]
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Starts the node and returns when it is Ready and its Services are reachable.
    pub async fn start(self) -> Result<Node> {
        let Self { plane, images, tags, static_pods, pool } = self;
        let begin = Instant::now();
        let layout = NodeLayout::new(plane)?;
        for (index, pod) in static_pods.iter().enumerate() {
            let path = layout.create_dir("static-pods")?.join(format!("{index}.json"));
            fs::write(&path, pod.to_string()).context(|| format!("writing {}", path.display()))?;
        }
        let namespaces = NodeNamespaces::start(&layout).await?;
        let containerd = containerd::start(&layout, &namespaces).await?;
        containerd::import(&layout, &namespaces, &Image::pause()?).await?;
        for image in images {
            containerd::import(&layout, &namespaces, image).await?;
        }
        for (image, name) in tags {
            containerd::tag(&namespaces, image, &name)?;
        }
        let kube_proxy = kube_proxy::start(&layout, &namespaces, plane)?;
        let kubelet = kubelet::start(&layout, &namespaces, plane, pool)?;
        let (kubelet, containerd) = (Mutex::new(kubelet), Mutex::new(containerd));
        let mut node =
            Node { kubelet, kube_proxy, containerd, namespaces, layout, pool, started_in: Duration::ZERO };
        node.wait_until_ready(plane).await?;
        node.started_in = begin.elapsed();
        Ok(node)
    }
}

/// A running node; removed on drop. As when a machine fails, its Node object stays.
#[derive(Debug)]
pub struct Node {
    // Drop order: each field depends on the ones after it.
    kubelet: Mutex<Process>,
    kube_proxy: Process,
    containerd: Mutex<Process>,
    namespaces: NodeNamespaces,
    layout: NodeLayout,
    pool: Option<Pool>,
    started_in: Duration,
}

impl Node {
    /// Configures a node of a cluster.
    #[must_use]
    pub fn builder(plane: &ControlPlane) -> Builder<'_> {
        Builder { plane, images: Vec::new(), tags: Vec::new(), static_pods: Vec::new(), pool: None }
    }

    /// Returns the name of its Node object.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.layout.name
    }

    /// Returns its address, which pods in the host network share.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.layout.address
    }

    /// Returns the time from the first process to Ready.
    #[must_use]
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Returns the directory of its pod logs: `NAMESPACE_NAME_UID/CONTAINER/N.log`.
    #[must_use]
    pub fn pod_logs(&self) -> PathBuf {
        self.layout.logs.join("pods")
    }

    /// Creates `count` directories for volumes, or returns the existing ones.
    pub fn create_volume_dirs(&self, count: usize) -> Result<Vec<PathBuf>> {
        (0..count).map(|number| self.layout.create_dir(&format!("volumes/{number}"))).collect()
    }

    /// Fails if a process of the node has exited.
    pub fn check_alive(&self) -> Result<()> {
        self.namespaces.check_alive()?;
        self.kube_proxy.check_alive()?;
        for process in [&self.containerd, &self.kubelet] {
            lock(process).check_alive()?;
        }
        Ok(())
    }

    /// Kills and restarts the kubelet. Containers keep running.
    pub fn restart_kubelet(&self, plane: &ControlPlane) -> Result<()> {
        let mut kubelet = lock(&self.kubelet);
        kubelet.kill()?;
        *kubelet = kubelet::start(&self.layout, &self.namespaces, plane, self.pool)?;
        Ok(())
    }

    /// Kills and restarts containerd and returns when it serves. Containers keep running.
    pub async fn restart_containerd(&self) -> Result<()> {
        lock(&self.containerd).kill()?;
        let started = containerd::start(&self.layout, &self.namespaces).await?;
        *lock(&self.containerd) = started;
        Ok(())
    }

    /// Starts a NetworkPolicy engine on the node; it ends when the returned process is dropped.
    pub fn start_policy_engine(&self, plane: &ControlPlane, program: &Path) -> Result<Process> {
        policy_engine::start(&self.layout, &self.namespaces, plane, program)
    }

    async fn wait_until_ready(&self, plane: &ControlPlane) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(plane.client().await?);
        wait::until(format!("{} to become Ready", self.name()), READY_WITHIN, || async {
            self.check_alive()?;
            let node = nodes.get(self.name()).await?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            match conditions.iter().find(|condition| condition.type_ == "Ready") {
                Some(NodeCondition { status, .. }) if status == "True" => Ok(()),
                Some(NodeCondition { message, .. }) => Err(Error::Other(message.clone().unwrap_or_default())),
                None => Err(Error::Other("no Ready condition".into())),
            }
        })
        .await?;
        wait::until(format!("Services on {} to be reachable", self.name()), READY_WITHIN, || async {
            self.check_alive()?;
            kube_proxy::check_ready(self.address()).await
        })
        .await
    }
}

/// Name, number, address and directories of a node.
#[derive(Debug)]
struct NodeLayout {
    name: String,
    address: Ipv4Addr,
    dir: PathBuf,
    /// Mounted as /var/log of the node. Next to the other logs of the test, so that pod logs are kept.
    logs: PathBuf,
    number: NodeNumber,
}

impl NodeLayout {
    fn new(plane: &ControlPlane) -> Result<Self> {
        let site = plane.site();
        let number = site.reserve_node_number()?;
        let name = format!("node-{}", number.get());
        let layout = Self {
            address: site.addresses().node(number.get()),
            dir: site.dir().join(&name),
            logs: site.logs().join(&name),
            name,
            number,
        };
        fs::create_dir_all(&layout.dir).context(|| format!("creating {}", layout.dir.display()))?;
        fs::create_dir_all(&layout.logs).context(|| format!("creating {}", layout.logs.display()))?;
        Ok(layout)
    }

    fn site(&self) -> &Arc<Site> {
        self.number.site()
    }

    fn number(&self) -> u8 {
        self.number.get()
    }

    /// Creates a directory of the node, unless it exists.
    fn create_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).context(|| format!("creating {}", dir.display()))?;
        Ok(dir)
    }

    /// Writes a file of the node.
    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// Returns the log name of a program.
    fn log_name(&self, program: &str) -> String {
        format!("{}-{program}", self.name)
    }

    fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for NodeLayout {
    fn drop(&mut self) {
        // The next node with this number must start from an empty directory. What is left is removed with the site.
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("testbed: removing {} failed: {error}", self.dir.display());
        }
    }
}
