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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::SeiNode;
    use kube::Config;
    use plan::node::ObservedPod;
    use runtime::metrics::Metrics;
    use runtime::own_writes::OwnWrites;
    use runtime::watch::Change;
    use serde_json::{Value, json};
    use tokio::sync::watch;

    use super::super::object_store::ObjectStore;
    use super::super::stores::CertificateStore;
    use super::*;

    fn store<K>() -> ObjectStore<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        ObjectStore::new(Vec::new(), Arc::new(OwnWrites::new("test", &Metrics::new())))
    }

    fn stores() -> ObjectStores {
        ObjectStores {
            nodes: store(),
            stateful_sets: store(),
            pods: store::<ObservedPod>(),
            services: store(),
            config_maps: store(),
            network_policies: store(),
            disruption_budgets: store(),
            claims: store(),
            jobs: store(),
            certificates: CertificateStore { store: store(), is_installed: watch::channel(None).1 },
            references: Arc::default(),
        }
    }

    /// Returns a client that is never used: the stores have every object.
    fn client() -> Client {
        Client::try_from(Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap()
    }

    /// Adds a validator that was created in a minute.
    fn add(stores: &ObjectStores, name: &str, minute: u8) -> Key {
        add_with(stores, name, minute, &json!({ "signingKey": { "secret": { "secretName": "key" } } }))
    }

    fn add_with(stores: &ObjectStores, name: &str, minute: u8, validator: &Value) -> Key {
        let node = json!({
            "metadata": {
                "name": name, "namespace": "sei", "uid": format!("{name}-{minute}"), "resourceVersion": "1",
                "creationTimestamp": format!("2026-05-18T10:{minute:02}:00Z"),
            },
            "spec": { "chainId": "c", "image": "i", "validator": validator },
        });
        let node: SeiNode = serde_json::from_value(node).unwrap();
        stores.references.update(&Change::Listed(Arc::new(node.clone())));
        stores.nodes.record_write(node);
        key(name)
    }

    fn remove(stores: &ObjectStores, node: &Key) {
        let object = SeiNode { metadata: named(node), ..SeiNode::new(&node.name, Default::default()) };
        stores.references.update(&Change::Deleted(Arc::new(object)));
        stores.forget(node);
    }

    fn named(node: &Key) -> kube::core::ObjectMeta {
        kube::core::ObjectMeta {
            name: Some(node.name.clone()),
            namespace: Some(node.namespace.clone()),
            ..Default::default()
        }
    }

    fn key(name: &str) -> Key {
        Key { namespace: "sei".into(), name: name.into() }
    }

    fn signing_key() -> ExclusiveObject {
        ExclusiveObject::SigningKey("key".into())
    }

    /// Returns the node that keeps another one from using the signing key.
    async fn user(reservations: &Reservations, stores: &ObjectStores, node: &Key) -> Option<String> {
        let user = reservations.acquire(&client(), stores, node, &signing_key()).await.unwrap();
        user.map(|user| user.node)
    }

    /// Returns how long each reservation still lasts; `None` without an end.
    async fn ends(reservations: &Reservations) -> Vec<(String, Option<Duration>)> {
        let left = |one: &Reservation| one.ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        reservations.0.lock().await.values().map(|one| (one.node.clone(), left(one))).collect()
    }

    /// Ends the reservations that are to end, as if their time had passed.
    async fn expire(reservations: &Reservations) {
        let mut reserved = reservations.0.lock().await;
        reserved.values_mut().filter_map(|one| one.ends.as_mut()).for_each(|ends| *ends = Instant::now());
    }

    fn is_about(left: Option<Duration>, delay: Duration) -> bool {
        left.is_some_and(|left| left <= delay && left + Duration::from_secs(5) > delay)
    }

    #[tokio::test]
    async fn one_of_two_concurrent_nodes_gets_the_key() {
        let stores = Arc::new(stores());
        // Neither is older, so only the reservation, and at last the name, decide.
        let nodes = [add(&stores, "a", 0), add(&stores, "b", 0)];
        let reservations = Arc::new(Reservations::default());
        let tasks = nodes.map(|node| {
            let (stores, reservations) = (stores.clone(), reservations.clone());
            tokio::spawn(async move { user(&reservations, &stores, &node).await })
        });
        let mut users = Vec::new();
        for task in tasks {
            users.push(task.await.unwrap());
        }
        assert_eq!(users.iter().filter(|user| user.is_none()).count(), 1, "{users:?}");
        assert_eq!(ends(&reservations).await.len(), 1);
    }

    #[tokio::test]
    async fn reservation_counts_more_than_age_and_is_kept() {
        let (stores, reservations) = (stores(), Reservations::default());
        let younger = add(&stores, "b", 5);
        assert_eq!(user(&reservations, &stores, &younger).await, None);
        // An older node that the caches did not have yet.
        let older = add(&stores, "a", 0);
        assert_eq!(user(&reservations, &stores, &older).await.as_deref(), Some("b"));
        assert_eq!(user(&reservations, &stores, &younger).await, None, "it asks again in every reconcile");
        assert_eq!(ends(&reservations).await, [("b".to_owned(), None)]);
    }

    #[tokio::test]
    async fn reservations_of_other_namespaces_and_objects_do_not_count() {
        let (stores, reservations) = (stores(), Reservations::default());
        let first = add(&stores, "a", 0);
        assert_eq!(user(&reservations, &stores, &first).await, None);
        let other = ExclusiveObject::SigningKey("other".into());
        let second =
            add_with(&stores, "b", 1, &json!({ "signingKey": { "secret": { "secretName": "other" } } }));
        assert_eq!(reservations.acquire(&client(), &stores, &second, &other).await.unwrap(), None);
        assert_eq!(ends(&reservations).await.len(), 2);
        reservations.release(&Key { namespace: "another".into(), name: "a".into() }).await;
        assert!(ends(&reservations).await.iter().all(|(_, left)| left.is_none()), "not of this namespace");
    }

    #[tokio::test]
    async fn released_reservation_is_kept_for_a_while() {
        let (stores, reservations) = (stores(), Reservations::default());
        let first = add(&stores, "a", 0);
        assert_eq!(user(&reservations, &stores, &first).await, None);
        remove(&stores, &first);
        reservations.release(&first).await;
        let second = add(&stores, "b", 5);
        // The last write of the deleted node may be on its way into the caches.
        assert_eq!(user(&reservations, &stores, &second).await.as_deref(), Some("a"));
        let left = ends(&reservations).await;
        assert!(is_about(left[0].1, RELEASE_DELAY), "not extended by others that ask: {left:?}");
        expire(&reservations).await;
        assert_eq!(user(&reservations, &stores, &second).await, None);
        assert_eq!(ends(&reservations).await, [("b".to_owned(), None)]);
    }

    #[tokio::test]
    async fn reservation_of_a_node_without_the_key_expires() {
        let (stores, reservations) = (stores(), Reservations::default());
        let first = add(&stores, "a", 0);
        assert_eq!(user(&reservations, &stores, &first).await, None);
        // Created again under the same name, with another key: nothing releases the reservation.
        remove(&stores, &first);
        add_with(&stores, "a", 1, &json!({ "signingKey": { "secret": { "secretName": "other" } } }));
        let second = add(&stores, "b", 5);
        assert_eq!(user(&reservations, &stores, &second).await.as_deref(), Some("a"));
        let left = ends(&reservations).await;
        assert!(is_about(left[0].1, RECREATION_DELAY), "{left:?}");
        expire(&reservations).await;
        assert_eq!(user(&reservations, &stores, &second).await, None);
    }

    #[tokio::test]
    async fn deleted_node_gets_no_reservation() {
        let (stores, reservations) = (stores(), Reservations::default());
        assert_eq!(user(&reservations, &stores, &key("gone")).await, None);
        assert_eq!(ends(&reservations).await, []);
    }
}
