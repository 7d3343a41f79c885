//! A whole cluster: control plane with controllers and scheduler, DNS, and nodes that hold our image.

use std::sync::Arc;

use crate::control_plane::ControlPlane;
use crate::dns::Dns;
use crate::error::Result;
use crate::image::Image;
use crate::node::Node;
use crate::site::Site;

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
