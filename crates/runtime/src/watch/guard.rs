//! Deserializes each object of a watch separately.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ObjectMeta, PartialObjectMeta};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object, or the reason why it failed to deserialize, so that one invalid object does not fail the whole list.
///
/// It parses the raw JSON text. `kube::core::DeserializeGuard` builds and copies a tree of every object for its error path, which
/// is hardly ever taken.
#[derive(Clone, Debug)]
pub struct DeserializeGuard<K>(pub(super) Result<K, InvalidObject>);

/// An object that failed to deserialize.
#[derive(Clone, Debug)]
pub(super) struct InvalidObject {
    pub(super) error: String,
    pub(super) metadata: ObjectMeta,
}

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for DeserializeGuard<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let text = without_managed_fields(text.get());
        let object = serde_json::from_str(&text).map(Ok).or_else(|error| {
            // An object without valid metadata cannot be identified and fails the whole watch.
            let meta: PartialObjectMeta<K> = serde_json::from_str(&text).map_err(D::Error::custom)?;
            Ok(Err(InvalidObject { error: error.to_string(), metadata: meta.metadata }))
        });
        object.map(Self)
    }
}

impl<K> DeserializeGuard<K> {
    /// Returns the object, or why it failed to deserialize.
    pub(crate) fn into_result(self) -> Result<K, String> {
        self.0.map_err(|invalid| invalid.error)
    }
}

/// Removes `managedFields` from the JSON text of an object: it is half of the text, costs most of the parsing and is never read.
fn without_managed_fields(text: &str) -> Cow<'_, str> {
    // As API servers write it. Inside of a string its quotes would be escaped.
    const KEY: &str = r#""managedFields":["#;
    let Some(start) = text.find(KEY).filter(|start| !text[..*start].ends_with('\\')) else {
        return text.into();
    };
    let list = start + KEY.len() - 1;
    let Some(length) = list_length(&text[list..]) else { return text.into() };
    let (before, after) = (&text[..start], &text[list + length..]);
    let (before, after) = match after.strip_prefix(',') {
        Some(after) => (before, after),
        None => (before.strip_suffix(',').unwrap_or(before), after),
    };
    [before, after].concat().into()
}

/// Returns the length of the JSON list at the start of `text`.
fn list_length(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' => depth += 1,
            b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            _ => {}
        }
    }
    None
}

impl<K: Resource> Resource for DeserializeGuard<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &K::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &K::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &K::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &K::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    const GOOD: &str = r#"{"metadata":{"name":"good"},"data":{"a":"b"}}"#;
    const BAD: &str = r#"{"metadata":{"name":"bad"},"data":7}"#;

    #[test]
    fn invalid_object_in_list_keeps_its_name_and_spares_the_others() {
        let list =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{}},"items":[{BAD},{GOOD}]}}"#);
        let list: ObjectList<DeserializeGuard<ConfigMap>> = serde_json::from_str(&list).unwrap();
        let [bad, good] = &list.items[..] else { panic!("{list:?}") };
        assert_eq!(bad.meta().name.as_deref(), Some("bad"));
        assert!(bad.0.as_ref().is_err_and(|bad| bad.error.contains("invalid type")), "{bad:?}");
        assert!(good.0.as_ref().is_ok_and(|good| good.data.is_some()), "{good:?}");
    }

    #[test]
    fn invalid_object_in_event_does_not_fail_the_event() {
        for (object, is_valid) in [(GOOD, true), (BAD, false)] {
            let event = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
            let event: WatchEvent<DeserializeGuard<ConfigMap>> = serde_json::from_str(&event).unwrap();
            let WatchEvent::Modified(object) = event else { panic!("{event:?}") };
            assert_eq!(object.0.is_ok(), is_valid, "{object:?}");
        }
    }

    #[test]
    fn managed_fields_are_removed_and_everything_else_is_kept() {
        let managed = r#""managedFields":[{"fieldsV1":{"f:data":{"k:[\"]\"]":{}}},"manager":"a]\\"}]"#;
        let tricky = r#""annotations":{"said":"\"managedFields\":[ is a key"}"#;
        for (metadata, rest) in [
            (format!(r#"{{"name":"a",{managed},"uid":"u"}}"#), r#"{"name":"a","uid":"u"}"#.to_owned()),
            (format!(r#"{{"name":"a",{managed}}}"#), r#"{"name":"a"}"#.to_owned()),
            (format!(r#"{{{managed}}}"#), "{}".to_owned()),
            (format!(r#"{{{tricky}}}"#), format!(r#"{{{tricky}}}"#)),
            (format!(r#"{{{tricky},{managed}}}"#), format!(r#"{{{tricky}}}"#)),
            (r#"{"managedFields":[1"#.to_owned(), r#"{"managedFields":[1"#.to_owned()),
        ] {
            let text = format!(r#"{{"metadata":{metadata},"data":{{"a":"b"}}}}"#);
            assert_eq!(without_managed_fields(&text), format!(r#"{{"metadata":{rest},"data":{{"a":"b"}}}}"#));
        }
        let text = format!(r#"{{"metadata":{{"name":"a",{managed}}},"data":{{"a":"b"}}}}"#);
        let map = serde_json::from_str::<DeserializeGuard<ConfigMap>>(&text).unwrap().into_result().unwrap();
        assert_eq!((map.metadata.managed_fields, map.data.map(|data| data.len())), (None, Some(1)));
    }

    #[test]
    fn value_without_metadata_is_an_error() {
        assert!(serde_json::from_str::<DeserializeGuard<ConfigMap>>("7").is_err());
    }
}
