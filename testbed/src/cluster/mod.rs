//! A whole cluster: control plane with controllers and scheduler, DNS, and nodes that hold our image.

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

/// A running cluster; it ends when dropped.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: who depends on the next ends first.
    nodes: Vec<Node>,
    dns: Dns,
    plane: ControlPlane,
}

impl Cluster {
    /// Starts a cluster of so many nodes on a site, and returns when all of them are ready.
    pub async fn on(site: &Arc<Site>, nodes: usize) -> Result<Self> {
        let image = Image::outrigger()?;
        let plane = ControlPlane::on(site).controllers().scheduler().start().await?;
        let starting = (0..nodes).map(|_| Node::on(&plane).image(&image).start());
        let (dns, nodes) = tokio::try_join!(Dns::on(&plane), futures_util::future::try_join_all(starting))?;
        Ok(Self::of(plane, dns, nodes))
    }

    /// A cluster of what was started one by one.
    pub(crate) fn of(plane: ControlPlane, dns: Dns, nodes: Vec<Node>) -> Self {
        Self { nodes, dns, plane }
    }

    /// Its control plane.
    #[must_use]
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Fails when anything of it has ended by itself.
    pub fn check_alive(&self) -> Result<()> {
        self.plane.check_alive()?;
        self.dns.check_alive()?;
        self.nodes.iter().try_for_each(Node::check_alive)
    }
}
