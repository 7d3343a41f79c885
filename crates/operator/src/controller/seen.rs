//! Objects as they were last seen: by a watch, or in the API server's answer to our own write, whichever is newer. A decision
//! on a view that lacks our own last write would be made twice.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use runtime::Key;
use runtime::own_writes::{OwnWrites, Sight};
use runtime::watch::Cache;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Objects of one kind as they were last seen.
pub(super) struct Seen<K> {
    /// One of all namespaces, or one for each that is looked after.
    caches: Vec<Cache<K>>,
    own: Arc<OwnWrites>,
    /// What we wrote and the watch has not shown yet.
    written: Mutex<HashMap<Key, Arc<K>>>,
    /// What we deleted and the watch still shows, by uid.
    going: Mutex<HashMap<Key, String>>,
}

impl<K> Seen<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    pub(super) fn new(caches: Vec<Cache<K>>, own: Arc<OwnWrites>) -> Self {
        Self { caches, own, written: Mutex::default(), going: Mutex::default() }
    }

    /// Every object whose key is wanted, in no order.
    pub(super) fn all_of(&self, is_wanted: impl Fn(&Key) -> bool) -> Vec<Arc<K>> {
        self.caches.iter().flat_map(|cache| cache.all_of(&is_wanted)).collect()
    }

    /// Nobody works with an object for now.
    pub(super) fn rest(&self, key: &Key)
    where
        K: PartialEq + Serialize,
    {
        self.caches.iter().for_each(|cache| cache.rest(key));
    }

    /// True once the first lists are complete.
    pub(super) fn is_synced(&self) -> bool {
        self.caches.iter().all(Cache::is_synced)
    }

    /// Waits for that.
    pub(super) async fn synced(&self) {
        for cache in &self.caches {
            cache.synced().await;
        }
    }

    /// We wrote this; what the API server answered.
    pub(super) fn wrote(&self, object: K) -> Arc<K> {
        self.own.wrote(&object);
        let object = Arc::new(object);
        lock(&self.written).insert(Key::of(&*object), object.clone());
        object
    }

    /// We deleted this.
    pub(super) fn deleted(&self, object: &K) {
        lock(&self.going).insert(Key::of(object), object.uid().unwrap_or_default());
    }

    /// An object, if there is one. Only when the watch is long overdue is the API server asked.
    pub(super) async fn get(&self, client: &Client, key: &Key) -> kube::Result<Option<Arc<K>>> {
        let cached = self.caches.iter().find_map(|cache| cache.get(key));
        let newest = match self.own.sight(key, cached.as_deref()) {
            Sight::Current => {
                lock(&self.written).remove(key);
                cached
            }
            Sight::Behind => lock(&self.written).get(key).cloned().or(cached),
            Sight::Lost => {
                let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
                let read = api.get_opt(&key.name).await?;
                self.forget(key);
                read.map(|object| self.wrote(object))
            }
        };
        Ok(self.or_going(key, newest))
    }

    /// Nothing is remembered of an object that is gone for good.
    pub(super) fn forget(&self, key: &Key) {
        self.own.forget(key);
        lock(&self.written).remove(key);
    }

    /// What we have deleted is on its way out, although the watch still shows it as it was.
    fn or_going(&self, key: &Key, seen: Option<Arc<K>>) -> Option<Arc<K>> {
        let mut going = lock(&self.going);
        let Some(uid) = going.get(key).cloned() else { return seen };
        match seen {
            Some(object) if object.uid().as_deref() == Some(&uid) => Some(self::going(object)),
            other => {
                going.remove(key);
                other
            }
        }
    }
}

/// An object that is on its way out.
pub(super) fn going<K: Resource + Clone>(object: Arc<K>) -> Arc<K> {
    let mut object = Arc::unwrap_or_clone(object);
    let now = || Time(k8s_openapi::jiff::Timestamp::now());
    object.meta_mut().deletion_timestamp.get_or_insert_with(now);
    Arc::new(object)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
