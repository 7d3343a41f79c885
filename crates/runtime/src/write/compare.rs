//! Whether an object already is as we want it, found without asking the API server.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::APPLIED_HASH;

/// A hash over everything that is wanted of an object.
pub(super) fn hash(desired: &Value) -> String {
    let mut desired = desired.clone();
    if let Some(annotations) = desired["metadata"]["annotations"].as_object_mut() {
        annotations.remove(APPLIED_HASH);
    }
    // The same types write their fields in the same order, so that the same wish gives the same text.
    Sha256::digest(desired.to_string()).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// True when `live` holds all of `desired`, and was last applied from the very same wish. The second is what finds a field
/// that is no longer wanted: it is in the object, and in no wish.
pub(super) fn holds(live: &Value, desired: &Value) -> bool {
    let hash = |object: &Value| object["metadata"]["annotations"][APPLIED_HASH].as_str().map(str::to_owned);
    hash(desired).is_some() && hash(live) == hash(desired) && contains(live, desired)
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
        let hash = hash(&object);
        object["metadata"]["annotations"][APPLIED_HASH] = json!(hash);
        object
    }

    #[test]
    fn defaults_of_the_server_are_no_difference_and_everything_else_is() {
        let desired =
            wish(json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 1 }], "none": null } }));
        let mut live = desired.clone();
        live["spec"] = json!({ "ports": [{ "port": 1, "protocol": "TCP" }], "type": "ClusterIP" });
        live["status"] = json!({ "x": 1 });
        assert!(holds(&live, &desired));
        for (path, value) in [
            ("/spec/ports/0/port", json!(2)),
            ("/spec/ports", json!([])),
            ("/spec/ports", json!([{ "port": 1 }, { "port": 2 }])),
            ("/metadata/name", json!("b")),
        ] {
            let mut other = live.clone();
            *other.pointer_mut(path).unwrap() = value;
            assert!(!holds(&other, &desired), "{path}");
        }
    }

    #[test]
    fn a_field_that_is_no_longer_wanted_is_a_difference() {
        let before = wish(json!({ "metadata": { "labels": { "a": "1", "b": "2" } } }));
        let now = wish(json!({ "metadata": { "labels": { "a": "1" } } }));
        assert!(holds(&before, &before));
        assert!(!holds(&before, &now), "b must be taken away");
    }
}
