//! The fleet controller. Each reconcile runs the stages of the node controller: observe, decide, act, record.

mod act;
mod observe;
mod reconcile;
mod start;
mod watches;

use std::sync::Mutex;

use api::{SeiNode, SeiNodeDeployment};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use runtime::events::EventRecorder;
use runtime::watch::SyncGroup;

use std::sync::Arc;

use super::Error;
use super::object_store::ObjectStore;
use crate::chain_progress::ChainHeights;

pub(super) use self::reconcile::reconcile;
pub(super) use self::start::build;
pub(super) use self::watches::{FleetQueue, on_node};

/// The name of the fleet controller in metrics.
pub(super) const CONTROLLER: &str = "seinodedeployment";

/// The fleet controller.
pub(super) struct FleetController {
    client: Client,
    fleets: ObjectStore<SeiNodeDeployment>,
    /// The nodes, with the writes of this controller: those of the node controller are no reason to wait.
    nodes: ObjectStore<SeiNode>,
    revisions: ObjectStore<ControllerRevision>,
    services: ObjectStore<Service>,
    heights: Arc<ChainHeights>,
    events: EventRecorder,
    /// Since when this process has been leading.
    pub(super) active_since: Mutex<Option<Time>>,
}

impl FleetController {
    /// Adds the caches of its own kinds to a group.
    pub(super) fn add_to(&self, group: &mut SyncGroup) {
        self.fleets.add_to(group);
        self.revisions.add_to(group);
        self.services.add_to(group);
    }
}
