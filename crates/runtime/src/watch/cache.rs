//! The cache of a watch: the latest known state of each object.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::store::Store;
use crate::key::Key;
use crate::sync;

/// The cache of a watch. Clones share it.
#[derive(Debug)]
pub struct Cache<K> {
    inner: Arc<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    objects: RwLock<Objects<K>>,
    /// Set once the initial list is complete.
    synced: watch::Sender<bool>,
}

#[derive(Debug)]
struct Objects<K> {
    valid: Store<K>,
    /// Objects that failed to deserialize, with the error.
    invalid: BTreeMap<Key, String>,
}

/// A list in progress. The cache is not changed until the list is complete.
#[derive(Debug)]
pub(super) struct Listing<K> {
    valid: HashMap<Key, Arc<K>>,
    invalid: BTreeMap<Key, String>,
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self { valid: HashMap::new(), invalid: BTreeMap::new() }
    }
}

/// A change of an object.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// The object was in the initial list.
    Listed(Arc<K>),
    /// The object was created or updated. The second field is the previous state, if it was cached.
    Applied(Arc<K>, Option<Arc<K>>),
    /// The object was deleted, or failed to deserialize. Holds its last known state.
    Deleted(Arc<K>),
}

impl<K> Change<K> {
    /// Returns the object in its last known state.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Listed(object) | Self::Applied(object, _) | Self::Deleted(object) => object,
        }
    }
}

/// The sync state of several caches.
#[derive(Clone, Debug, Default)]
pub struct SyncGroup {
    synced: Vec<watch::Receiver<bool>>,
}

impl SyncGroup {
    /// Adds a cache.
    pub fn add<K>(&mut self, cache: &Cache<K>) {
        self.synced.push(cache.inner.synced.subscribe());
    }

    /// Returns whether the initial list of every cache is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.iter().all(|synced| *synced.borrow())
    }

    /// Waits until the initial list of every cache is complete.
    pub async fn wait(&self) {
        for synced in &self.synced {
            // If the cache was dropped, its watch has exited, which shuts the process down.
            let _ = synced.clone().wait_for(|synced| *synced).await;
        }
    }
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<K: Resource> Cache<K> {
    pub(super) fn new() -> Self {
        let objects = RwLock::new(Objects { valid: Store::default(), invalid: BTreeMap::new() });
        Self { inner: Arc::new(Inner { objects, synced: watch::Sender::new(false) }) }
    }

    /// Returns the latest known state of an object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.write(|objects| objects.valid.get(key))
    }

    /// Returns all objects, unordered.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        self.all_matching(|_| true)
    }

    /// Returns all objects with matching keys, unordered.
    #[must_use]
    pub fn all_matching(&self, matches: impl Fn(&Key) -> bool) -> Vec<Arc<K>> {
        self.read(|objects| {
            let matching = objects.valid.keys().filter(|key| matches(key));
            matching.filter_map(|key| objects.valid.peek(key)).collect()
        })
    }

    /// Visits all objects, unordered. Compressed objects are decompressed one at a time.
    pub fn for_each(&self, mut visit: impl FnMut(&K)) {
        let keys: Vec<Key> = self.read(|objects| objects.valid.keys().cloned().collect());
        for object in keys.iter().filter_map(|key| self.read(|objects| objects.valid.peek(key))) {
            visit(&object);
        }
    }

    /// Compresses an idle object until it is next read with [`get`](Self::get).
    pub fn compress(&self, key: &Key)
    where
        K: PartialEq + Serialize + DeserializeOwned,
    {
        self.write(|objects| objects.valid.compress(key));
    }

    /// Returns the number of valid and of invalid objects.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.read(|objects| (objects.valid.len(), objects.invalid.len()))
    }

    /// Returns the objects that failed to deserialize, with their errors.
    #[must_use]
    pub fn invalid(&self) -> BTreeMap<Key, String> {
        self.read(|objects| objects.invalid.clone())
    }

    /// Returns whether the initial list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.inner.synced.borrow()
    }

    /// Waits until the initial list is complete. A reconcile that runs earlier would take objects for missing.
    pub async fn wait_synced(&self) {
        // Cannot fail: `self` owns the sender.
        let _ = self.inner.synced.subscribe().wait_for(|synced| *synced).await;
    }

    pub(super) fn apply(&self, object: K) -> Option<Change<K>> {
        let key = Key::from_object(&object);
        let object = Arc::new(object);
        let previous = self.write(|objects| {
            objects.invalid.remove(&key);
            objects.valid.insert(key, object.clone())
        });
        // A resumed watch may repeat known versions.
        let is_new = previous.as_ref().is_none_or(|previous| version(&**previous) != version(&*object));
        is_new.then_some(Change::Applied(object, previous))
    }

    pub(super) fn delete(&self, key: &Key) -> Option<Change<K>> {
        self.write(|objects| {
            objects.invalid.remove(key);
            objects.valid.remove(key)
        })
        .map(Change::Deleted)
    }

    /// Marks an object as invalid. Returns whether the error is new, and a deletion if the object was cached: its last valid
    /// state is dropped, because acting on it could revert the edit that made the object invalid.
    pub(super) fn mark_invalid(&self, key: Key, error: String) -> (bool, Option<Change<K>>) {
        self.write(|objects| {
            let deleted = objects.valid.remove(&key).map(Change::Deleted);
            (objects.invalid.insert(key, error.clone()).as_ref() != Some(&error), deleted)
        })
    }

    /// Replaces the content with a complete list. Returns the differences, including deletions that the watch missed.
    pub(super) fn replace(&self, listing: Listing<K>) -> Vec<Change<K>> {
        let Listing { valid, invalid } = listing;
        let is_initial = !self.is_synced();
        let previous = self.write(|objects| {
            objects.invalid = invalid;
            let valid = valid.iter().map(|(key, object)| (key.clone(), object.clone()));
            std::mem::replace(&mut objects.valid, valid.collect())
        });
        let mut changes = Vec::new();
        for (key, object) in valid {
            match previous.peek(&key) {
                None if is_initial => changes.push(Change::Listed(object)),
                Some(known) if version(&*known) == version(&*object) => {}
                known => changes.push(Change::Applied(object, known)),
            }
        }
        let listed =
            self.read(|objects| objects.valid.keys().cloned().collect::<std::collections::HashSet<_>>());
        let deleted = previous.keys().filter(|key| !listed.contains(*key));
        changes.extend(deleted.filter_map(|key| previous.peek(key)).map(Change::Deleted));
        self.inner.synced.send_replace(true);
        changes
    }

    fn read<T>(&self, access: impl FnOnce(&Objects<K>) -> T) -> T {
        access(&sync::read(&self.inner.objects))
    }

    fn write<T>(&self, access: impl FnOnce(&mut Objects<K>) -> T) -> T {
        access(&mut sync::write(&self.inner.objects))
    }
}

impl<K: Resource> Listing<K> {
    pub(super) fn insert(&mut self, object: K) {
        self.valid.insert(Key::from_object(&object), Arc::new(object));
    }

    pub(super) fn insert_invalid(&mut self, key: Key, error: String) {
        self.invalid.insert(key, error);
    }
}

/// Returns what identifies a version of an object. The UID tells a recreated object from its predecessor.
fn version<K: Resource>(object: &K) -> (Option<&str>, Option<&str>) {
    let meta = object.meta();
    (meta.uid.as_deref(), meta.resource_version.as_deref())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn map(name: &str, version: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn listing(objects: &[(&str, &str)]) -> Listing<ConfigMap> {
        let mut listing = Listing::default();
        for (name, version) in objects {
            listing.insert(map(name, version));
        }
        listing
    }

    fn describe(changes: &[Change<ConfigMap>]) -> Vec<String> {
        let mut described: Vec<String> = changes
            .iter()
            .map(|change| {
                let what = match change {
                    Change::Listed(_) => "listed",
                    Change::Applied(_, None) => "created",
                    Change::Applied(_, Some(_)) => "changed",
                    Change::Deleted(_) => "deleted",
                };
                format!("{what} {}", Key::from_object(&**change.object()))
            })
            .collect();
        described.sort();
        described
    }

    #[test]
    fn relist_finds_changes_that_the_watch_missed() {
        let cache = Cache::new();
        assert_eq!(
            describe(&cache.replace(listing(&[("a", "1"), ("b", "2"), ("c", "3")]))),
            ["listed a", "listed b", "listed c"]
        );
        let changes = cache.replace(listing(&[("a", "1"), ("b", "7"), ("d", "8")]));
        assert_eq!(describe(&changes), ["changed b", "created d", "deleted c"], "a is unchanged");
    }

    #[test]
    fn repeated_version_is_not_a_change() {
        let cache = Cache::new();
        cache.replace(listing(&[("a", "1")]));
        assert!(cache.apply(map("a", "1")).is_none());
        assert_eq!(describe(&[cache.apply(map("a", "2")).unwrap()]), ["changed a"]);
    }

    #[test]
    fn invalid_object_does_not_affect_others() {
        let cache = Cache::new();
        cache.replace(listing(&[("a", "1"), ("b", "2")]));
        let key = Key { namespace: String::new(), name: "a".into() };
        let (is_new, deleted) = cache.mark_invalid(key.clone(), "spec is a number".into());
        assert!(is_new && deleted.is_some());
        assert!(!cache.mark_invalid(key.clone(), "spec is a number".into()).0, "reported once");
        assert_eq!((cache.counts(), cache.get(&key).is_none()), ((1, 1), true));
        assert!(cache.apply(map("a", "3")).is_some(), "valid again");
        assert_eq!(cache.counts(), (2, 0));
    }

    #[test]
    fn compressed_object_behaves_like_any_other() {
        let cache = Cache::new();
        cache.replace(listing(&[("a", "1"), ("b", "2")]));
        let key = |name: &str| Key { namespace: String::new(), name: name.into() };
        for name in ["a", "b"] {
            cache.compress(&key(name));
        }
        assert_eq!(cache.all_matching(|key| key.name == "a"), [Arc::new(map("a", "1"))]);
        assert!(cache.apply(map("a", "1")).is_none(), "a known version is not a change");
        cache.compress(&key("a"));
        let Some(Change::Applied(_, previous)) = cache.apply(map("a", "3")) else {
            panic!("expected a change")
        };
        assert_eq!(previous, Some(Arc::new(map("a", "1"))));
        cache.compress(&key("a"));
        assert_eq!(describe(&cache.replace(listing(&[("a", "3")]))), ["deleted b"]);
        assert_eq!(cache.get(&key("a")), Some(Arc::new(map("a", "3"))));
    }
    #[tokio::test]
    async fn sync_group_waits_for_every_cache() {
        let (first, second) = (Cache::new(), Cache::new());
        let mut group = SyncGroup::default();
        group.add(&first);
        group.add(&second);
        first.replace(listing(&[]));
        assert!(!group.is_synced());
        let waiting = tokio::spawn({
            let group = group.clone();
            async move { group.wait().await }
        });
        second.replace(listing(&[]));
        waiting.await.unwrap();
        assert!(group.is_synced());
    }
}
