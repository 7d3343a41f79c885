//! The newest known version of each object: from a watch, or from the response to the operator's own write, whichever is
//! newer. A decision on a view without the operator's own last write would repeat it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use runtime::Key;
use runtime::own_writes::{Freshness, OwnWrites};
use runtime::sync::lock;
use runtime::watch::{Cache, SyncGroup};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Objects of one kind.
pub(super) struct ObjectStore<K> {
    /// One cache for all namespaces, or one for each watched namespace.
    caches: Vec<Cache<K>>,
    own_writes: Arc<OwnWrites>,
    /// Written objects that the watch has not delivered yet.
    written: Mutex<HashMap<Key, Arc<K>>>,
    /// UIDs of deleted objects that the watch still delivers.
    deleted: Mutex<HashMap<Key, String>>,
}

impl<K> ObjectStore<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    pub(super) fn new(caches: Vec<Cache<K>>, own_writes: Arc<OwnWrites>) -> Self {
        Self { caches, own_writes, written: Mutex::default(), deleted: Mutex::default() }
    }

    /// Returns the cached objects whose key matches, in no particular order.
    pub(super) fn list(&self, matches: impl Fn(&Key) -> bool) -> Vec<Arc<K>> {
        self.caches.iter().flat_map(|cache| cache.all_matching(&matches)).collect()
    }

    /// Visits the cached objects. Compressed ones are decompressed one at a time.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&K)) {
        self.caches.iter().for_each(|cache| cache.for_each(&mut visit));
    }

    /// Lets the caches hold an object compressed until it is needed again.
    pub(super) fn compress(&self, key: &Key)
    where
        K: PartialEq + Serialize,
    {
        self.caches.iter().for_each(|cache| cache.compress(key));
    }

    /// Adds the caches to a group.
    pub(super) fn add_to(&self, group: &mut SyncGroup) {
        self.caches.iter().for_each(|cache| group.add(cache));
    }

    /// Records the object that the API server returned for a write.
    pub(super) fn record_write(&self, object: K) -> Arc<K> {
        self.own_writes.record(&object);
        let object = Arc::new(object);
        lock(&self.written).insert(Key::from_object(&*object), object.clone());
        object
    }

    /// Records that the operator deleted an object.
    pub(super) fn record_deletion(&self, object: &K) {
        lock(&self.deleted).insert(Key::from_object(object), object.uid().unwrap_or_default());
    }

    /// Returns the newest known version of an object. Reads it from the API server only when the watch is long overdue.
    pub(super) async fn get(&self, client: &Client, key: &Key) -> kube::Result<Option<Arc<K>>> {
        let cached = self.caches.iter().find_map(|cache| cache.get(key));
        let newest = match self.own_writes.freshness(key, cached.as_deref()) {
            Freshness::Current => {
                lock(&self.written).remove(key);
                cached
            }
            Freshness::Behind => lock(&self.written).get(key).cloned().or(cached),
            Freshness::TimedOut => {
                let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
                let read = api.get_opt(&key.name).await?;
                self.forget(key);
                read.map(|object| self.record_write(object))
            }
        };
        Ok(self.apply_deletion(key, newest))
    }

    /// Drops what is kept for a deleted object.
    pub(super) fn forget(&self, key: &Key) {
        self.own_writes.forget(key);
        lock(&self.written).remove(key);
    }

    /// Marks an object that the operator deleted as terminating, although the watch still delivers it unchanged.
    fn apply_deletion(&self, key: &Key, object: Option<Arc<K>>) -> Option<Arc<K>> {
        let mut deleted = lock(&self.deleted);
        let Some(uid) = deleted.get(key).cloned() else { return object };
        match object {
            Some(object) if object.uid().as_deref() == Some(&uid) => Some(mark_terminating(object)),
            other => {
                deleted.remove(key);
                other
            }
        }
    }
}

/// Sets the deletion timestamp of an object.
pub(super) fn mark_terminating<K: Resource + Clone>(object: Arc<K>) -> Arc<K> {
    let mut object = Arc::unwrap_or_clone(object);
    let now = || Time(k8s_openapi::jiff::Timestamp::now());
    object.meta_mut().deletion_timestamp.get_or_insert_with(now);
    Arc::new(object)
}
