//! Reservations of objects that only one node may use.
//!
//! [`exclusive_user`] decides from what the API server stores. Between that decision and the writes that follow from it, nothing is
//! stored yet, and another worker of this process could decide the same for another node. A reservation closes this gap. It need not
//! survive the process: a node that is missing in the caches of this process was not set up by it, and a new process starts with caches
//! that contain everything its predecessor wrote, since it leads only after the Lease of the predecessor, and so the last of its
//! writes, has expired.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kube::Client;
use plan::node::{ExclusiveObject, ExclusiveUser, exclusive_user};
use runtime::Key;
use tokio::sync::Mutex;

use super::stores::ObjectStores;

/// How long the reservation of a deleted node is kept after its last reconcile: the last write may be on its way into the caches.
const RELEASE_DELAY: Duration = Duration::from_secs(10);

/// How long it is kept if its last reconcile is not known to have ended: a node was created under the same name.
const RECREATION_DELAY: Duration = Duration::from_secs(130);

/// The reserved objects, by namespace and object.
#[derive(Debug, Default)]
pub(super) struct Reservations(Mutex<HashMap<(String, ExclusiveObject), Reservation>>);

#[derive(Debug)]
struct Reservation {
    /// The name of the node.
    node: String,
    /// When the reservation ends. None as long as the node names the object.
    ends: Option<Instant>,
}

impl Reservation {
    fn end_after(&mut self, delay: Duration) {
        let end = Instant::now() + delay;
        self.ends = Some(self.ends.map_or(end, |ends| ends.min(end)));
    }
}

impl Reservations {
    /// Returns the other node that uses an object. If there is none, the object is reserved for this node.
    pub(super) async fn acquire(
        &self,
        client: &Client,
        stores: &ObjectStores,
        node: &Key,
        object: &ExclusiveObject,
    ) -> kube::Result<Option<ExclusiveUser>> {
        // Held while the stores are read: the decision and the reservation are one step.
        let mut reserved = self.0.lock().await;
        reserved.retain(|_, one| one.ends.is_none_or(|ends| ends > Instant::now()));
        let entry = (node.namespace.clone(), object.clone());
        let mut candidates = stores.candidates(client, node, object).await?;
        let named =
            |name: &str| candidates.nodes.iter().find(|one| one.metadata.name.as_deref() == Some(name));
        let own = named(&node.name).cloned();
        if let Some(reservation) = reserved.get_mut(&entry) {
            if named(&reservation.node).is_none() {
                reservation.end_after(RECREATION_DELAY);
            }
            candidates.reserved_by = Some(reservation.node.clone());
        }
        let Some(own) = own else {
            // Deleted in the meantime: the next reconcile finds that out.
            return Ok(None);
        };
        let user = exclusive_user(object, &own, &candidates);
        if user.is_none() {
            reserved.insert(entry, Reservation { node: node.name.clone(), ends: None });
        }
        Ok(user)
    }

    /// Releases what a deleted node has reserved. No reconcile of the node runs any more.
    pub(super) async fn release(&self, node: &Key) {
        let mut reserved = self.0.lock().await;
        let own = reserved
            .iter_mut()
            .filter(|((namespace, _), one)| *namespace == node.namespace && one.node == node.name);
        own.for_each(|(_, one)| one.end_after(RELEASE_DELAY));
    }
}
