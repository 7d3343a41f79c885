//! A complete cluster: control plane with controllers and scheduler, DNS, and nodes preloaded with our image.

pub mod address;
pub mod cert_manager;
pub(crate) mod cgroup;
pub mod control_plane;
pub mod dns;
pub mod image;
pub mod kubectl;
pub(crate) mod lan;
pub mod node;
pub mod openshift;
pub mod parts;
pub mod pki;
pub mod pod;
pub mod s3;
pub mod site;
pub mod storage;
pub(crate) mod sweep;

use std::sync::Arc;

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::dns::Dns;
use crate::cluster::image::Image;
use crate::cluster::node::Node;
use crate::cluster::site::Site;
use crate::error::Result;

/// A running cluster; stopped and removed on drop.
#[derive(Debug)]
pub struct Cluster {
    // Drop order: each field depends on the ones after it.
    nodes: Vec<Node>,
    dns: Dns,
    plane: ControlPlane,
}

impl Cluster {
    /// Starts a cluster with `nodes` nodes and returns when all of them are ready.
    pub async fn start(site: &Arc<Site>, nodes: usize) -> Result<Self> {
        let image = Image::outrigger()?;
        let plane = ControlPlane::builder(site).controllers().scheduler().start().await?;
        let starting = (0..nodes).map(|_| Node::builder(&plane).image(&image).start());
        let (dns, nodes) =
            tokio::try_join!(Dns::start(&plane), futures_util::future::try_join_all(starting))?;
        Ok(Self::from_parts(plane, dns, nodes))
    }

    /// Assembles a cluster from components that are already running.
    pub(crate) fn from_parts(plane: ControlPlane, dns: Dns, nodes: Vec<Node>) -> Self {
        Self { nodes, dns, plane }
    }

    /// Returns the control plane.
    #[must_use]
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Returns the nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Fails if a process of the cluster has exited.
    pub fn check_alive(&self) -> Result<()> {
        self.plane.check_alive()?;
        self.dns.check_alive()?;
        self.nodes.iter().try_for_each(Node::check_alive)
    }
}
