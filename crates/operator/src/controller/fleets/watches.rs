//! Watch handlers of the fleet controller.

use std::sync::Arc;

use api::SeiNode;
use api::names::label;
use kube::{Resource, ResourceExt};
use runtime::Key;
use runtime::own_writes::OwnWrites;
use runtime::queue::{Priority, Queue};
use runtime::watch::Change;

/// The work queue of fleets.
pub(in super::super) type FleetQueue = Arc<Queue<Key>>;

/// Enqueues a fleet when it changes.
pub(super) fn on_fleet<K>(
    queue: &FleetQueue,
    own_writes: &Arc<OwnWrites>,
) -> impl Fn(&Change<K>) + Send + Sync + use<K>
where
    K: Resource<DynamicType = ()> + Clone,
{
    let (queue, own_writes) = (queue.clone(), own_writes.clone());
    move |change| {
        let is_own = matches!(change, Change::Applied(now, _) if own_writes.is_echo(&**now));
        let priority = if matches!(change, Change::Listed(_)) { Priority::Low } else { Priority::High };
        if !is_own {
            queue.add(Key::from_object(&**change.object()), priority);
        }
    }
}

/// Enqueues the fleet that an object names in its label.
pub(super) fn on_owned<K>(
    queue: &FleetQueue,
    own_writes: &Arc<OwnWrites>,
) -> impl Fn(&Change<K>) + Send + Sync + use<K>
where
    K: Resource<DynamicType = ()> + Clone,
{
    let (queue, own_writes) = (queue.clone(), own_writes.clone());
    move |change| {
        let is_own = matches!(change, Change::Applied(now, _) if own_writes.is_echo(&**now));
        if !is_own && !matches!(change, Change::Listed(_)) {
            enqueue_fleet(&queue, &**change.object());
        }
    }
}

/// Enqueues the fleet of a node, if something changed that concerns it. Nodes write their status more often than that.
pub(in super::super) fn on_node(queue: &FleetQueue) -> impl Fn(&Change<SeiNode>) + Send + Sync + use<> {
    let queue = queue.clone();
    move |change| {
        let is_relevant = match change {
            Change::Listed(_) => false,
            Change::Deleted(_) | Change::Applied(_, None) => true,
            Change::Applied(now, Some(before)) => concerns_fleet(before, now),
        };
        if is_relevant {
            enqueue_fleet(&queue, &**change.object());
        }
    }
}

fn concerns_fleet(before: &SeiNode, now: &SeiNode) -> bool {
    let metadata = |node: &SeiNode| {
        let metadata = &node.metadata;
        (
            metadata.generation,
            metadata.deletion_timestamp.is_some(),
            metadata.labels.clone(),
            metadata.annotations.clone(),
            metadata.owner_references.clone(),
        )
    };
    let status = |node: &SeiNode| {
        node.status.as_ref().map(|status| {
            (
                status.phase,
                status.observed_generation,
                status.reconciled_generation,
                status.adopted,
                status.current_image.clone(),
                status.conditions.clone(),
            )
        })
    };
    metadata(before) != metadata(now) || status(before) != status(now)
}

fn enqueue_fleet<K: Resource>(queue: &FleetQueue, object: &K) {
    if let Some(fleet) = object.labels().get(label::FLEET) {
        let key = Key { namespace: object.namespace().unwrap_or_default(), name: fleet.clone() };
        queue.add(key, Priority::High);
    }
}
