//! Whether an object is as we want it, found without asking the API server.
//!
//! What we apply carries a hash of the whole wish. It tells a later process, which has no memory, what was wished for when
//! the object was last applied: what differs from that was done by somebody else.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::names::annotation::APPLIED_HASH;

/// How an object stands to a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was applied from this very wish, and holds all of it.
    AsWished,
    /// It was applied from this very wish, and somebody has changed it since.
    Changed,
    /// It was applied from another wish, or by somebody else.
    OtherWish,
}

/// A hash over everything that is wanted of an object.
#[must_use]
pub fn hash(desired: &Value) -> String {
    let mut desired = desired.clone();
    if let Some(annotations) = desired["metadata"]["annotations"].as_object_mut() {
        annotations.remove(APPLIED_HASH);
    }
    // The same types write their fields in the same order, so that the same wish gives the same text.
    Sha256::digest(desired.to_string()).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the hash of a wish into it.
pub fn sign(desired: &mut Value) {
    let hash = hash(desired);
    desired["metadata"]["annotations"][APPLIED_HASH] = hash.into();
}

/// How a live object stands to a signed wish.
#[must_use]
pub fn standing(live: &Value, desired: &Value) -> Standing {
    let hash = |object: &Value| object["metadata"]["annotations"][APPLIED_HASH].as_str().map(str::to_owned);
    match (hash(live), hash(desired)) {
        (Some(live_hash), Some(desired_hash)) if live_hash == desired_hash => {
            if contains(live, desired) {
                Standing::AsWished
            } else {
                Standing::Changed
            }
        }
        _ => Standing::OtherWish,
    }
}

/// True when every field of `part` is in `whole`. Lists must have the same length: an element more is a difference.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| match whole.get(name) {
                Some(present) => contains(present, value),
                // What the API server does not keep: our types write nothing as null, and drop what is empty.
                None => is_nothing(value),
            })
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        (whole, part) => whole == part,
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wish(mut object: Value) -> Value {
        sign(&mut object);
        object
    }

    #[test]
    fn defaults_of_the_server_are_no_difference_and_everything_else_is() {
        let desired =
            wish(json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 1 }], "none": null } }));
        let mut live = desired.clone();
        live["spec"] = json!({ "ports": [{ "port": 1, "protocol": "TCP" }], "type": "ClusterIP" });
        live["status"] = json!({ "x": 1 });
        assert_eq!(standing(&live, &desired), Standing::AsWished);
        for (path, value) in [
            ("/spec/ports/0/port", json!(2)),
            ("/spec/ports", json!([])),
            ("/spec/ports", json!([{ "port": 1 }, { "port": 2 }])),
            ("/metadata/name", json!("b")),
        ] {
            let mut other = live.clone();
            *other.pointer_mut(path).unwrap() = value;
            assert_eq!(standing(&other, &desired), Standing::Changed, "{path}");
        }
    }

    #[test]
    fn a_field_that_is_no_longer_wanted_is_a_difference() {
        let before = wish(json!({ "metadata": { "labels": { "a": "1", "b": "2" } } }));
        let now = wish(json!({ "metadata": { "labels": { "a": "1" } } }));
        assert_eq!(standing(&before, &before), Standing::AsWished);
        assert_eq!(standing(&before, &now), Standing::OtherWish, "b must be taken away");
    }

    #[test]
    fn what_nobody_signed_is_of_another_wish() {
        let now = wish(json!({ "metadata": { "name": "a" } }));
        assert_eq!(standing(&json!({ "metadata": { "name": "a" } }), &now), Standing::OtherWish);
    }
}
