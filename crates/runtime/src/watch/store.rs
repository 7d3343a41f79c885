//! Objects of a cache, deserialized or compressed.

use std::collections::HashMap;
use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::arena::{Arena, Slot};
use crate::key::Key;

/// Objects by key. Idle objects are kept as compressed JSON: deserialized, the objects of a thousand nodes take ten times as much
/// memory.
#[derive(Debug)]
pub(super) struct Store<K> {
    entries: HashMap<Key, Entry<K>>,
    arena: Arena,
}

/// An object that is deserialized, compressed, or both.
#[derive(Debug)]
struct Entry<K> {
    object: Option<Arc<K>>,
    compressed: Option<Compressed<K>>,
}

#[derive(Debug)]
struct Compressed<K> {
    slot: Slot,
    decompress: fn(&[u8]) -> Option<K>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { entries: HashMap::new(), arena: Arena::default() }
    }
}

impl<K> FromIterator<(Key, Arc<K>)> for Store<K> {
    fn from_iter<I: IntoIterator<Item = (Key, Arc<K>)>>(objects: I) -> Self {
        let entries =
            objects.into_iter().map(|(key, object)| (key, Entry { object: Some(object), compressed: None }));
        Self { entries: entries.collect(), arena: Arena::default() }
    }
}

impl<K> Store<K> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.entries.keys()
    }

    /// Returns an object and keeps it deserialized.
    pub(super) fn get(&mut self, key: &Key) -> Option<Arc<K>> {
        let entry = self.entries.get_mut(key)?;
        if entry.object.is_none() {
            entry.object = entry.read(&self.arena);
        }
        entry.object.clone()
    }

    /// Returns an object without keeping it deserialized.
    pub(super) fn peek(&self, key: &Key) -> Option<Arc<K>> {
        self.entries.get(key)?.read(&self.arena)
    }

    /// Inserts an object. Returns the one it replaces.
    pub(super) fn insert(&mut self, key: Key, object: Arc<K>) -> Option<Arc<K>> {
        let replaced = self.entries.insert(key, Entry { object: Some(object), compressed: None })?;
        self.free(replaced)
    }

    /// Removes and returns an object.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        let removed = self.entries.remove(key)?;
        self.free(removed)
    }

    /// Frees the space of an entry that is no longer in the map. Returns its object.
    fn free(&mut self, removed: Entry<K>) -> Option<Arc<K>> {
        let object = removed.read(&self.arena);
        if let Some(Compressed { slot, .. }) = removed.compressed {
            self.arena.free(&slot);
            if self.arena.needs_compaction() {
                let live =
                    self.entries.values_mut().filter_map(|entry| Some(&mut entry.compressed.as_mut()?.slot));
                self.arena.compact(live);
            }
        }
        object
    }
}

impl<K: Resource + PartialEq + Serialize + DeserializeOwned> Store<K> {
    /// Compresses an object until it is next read with [`get`](Self::get). An object that would not survive the round trip
    /// unchanged stays deserialized.
    pub(super) fn compress(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(object) = &entry.object else { return };
        if entry.compressed.is_none() {
            let bytes =
                compress(&**object).filter(|bytes| decompress::<K>(bytes).as_ref() == Some(&**object));
            entry.compressed = bytes
                .map(|bytes| Compressed { slot: self.arena.insert(&bytes), decompress: decompress::<K> });
        }
        if entry.compressed.is_some() {
            entry.object = None;
        }
    }
}

impl<K> Entry<K> {
    fn read(&self, arena: &Arena) -> Option<Arc<K>> {
        self.object.clone().or_else(|| {
            let Compressed { slot, decompress } = self.compressed.as_ref()?;
            decompress(arena.get(slot)).map(Arc::new)
        })
    }
}

fn compress<K: Serialize>(object: &K) -> Option<Vec<u8>> {
    let json = serde_json::to_vec(object).ok()?;
    Some(lz4_flex::block::compress_prepend_size(&json))
}

fn decompress<K: DeserializeOwned>(bytes: &[u8]) -> Option<K> {
    let json = lz4_flex::block::decompress_size_prepended(bytes).ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        Key { namespace: "ns".into(), name: name.into() }
    }

    fn map(name: &str, value: &str) -> ConfigMap {
        let data: std::collections::BTreeMap<_, _> =
            (0..50).map(|n| (format!("key-{n}"), format!("{value}, as long as others"))).collect();
        serde_json::from_value(json!({ "metadata": { "name": name }, "data": data })).unwrap()
    }

    #[test]
    fn compressed_object_is_smaller_and_reads_back_unchanged() {
        let (a, map) = (key("a"), map("a", "a value"));
        let mut store = Store::default();
        store.insert(a.clone(), Arc::new(map.clone()));
        store.compress(&a);
        let is_deserialized = |store: &Store<ConfigMap>| store.entries[&a].object.is_some();
        assert!(!is_deserialized(&store) && store.arena.len() < 700, "{} bytes", store.arena.len());
        assert_eq!(store.peek(&a).as_deref(), Some(&map));
        assert!(!is_deserialized(&store), "peek does not keep it deserialized");
        assert_eq!(store.get(&a).as_deref(), Some(&map));
        assert!(is_deserialized(&store));
    }

    #[test]
    fn space_of_replaced_and_removed_objects_is_reclaimed() {
        let mut store = Store::default();
        let names: Vec<Key> = (0..20).map(|n| key(&n.to_string())).collect();
        let mut peak = 0;
        for round in 0..10 {
            for name in &names {
                let replaced =
                    store.insert(name.clone(), Arc::new(map(&name.name, &format!("round {round}"))));
                let expected =
                    (round > 0).then(|| Arc::new(map(&name.name, &format!("round {}", round - 1))));
                assert_eq!(replaced, expected);
                store.compress(name);
            }
            peak = store.arena.len().max(peak);
        }
        assert!(peak < 20 * 700 * 2, "{peak} bytes");
        for name in &names[1..] {
            assert_eq!(store.remove(name), Some(Arc::new(map(&name.name, "round 9"))));
        }
        assert!(store.arena.len() < 2 * 700, "{} bytes", store.arena.len());
        assert_eq!(
            store.peek(&names[0]),
            Some(Arc::new(map("0", "round 9"))),
            "compaction keeps live objects"
        );
    }

    /// An object with a field that is not serialized.
    #[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Lossy {
        metadata: kube::core::ObjectMeta,
        #[serde(skip)]
        skipped: u8,
    }

    impl Resource for Lossy {
        type DynamicType = ();
        type Scope = kube::core::NamespaceResourceScope;

        fn kind((): &()) -> std::borrow::Cow<'_, str> {
            "Lossy".into()
        }

        fn group((): &()) -> std::borrow::Cow<'_, str> {
            "test".into()
        }

        fn version((): &()) -> std::borrow::Cow<'_, str> {
            "v1".into()
        }

        fn plural((): &()) -> std::borrow::Cow<'_, str> {
            "lossies".into()
        }

        fn meta(&self) -> &kube::core::ObjectMeta {
            &self.metadata
        }

        fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
            &mut self.metadata
        }
    }

    #[test]
    fn object_that_does_not_round_trip_is_not_compressed() {
        let object = Lossy { metadata: kube::core::ObjectMeta::default(), skipped: 7 };
        let mut store = Store::default();
        store.insert(key("a"), Arc::new(object));
        store.compress(&key("a"));
        assert_eq!(store.get(&key("a")).map(|object| object.skipped), Some(7));
    }
}
