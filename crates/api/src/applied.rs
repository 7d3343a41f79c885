//! Whether an object is as we want it, found without asking the API server.
//!
//! What we apply carries a hash of the whole wish. It tells a later process, which has no memory, what was wished for when
//! the object was last applied: what differs from that was done by somebody else.

use kube_core::Resource;
use serde::Serialize;
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

/// A hash over everything that is wanted of an object which is not signed yet.
pub fn hash(desired: &impl Serialize) -> serde_json::Result<String> {
    // The same types write their fields in the same order, so that the same wish gives the same text.
    let text = serde_json::to_vec(desired)?;
    Ok(Sha256::digest(text).iter().take(12).map(|byte| format!("{byte:02x}")).collect())
}

/// Writes the hash of a wish into it.
pub fn sign<K: Resource>(desired: &mut K, hash: &str) {
    let annotations = desired.meta_mut().annotations.get_or_insert_default();
    annotations.insert(APPLIED_HASH.into(), hash.into());
}

/// Whether an object was applied from the wish with this hash; whatever has become of it since.
#[must_use]
pub fn is_from<K: Resource>(live: &K, hash: &str) -> bool {
    let signed = live.meta().annotations.as_ref().and_then(|annotations| annotations.get(APPLIED_HASH));
    signed.map(String::as_str) == Some(hash)
}

/// How a live object stands to a wish, which has this hash.
pub fn standing<L>(live: &L, desired: &impl Serialize, hash: &str) -> serde_json::Result<Standing>
where
    L: Resource + Serialize,
{
    if !is_from(live, hash) {
        return Ok(Standing::OtherWish);
    }
    let same = contains(&serde_json::to_value(live)?, &serde_json::to_value(desired)?);
    Ok(if same { Standing::AsWished } else { Standing::Changed })
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
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;

    fn service(object: Value) -> Service {
        serde_json::from_value(object).unwrap()
    }

    /// A wish, its hash, and the object as it is right after it was applied.
    fn wish(object: Value) -> (Service, String, Service) {
        let desired = service(object);
        let (hash, mut live) = (hash(&desired).unwrap(), desired.clone());
        sign(&mut live, &hash);
        (desired, hash, live)
    }

    #[test]
    fn defaults_of_the_server_are_no_difference_and_everything_else_is() {
        let (desired, hash, live) = wish(
            json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 1 }], "selector": {} } }),
        );
        let mut live = json!(live);
        live["spec"] = json!({ "ports": [{ "port": 1, "protocol": "TCP" }], "type": "ClusterIP" });
        live["status"] = json!({ "loadBalancer": {} });
        assert_eq!(standing(&service(live.clone()), &desired, &hash).unwrap(), Standing::AsWished);
        for (path, value) in [
            ("/spec/ports/0/port", json!(2)),
            ("/spec/ports", json!([])),
            ("/spec/ports", json!([{ "port": 1 }, { "port": 2 }])),
            ("/metadata/name", json!("b")),
        ] {
            let mut other = live.clone();
            *other.pointer_mut(path).unwrap() = value;
            assert_eq!(standing(&service(other), &desired, &hash).unwrap(), Standing::Changed, "{path}");
        }
    }

    #[test]
    fn a_field_that_is_no_longer_wanted_is_a_difference() {
        let (before, before_hash, live) = wish(json!({ "metadata": { "labels": { "a": "1", "b": "2" } } }));
        let (now, now_hash, _) = wish(json!({ "metadata": { "labels": { "a": "1" } } }));
        assert_eq!(standing(&live, &before, &before_hash).unwrap(), Standing::AsWished);
        assert_eq!(standing(&live, &now, &now_hash).unwrap(), Standing::OtherWish, "b must be taken away");
    }

    #[test]
    fn what_nobody_signed_is_of_another_wish() {
        let (desired, hash, _) = wish(json!({ "metadata": { "name": "a" } }));
        assert_eq!(standing(&desired, &desired, &hash).unwrap(), Standing::OtherWish);
    }
}
