//! What a watch has seen: the newest known state of each object that can be read.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::kept::Store;
use crate::key::Key;

/// A cache, shared by all who read it.
#[derive(Debug)]
pub struct Cache<K> {
    inner: Arc<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    objects: RwLock<Objects<K>>,
    /// True once the first list is complete.
    synced: watch::Sender<bool>,
}

#[derive(Debug)]
struct Objects<K> {
    good: Store<K>,
    /// Objects that cannot be read, and why.
    broken: BTreeMap<Key, String>,
}

/// A listing of every object, while it comes in. The cache stays as it was until it is complete.
#[derive(Debug)]
pub(super) struct Listing<K> {
    good: HashMap<Key, Arc<K>>,
    broken: BTreeMap<Key, String>,
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self { good: HashMap::new(), broken: BTreeMap::new() }
    }
}

/// What happened to an object.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It was there when the watch began.
    Listed(Arc<K>),
    /// It was made or changed. The state before, if it was known.
    Changed(Arc<K>, Option<Arc<K>>),
    /// It is gone.
    Gone(Arc<K>),
}

impl<K> Change<K> {
    /// The object, in its last known state.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Listed(object) | Self::Changed(object, _) | Self::Gone(object) => object,
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
        let objects = RwLock::new(Objects { good: Store::default(), broken: BTreeMap::new() });
        Self { inner: Arc::new(Inner { objects, synced: watch::Sender::new(false) }) }
    }

    /// An object in its newest known state.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.write(|objects| objects.good.wake(key))
    }

    /// All objects, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        self.all_of(|_| true)
    }

    /// All objects whose keys are wanted, in no order.
    #[must_use]
    pub fn all_of(&self, is_wanted: impl Fn(&Key) -> bool) -> Vec<Arc<K>> {
        self.read(|objects| {
            let wanted = objects.good.keys().filter(|key| is_wanted(key));
            wanted.filter_map(|key| objects.good.look(key)).collect()
        })
    }

    /// Shows all objects, one after the other, in no order. Those at rest are not all read at once.
    pub fn each(&self, mut show: impl FnMut(&K)) {
        let keys: Vec<Key> = self.read(|objects| objects.good.keys().cloned().collect());
        for object in keys.iter().filter_map(|key| self.read(|objects| objects.good.look(key))) {
            show(&object);
        }
    }

    /// Nobody works with an object for now: until it is wanted again, it takes as little memory as it can.
    pub fn rest(&self, key: &Key)
    where
        K: PartialEq + Serialize + DeserializeOwned,
    {
        self.write(|objects| objects.good.rest(key));
    }

    /// How many objects can be read, and how many cannot.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        self.read(|objects| (objects.good.len(), objects.broken.len()))
    }

    /// Objects that cannot be read, and why.
    #[must_use]
    pub fn broken(&self) -> BTreeMap<Key, String> {
        self.read(|objects| objects.broken.clone())
    }

    /// True once the first list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.inner.synced.borrow()
    }

    /// Waits until the first list is complete. Decisions made before it would be made on half a world.
    pub async fn synced(&self) {
        // The sender lives as long as we do.
        let _ = self.inner.synced.subscribe().wait_for(|synced| *synced).await;
    }

    pub(super) fn applied(&self, object: K) -> Option<Change<K>> {
        let key = Key::of(&object);
        let object = Arc::new(object);
        let before = self.write(|objects| {
            objects.broken.remove(&key);
            objects.good.insert(key, object.clone())
        });
        // A watch that is resumed may tell again what is known.
        let news = before.as_ref().is_none_or(|before| version(&**before) != version(&*object));
        news.then_some(Change::Changed(object, before))
    }

    pub(super) fn deleted(&self, key: &Key) -> Option<Change<K>> {
        self.write(|objects| {
            objects.broken.remove(key);
            objects.good.remove(key)
        })
        .map(Change::Gone)
    }

    /// An object cannot be read; true when that is news. Its last good state is forgotten: acting on it would undo
    /// whatever its author has just written.
    pub(super) fn cannot_read(&self, key: Key, why: String) -> (bool, Option<Change<K>>) {
        self.write(|objects| {
            let gone = objects.good.remove(&key).map(Change::Gone);
            (objects.broken.insert(key, why.clone()).as_ref() != Some(&why), gone)
        })
    }

    /// A listing is complete: what is new or changed, and what has gone while nobody looked.
    pub(super) fn listed(&self, listing: Listing<K>) -> Vec<Change<K>> {
        let Listing { good, broken } = listing;
        let first = !self.is_synced();
        let before = self.write(|objects| {
            objects.broken = broken;
            let good = good.iter().map(|(key, object)| (key.clone(), object.clone()));
            std::mem::replace(&mut objects.good, good.collect())
        });
        let mut changes = Vec::new();
        for (key, object) in good {
            match before.look(&key) {
                None if first => changes.push(Change::Listed(object)),
                Some(known) if version(&*known) == version(&*object) => {}
                known => changes.push(Change::Changed(object, known)),
            }
        }
        let now = self.read(|objects| objects.good.keys().cloned().collect::<std::collections::HashSet<_>>());
        let gone = before.keys().filter(|key| !now.contains(*key));
        changes.extend(gone.filter_map(|key| before.look(key)).map(Change::Gone));
        self.inner.synced.send_replace(true);
        changes
    }

    fn read<T>(&self, access: impl FnOnce(&Objects<K>) -> T) -> T {
        access(&self.inner.objects.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, access: impl FnOnce(&mut Objects<K>) -> T) -> T {
        access(&mut self.inner.objects.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Resource> Listing<K> {
    pub(super) fn good(&mut self, object: K) {
        self.good.insert(Key::of(&object), Arc::new(object));
    }

    pub(super) fn broken(&mut self, key: Key, why: String) {
        self.broken.insert(key, why);
    }
}

/// What changes with every write of an object, and with its being made anew.
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
            listing.good(map(name, version));
        }
        listing
    }

    fn told(changes: &[Change<ConfigMap>]) -> Vec<String> {
        let mut told: Vec<String> = changes
            .iter()
            .map(|change| {
                let what = match change {
                    Change::Listed(_) => "listed",
                    Change::Changed(_, None) => "made",
                    Change::Changed(_, Some(_)) => "changed",
                    Change::Gone(_) => "gone",
                };
                format!("{what} {}", Key::of(&**change.object()))
            })
            .collect();
        told.sort();
        told
    }

    #[test]
    fn what_happened_while_a_watch_was_away_is_found_by_the_next_listing() {
        let cache = Cache::new();
        assert_eq!(
            told(&cache.listed(listing(&[("a", "1"), ("b", "2"), ("c", "3")]))),
            ["listed a", "listed b", "listed c"]
        );
        let changes = cache.listed(listing(&[("a", "1"), ("b", "7"), ("d", "8")]));
        assert_eq!(
            told(&changes),
            ["changed b", "gone c", "made d"],
            "and a, which is as it was, is left alone"
        );
    }

    #[test]
    fn an_event_that_tells_nothing_new_is_no_change() {
        let cache = Cache::new();
        cache.listed(listing(&[("a", "1")]));
        assert!(cache.applied(map("a", "1")).is_none());
        assert_eq!(told(&[cache.applied(map("a", "2")).unwrap()]), ["changed a"]);
    }

    #[test]
    fn an_object_that_cannot_be_read_harms_only_itself() {
        let cache = Cache::new();
        cache.listed(listing(&[("a", "1"), ("b", "2")]));
        let key = Key { namespace: String::new(), name: "a".into() };
        let (news, gone) = cache.cannot_read(key.clone(), "spec is a number".into());
        assert!(news && gone.is_some());
        assert!(!cache.cannot_read(key.clone(), "spec is a number".into()).0, "told once");
        assert_eq!((cache.len(), cache.get(&key).is_none()), ((1, 1), true));
        assert!(cache.applied(map("a", "3")).is_some(), "and comes back when it was mended");
        assert_eq!(cache.len(), (2, 0));
    }

    #[test]
    fn an_object_at_rest_is_found_compared_and_told_as_any_other() {
        let cache = Cache::new();
        cache.listed(listing(&[("a", "1"), ("b", "2")]));
        let key = |name: &str| Key { namespace: String::new(), name: name.into() };
        for name in ["a", "b"] {
            cache.rest(&key(name));
        }
        assert_eq!(cache.all_of(|key| key.name == "a"), [Arc::new(map("a", "1"))]);
        assert!(cache.applied(map("a", "1")).is_none(), "what is known is no news");
        cache.rest(&key("a"));
        let Some(Change::Changed(_, before)) = cache.applied(map("a", "3")) else { panic!("it changed") };
        assert_eq!(before, Some(Arc::new(map("a", "1"))));
        cache.rest(&key("a"));
        assert_eq!(told(&cache.listed(listing(&[("a", "3")]))), ["gone b"]);
        assert_eq!(cache.get(&key("a")), Some(Arc::new(map("a", "3"))));
    }
}
