//! Builds the fleet controller and spawns its watches.

use std::sync::{Arc, Mutex};

use api::SeiNode;
use api::names::{label, manager};
use kube::runtime::watcher;
use runtime::own_writes::OwnWrites;
use runtime::watch::{Cache, ClusterWideSecrets};

use super::super::object_store::ObjectStore;
use super::super::start::Builder;
use super::watches::{on_fleet, on_owned};
use super::{CONTROLLER, FleetController, FleetQueue};
use crate::chain_progress::ChainHeights;

/// Builds the controller, and spawns a task for each of its watches. `nodes` are the caches of the node controller.
pub(in super::super) fn build(
    builder: &mut Builder<'_>,
    queue: &FleetQueue,
    nodes: Vec<Cache<SeiNode>>,
    heights: Arc<ChainHeights>,
) -> Result<FleetController, ClusterWideSecrets> {
    let metrics = builder.process.metrics.clone();
    let own_writes = || Arc::new(OwnWrites::new(CONTROLLER, &metrics));
    let (fleet_writes, revision_writes, service_writes) = (own_writes(), own_writes(), own_writes());
    // Objects of nodes carry the label of the fleet, too: Services, and the revisions of their StatefulSets.
    let labeled = watcher::Config::default().labels(&format!("{},!{}", label::FLEET, label::NODE));
    let fleets = builder.watch(&watcher::Config::default(), |_| {}, || on_fleet(queue, &fleet_writes))?;
    let revisions = builder.watch(&labeled, |_| {}, || on_owned(queue, &revision_writes))?;
    let services = builder.watch(&labeled, |_| {}, || on_owned(queue, &service_writes))?;
    Ok(FleetController {
        client: builder.process.client.clone(),
        fleets: ObjectStore::new(fleets, fleet_writes),
        nodes: ObjectStore::new(nodes, own_writes()),
        revisions: ObjectStore::new(revisions, revision_writes),
        services: ObjectStore::new(services, service_writes),
        heights,
        events: builder.process.spawn_events(manager::FLEET, &builder.settings.identity),
        active_since: Mutex::default(),
    })
}
