//! Objects of a watch, each read by itself.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ObjectMeta, PartialObjectMeta};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object, or why it cannot be read: one that cannot must not take the others with it.
///
/// It is read from its own text. kube's guard reads each object into a tree first and copies that, to have something to go back
/// to, which is hardly ever needed.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub(super) Result<K, Unreadable>);

/// An object that cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    /// Why.
    pub(super) error: String,
    /// Which.
    pub(super) metadata: ObjectMeta,
}

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let text = without_managed_fields(text.get());
        let object = serde_json::from_str(&text).map(Ok).or_else(|error| {
            // Without a name nobody can be told about it, and the watch as a whole is broken.
            let meta: PartialObjectMeta<K> = serde_json::from_str(&text).map_err(D::Error::custom)?;
            Ok(Err(Unreadable { error: error.to_string(), metadata: meta.metadata }))
        });
        object.map(Self)
    }
}

impl<K> Guarded<K> {
    /// The object, or why it cannot be read.
    pub(crate) fn read(self) -> Result<K, String> {
        self.0.map_err(|unreadable| unreadable.error)
    }
}

/// The text of an object without who wrote which field of it: half of the text, most of the work to read it, and read by
/// nobody here.
fn without_managed_fields(text: &str) -> Cow<'_, str> {
    // As API servers write it. In a string its quotes would be escaped.
    const KEY: &str = r#""managedFields":["#;
    let Some(begin) = text.find(KEY).filter(|begin| !text[..*begin].ends_with('\\')) else {
        return text.into();
    };
    let list = begin + KEY.len() - 1;
    let Some(length) = length_of_list(&text[list..]) else { return text.into() };
    let (before, after) = (&text[..begin], &text[list + length..]);
    let (before, after) = match after.strip_prefix(',') {
        Some(after) => (before, after),
        None => (before.strip_suffix(',').unwrap_or(before), after),
    };
    [before, after].concat().into()
}

/// How long the list is that a text begins with.
fn length_of_list(text: &str) -> Option<usize> {
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

impl<K: Resource> Resource for Guarded<K> {
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
        self.0.as_ref().map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
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
    fn an_object_that_cannot_be_read_has_its_name_and_takes_no_other_with_it() {
        let list =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{}},"items":[{BAD},{GOOD}]}}"#);
        let list: ObjectList<Guarded<ConfigMap>> = serde_json::from_str(&list).unwrap();
        let [bad, good] = &list.items[..] else { panic!("{list:?}") };
        assert_eq!(bad.meta().name.as_deref(), Some("bad"));
        assert!(bad.0.as_ref().is_err_and(|bad| bad.error.contains("invalid type")), "{bad:?}");
        assert!(good.0.as_ref().is_ok_and(|good| good.data.is_some()), "{good:?}");
    }

    #[test]
    fn the_same_holds_for_events() {
        for (object, readable) in [(GOOD, true), (BAD, false)] {
            let event = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
            let event: WatchEvent<Guarded<ConfigMap>> = serde_json::from_str(&event).unwrap();
            let WatchEvent::Modified(object) = event else { panic!("{event:?}") };
            assert_eq!(object.0.is_ok(), readable, "{object:?}");
        }
    }

    #[test]
    fn who_wrote_which_field_is_not_read_and_everything_else_is() {
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
        let read = serde_json::from_str::<Guarded<ConfigMap>>(&text).unwrap().read().unwrap();
        assert_eq!((read.metadata.managed_fields, read.data.map(|data| data.len())), (None, Some(1)));
    }

    #[test]
    fn what_has_no_name_cannot_be_told_of() {
        assert!(serde_json::from_str::<Guarded<ConfigMap>>("7").is_err());
    }
}
