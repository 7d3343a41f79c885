//! A node of a cluster: a machine in a box, with real containerd, kubelet and kube-proxy in it.

mod cni;
mod container;
mod containerd;
mod kube_proxy;
mod kubelet;
mod machine;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
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
pub use container::kill as kill_container;
use machine::Machine;

/// How long a node may take to become ready; it takes a few seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A node that is about to be started.
#[derive(Debug)]
pub struct Builder<'a> {
    plane: &'a ControlPlane,
    images: Vec<&'a Image>,
    names: Vec<(&'a Image, String)>,
    static_pods: Vec<Value>,
    pool: Option<Pool>,
}

/// A pool of machines that are kept for some pods.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Its name.
    pub name: &'static str,
    /// The label that has it.
    pub label: &'static str,
    /// The taint that keeps away whoever does not tolerate it.
    pub taint: &'static str,
}

impl<'a> Builder<'a> {
    /// An image for its pods. Nothing is ever pulled: an image that was not given here does not exist.
    #[must_use]
    pub fn image(mut self, image: &'a Image) -> Self {
        self.images.push(image);
        self
    }

    /// The same, also by another name, such as one that ends in a digest.
    #[must_use]
    pub fn image_as(mut self, image: &'a Image, name: impl Into<String>) -> Self {
        self.names.push((image, name.into()));
        self.image(image)
    }

    /// A pod that the kubelet runs from a file, without asking anybody.
    #[must_use]
    pub fn static_pod(mut self, pod: Value) -> Self {
        self.static_pods.push(pod);
        self
    }

    /// It is one of a pool.
    #[must_use]
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Starts it and returns when the cluster sees it as ready and its services are reachable.
    pub async fn start(self) -> Result<Node> {
        let Self { plane, images, names, static_pods, pool } = self;
        let begin = Instant::now();
        let place = Place::new(plane)?;
        for (index, pod) in static_pods.iter().enumerate() {
            let path = place.folder("static-pods")?.join(format!("{index}.json"));
            fs::write(&path, pod.to_string()).context(|| format!("writing {}", path.display()))?;
        }
        let machine = Machine::start(&place).await?;
        let containerd = containerd::start(&place, &machine).await?;
        containerd::import(&place, &machine, &Image::pause()?).await?;
        for image in images {
            containerd::import(&place, &machine, image).await?;
        }
        for (image, name) in names {
            containerd::name(&machine, image, &name)?;
        }
        let kube_proxy = kube_proxy::start(&place, &machine, plane)?;
        let kubelet = kubelet::start(&place, &machine, plane, pool)?;
        let (kubelet, containerd) = (Mutex::new(kubelet), Mutex::new(containerd));
        let mut node =
            Node { kubelet, kube_proxy, containerd, machine, place, pool, started_in: Duration::ZERO };
        node.wait_until_ready(plane).await?;
        node.started_in = begin.elapsed();
        Ok(node)
    }
}

/// A running node; everything of it is removed when it is dropped. The cluster is not told, as when a machine breaks:
/// its Node object stays.
#[derive(Debug)]
pub struct Node {
    // Dropped in this order: who depends on the next ends first.
    kubelet: Mutex<Process>,
    kube_proxy: Process,
    containerd: Mutex<Process>,
    machine: Machine,
    place: Place,
    pool: Option<Pool>,
    started_in: Duration,
}

impl Node {
    /// A node of a cluster.
    #[must_use]
    pub fn on(plane: &ControlPlane) -> Builder<'_> {
        Builder { plane, images: Vec::new(), names: Vec::new(), static_pods: Vec::new(), pool: None }
    }

    /// Its name in the cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Its address; pods of the host network have it too.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.place.address
    }

    /// How long it took from the first process to ready.
    #[must_use]
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Where the logs of its pods are, as `NAMESPACE_NAME_UID/CONTAINER/N.log`.
    #[must_use]
    pub fn pod_logs(&self) -> PathBuf {
        self.place.logs.join("pods")
    }

    /// So many folders of its disk, for volumes of its pods. Those that are there already are the first of them.
    pub fn volumes(&self, count: usize) -> Result<Vec<PathBuf>> {
        (0..count).map(|number| self.place.folder(&format!("volumes/{number}"))).collect()
    }

    /// Fails when one of its programs has ended by itself.
    pub fn check_alive(&self) -> Result<()> {
        self.machine.check_alive()?;
        self.kube_proxy.check_alive()?;
        for process in [&self.containerd, &self.kubelet] {
            process.lock().unwrap_or_else(PoisonError::into_inner).check_alive()?;
        }
        Ok(())
    }

    /// Kills its kubelet, and starts it again. Containers go on meanwhile.
    pub fn restart_kubelet(&self, plane: &ControlPlane) -> Result<()> {
        let mut kubelet = self.kubelet.lock().unwrap_or_else(PoisonError::into_inner);
        kubelet.kill()?;
        *kubelet = kubelet::start(&self.place, &self.machine, plane, self.pool)?;
        Ok(())
    }

    /// Kills its containerd, starts it again, and returns when it serves. Containers go on meanwhile.
    pub async fn restart_containerd(&self) -> Result<()> {
        self.containerd.lock().unwrap_or_else(PoisonError::into_inner).kill()?;
        let started = containerd::start(&self.place, &self.machine).await?;
        *self.containerd.lock().unwrap_or_else(PoisonError::into_inner) = started;
        Ok(())
    }

    async fn wait_until_ready(&self, plane: &ControlPlane) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(plane.client().await?);
        wait::until(format!("a ready {}", self.name()), READY_WITHIN, || async {
            self.check_alive()?;
            let node = nodes.get(self.name()).await?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            match conditions.iter().find(|condition| condition.type_ == "Ready") {
                Some(NodeCondition { status, .. }) if status == "True" => Ok(()),
                Some(NodeCondition { message, .. }) => {
                    Err(Error::Refused(message.clone().unwrap_or_default()))
                }
                None => Err(Error::Refused("it has not reported its condition".into())),
            }
        })
        .await?;
        wait::until(format!("services on {}", self.name()), READY_WITHIN, || async {
            self.check_alive()?;
            kube_proxy::check_ready(self.address()).await
        })
        .await
    }
}

/// What a node has on the machine: a number, a name, folders, a network and cgroups.
#[derive(Debug)]
struct Place {
    name: String,
    address: Ipv4Addr,
    dir: PathBuf,
    /// Becomes the node's /var/log. With the test's other logs, so that pods' logs are kept too.
    logs: PathBuf,
    number: NodeNumber,
}

impl Place {
    fn new(plane: &ControlPlane) -> Result<Self> {
        let site = plane.site();
        let number = site.node_number()?;
        let name = format!("node-{}", number.get());
        let place = Self {
            address: site.addresses().node(number.get()),
            dir: site.dir().join(&name),
            logs: site.logs().join(&name),
            name,
            number,
        };
        fs::create_dir_all(&place.dir).context(|| format!("making {}", place.dir.display()))?;
        fs::create_dir_all(&place.logs).context(|| format!("making {}", place.logs.display()))?;
        Ok(place)
    }

    fn site(&self) -> &Arc<Site> {
        self.number.site()
    }

    fn number(&self) -> u8 {
        self.number.get()
    }

    /// One of the node's own folders.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.dir.join(name);
        fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }

    /// Writes one of the node's files.
    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// The name of a program's log.
    fn log_name(&self, program: &str) -> String {
        format!("{}-{program}", self.name)
    }

    fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left is removed with the site; a node that gets the number again must find nothing.
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("testbed: {} could not be removed: {error}", self.dir.display());
        }
    }
}
