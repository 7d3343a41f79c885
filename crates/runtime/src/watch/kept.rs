//! Objects as a cache keeps them: read, or packed while nobody works with them.

use std::collections::HashMap;
use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::shelf::{Place, Shelf};
use crate::key::Key;

/// Objects by their keys. Those that rest are kept as compressed text: read, the objects of a thousand nodes take ten times as
/// much memory.
#[derive(Debug)]
pub(super) struct Store<K> {
    kept: HashMap<Key, Kept<K>>,
    shelf: Shelf,
}

/// An object: read, packed, or both.
#[derive(Debug)]
struct Kept<K> {
    read: Option<Arc<K>>,
    packed: Option<Packed<K>>,
}

#[derive(Debug)]
struct Packed<K> {
    place: Place,
    unpack: fn(&[u8]) -> Option<K>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { kept: HashMap::new(), shelf: Shelf::default() }
    }
}

impl<K> FromIterator<(Key, Arc<K>)> for Store<K> {
    fn from_iter<I: IntoIterator<Item = (Key, Arc<K>)>>(objects: I) -> Self {
        let kept = objects.into_iter().map(|(key, object)| (key, Kept { read: Some(object), packed: None }));
        Self { kept: kept.collect(), shelf: Shelf::default() }
    }
}

impl<K> Store<K> {
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.kept.keys()
    }

    /// An object, which is read from now on.
    pub(super) fn wake(&mut self, key: &Key) -> Option<Arc<K>> {
        let kept = self.kept.get_mut(key)?;
        if kept.read.is_none() {
            kept.read = kept.look(&self.shelf);
        }
        kept.read.clone()
    }

    /// An object; it rests on if it does.
    pub(super) fn look(&self, key: &Key) -> Option<Arc<K>> {
        self.kept.get(key)?.look(&self.shelf)
    }

    /// Keeps an object, and returns the one that it replaces.
    pub(super) fn insert(&mut self, key: Key, object: Arc<K>) -> Option<Arc<K>> {
        let before = self.kept.insert(key, Kept { read: Some(object), packed: None })?;
        self.put_off(before)
    }

    /// Keeps an object no more.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        let gone = self.kept.remove(key)?;
        self.put_off(gone)
    }

    fn put_off(&mut self, gone: Kept<K>) -> Option<Arc<K>> {
        let object = gone.look(&self.shelf);
        if let Some(Packed { place, .. }) = gone.packed {
            self.shelf.clear(&place);
            if self.shelf.is_half_empty() {
                self.shelf
                    .tidy(self.kept.values_mut().filter_map(|kept| Some(&mut kept.packed.as_mut()?.place)));
            }
        }
        object
    }
}

impl<K: Resource + PartialEq + Serialize + DeserializeOwned> Store<K> {
    /// Keeps an object as text until it is wanted again. One that would not be the same afterwards stays as it is.
    pub(super) fn rest(&mut self, key: &Key) {
        let Some(kept) = self.kept.get_mut(key) else { return };
        let Some(object) = &kept.read else { return };
        if kept.packed.is_none() {
            let text = pack(&**object).filter(|text| unpack::<K>(text).as_ref() == Some(&**object));
            kept.packed = text.map(|text| Packed { place: self.shelf.put(&text), unpack: unpack::<K> });
        }
        if kept.packed.is_some() {
            kept.read = None;
        }
    }
}

impl<K> Kept<K> {
    fn look(&self, shelf: &Shelf) -> Option<Arc<K>> {
        self.read.clone().or_else(|| {
            let Packed { place, unpack } = self.packed.as_ref()?;
            unpack(shelf.at(place)).map(Arc::new)
        })
    }
}

fn pack<K: Serialize>(object: &K) -> Option<Vec<u8>> {
    let text = serde_json::to_vec(object).ok()?;
    Some(lz4_flex::block::compress_prepend_size(&text))
}

fn unpack<K: DeserializeOwned>(text: &[u8]) -> Option<K> {
    let text = lz4_flex::block::decompress_size_prepended(text).ok()?;
    serde_json::from_slice(&text).ok()
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
    fn an_object_that_rests_is_the_same_when_it_is_wanted_and_smaller_until_then() {
        let (a, map) = (key("a"), map("a", "a value"));
        let mut store = Store::default();
        store.insert(a.clone(), Arc::new(map.clone()));
        store.rest(&a);
        let is_read = |store: &Store<ConfigMap>| store.kept[&a].read.is_some();
        assert!(!is_read(&store) && store.shelf.len() < 700, "{} bytes", store.shelf.len());
        assert_eq!(store.look(&a).as_deref(), Some(&map));
        assert!(!is_read(&store), "looking at it does not wake it");
        assert_eq!(store.wake(&a).as_deref(), Some(&map));
        assert!(is_read(&store));
    }

    #[test]
    fn what_is_replaced_or_gone_takes_no_room_for_long() {
        let mut store = Store::default();
        let names: Vec<Key> = (0..20).map(|n| key(&n.to_string())).collect();
        let mut most = 0;
        for round in 0..10 {
            for name in &names {
                let before = store.insert(name.clone(), Arc::new(map(&name.name, &format!("round {round}"))));
                let expected =
                    (round > 0).then(|| Arc::new(map(&name.name, &format!("round {}", round - 1))));
                assert_eq!(before, expected);
                store.rest(name);
            }
            most = store.shelf.len().max(most);
        }
        assert!(most < 20 * 700 * 2, "{most} bytes");
        for name in &names[1..] {
            assert_eq!(store.remove(name), Some(Arc::new(map(&name.name, "round 9"))));
        }
        assert!(store.shelf.len() < 2 * 700, "{} bytes", store.shelf.len());
        assert_eq!(store.look(&names[0]), Some(Arc::new(map("0", "round 9"))), "what stays is what it was");
    }

    /// An object whose text does not say all of it.
    #[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Forgetful {
        metadata: kube::core::ObjectMeta,
        #[serde(skip)]
        unsaid: u8,
    }

    impl Resource for Forgetful {
        type DynamicType = ();
        type Scope = kube::core::NamespaceResourceScope;

        fn kind((): &()) -> std::borrow::Cow<'_, str> {
            "Forgetful".into()
        }

        fn group((): &()) -> std::borrow::Cow<'_, str> {
            "test".into()
        }

        fn version((): &()) -> std::borrow::Cow<'_, str> {
            "v1".into()
        }

        fn plural((): &()) -> std::borrow::Cow<'_, str> {
            "forgetfuls".into()
        }

        fn meta(&self) -> &kube::core::ObjectMeta {
            &self.metadata
        }

        fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
            &mut self.metadata
        }
    }

    #[test]
    fn an_object_that_would_not_come_back_the_same_does_not_rest() {
        let object = Forgetful { metadata: kube::core::ObjectMeta::default(), unsaid: 7 };
        let mut store = Store::default();
        store.insert(key("a"), Arc::new(object));
        store.rest(&key("a"));
        assert_eq!(store.wake(&key("a")).map(|object| object.unsaid), Some(7));
    }
}
