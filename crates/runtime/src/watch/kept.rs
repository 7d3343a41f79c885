//! An object as a cache keeps it: read, or packed while nobody works with it.

use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An object of a cache. One that rests is kept as compressed text: read, the objects of a thousand nodes take ten times as
/// much memory, in many small pieces that keep the allocator from giving back what lies between them.
#[derive(Debug)]
pub(super) struct Kept<K> {
    read: Option<Arc<K>>,
    packed: Option<Packed<K>>,
}

#[derive(Debug)]
struct Packed<K> {
    text: Box<[u8]>,
    unpack: fn(&[u8]) -> Option<K>,
}

impl<K> Kept<K> {
    pub(super) fn new(object: Arc<K>) -> Self {
        Self { read: Some(object), packed: None }
    }

    /// The object, which is read from now on.
    pub(super) fn wake(&mut self) -> Option<Arc<K>> {
        if self.read.is_none() {
            self.read = self.unpack().map(Arc::new);
        }
        self.read.clone()
    }

    /// The object; it rests on if it does.
    pub(super) fn look(&self) -> Option<Arc<K>> {
        self.read.clone().or_else(|| self.unpack().map(Arc::new))
    }

    fn unpack(&self) -> Option<K> {
        let Packed { text, unpack } = self.packed.as_ref()?;
        unpack(text)
    }
}

impl<K: Resource + PartialEq + Serialize + DeserializeOwned> Kept<K> {
    /// Keeps the object as text until it is wanted again. One that would not be the same afterwards stays as it is.
    pub(super) fn rest(&mut self) {
        let Some(object) = &self.read else { return };
        if self.packed.is_none() {
            self.packed =
                pack(&**object).filter(|packed| (packed.unpack)(&packed.text).as_ref() == Some(&**object));
        }
        if self.packed.is_some() {
            self.read = None;
        }
    }
}

fn pack<K: Serialize + DeserializeOwned>(object: &K) -> Option<Packed<K>> {
    let text = serde_json::to_vec(object).ok()?;
    let text = lz4_flex::block::compress_prepend_size(&text).into_boxed_slice();
    Some(Packed { text, unpack: unpack::<K> })
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

    #[test]
    fn an_object_that_rests_is_the_same_when_it_is_wanted_and_smaller_until_then() {
        let data: std::collections::BTreeMap<_, _> =
            (0..50).map(|n| (format!("key-{n}"), "a value as long as others".to_owned())).collect();
        let map: ConfigMap =
            serde_json::from_value(json!({ "metadata": { "name": "a" }, "data": data })).unwrap();
        let mut kept = Kept::new(Arc::new(map.clone()));
        kept.rest();
        let packed = kept.packed.as_ref().map(|packed| packed.text.len()).unwrap();
        assert!(kept.read.is_none() && packed < 700, "{packed} bytes");
        assert_eq!(kept.look().as_deref(), Some(&map));
        assert!(kept.read.is_none(), "looking at it does not wake it");
        assert_eq!(kept.wake().as_deref(), Some(&map));
        assert!(kept.read.is_some());
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
        let mut kept = Kept::new(Arc::new(object));
        kept.rest();
        assert_eq!(kept.wake().map(|object| object.unsaid), Some(7));
    }
}
