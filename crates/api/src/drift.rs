//! Detects drift without a request to the API server.
//!
//! Applied objects carry a hash of the desired object. It lets a restarted process tell whether the object was applied from the
//! same desired state; any difference since then was made by others.

use kube_core::Resource;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::names::annotation::APPLIED_HASH;

/// How a live object relates to the desired object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It was applied from this desired object and matches it.
    InSync,
    /// It was applied from this desired object and was modified since.
    Modified,
    /// It was applied from another desired object, or not by us.
    Outdated,
}

/// Returns the hash of a desired object that is not annotated yet.
pub fn hash(desired: &impl Serialize) -> serde_json::Result<String> {
    // Deterministic: a type always serializes its fields in the same order.
    let json = serde_json::to_vec(desired)?;
    Ok(Sha256::digest(json).iter().take(12).map(|byte| format!("{byte:02x}")).collect())
}

/// Sets the annotation with the hash.
pub fn annotate<K: Resource>(desired: &mut K, hash: &str) {
    let annotations = desired.meta_mut().annotations.get_or_insert_default();
    annotations.insert(APPLIED_HASH.into(), hash.into());
}

/// Returns whether an object was applied from the desired object with this hash, even if it was modified since.
#[must_use]
pub fn is_applied_from<K: Resource>(live: &K, hash: &str) -> bool {
    let applied = live.meta().annotations.as_ref().and_then(|annotations| annotations.get(APPLIED_HASH));
    applied.map(String::as_str) == Some(hash)
}

/// Compares a live object with the desired object, which has this hash.
pub fn detect<L>(live: &L, desired: &impl Serialize, hash: &str) -> serde_json::Result<Drift>
where
    L: Resource + Serialize,
{
    if !is_applied_from(live, hash) {
        return Ok(Drift::Outdated);
    }
    let matches = contains(&serde_json::to_value(live)?, &serde_json::to_value(desired)?);
    Ok(if matches { Drift::InSync } else { Drift::Modified })
}

/// Returns whether every field that `desired` sets has the same value in `live`. Other fields of `live` belong to others.
#[must_use]
pub fn is_contained(live: &impl Serialize, desired: &impl Serialize) -> bool {
    match (serde_json::to_value(live), serde_json::to_value(desired)) {
        (Ok(live), Ok(desired)) => contains(&live, &desired),
        _ => false,
    }
}

/// Returns whether every field of `part` is in `whole`. Lists must have the same length.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| match whole.get(name) {
                Some(present) => contains(present, value),
                // The API server does not store nulls and empty values.
                None => is_empty(value),
            })
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        (whole, part) => whole == part,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
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

    /// Returns a desired object, its hash, and the live object right after it was applied.
    fn desired_and_live(object: Value) -> (Service, String, Service) {
        let desired = service(object);
        let (hash, mut live) = (hash(&desired).unwrap(), desired.clone());
        annotate(&mut live, &hash);
        (desired, hash, live)
    }

    #[test]
    fn server_defaults_are_in_sync_and_other_changes_are_drift() {
        let (desired, hash, live) = desired_and_live(
            json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 1 }], "selector": {} } }),
        );
        let mut live = json!(live);
        live["spec"] = json!({ "ports": [{ "port": 1, "protocol": "TCP" }], "type": "ClusterIP" });
        live["status"] = json!({ "loadBalancer": {} });
        assert_eq!(detect(&service(live.clone()), &desired, &hash).unwrap(), Drift::InSync);
        for (path, value) in [
            ("/spec/ports/0/port", json!(2)),
            ("/spec/ports", json!([])),
            ("/spec/ports", json!([{ "port": 1 }, { "port": 2 }])),
            ("/metadata/name", json!("b")),
        ] {
            let mut other = live.clone();
            *other.pointer_mut(path).unwrap() = value;
            assert_eq!(detect(&service(other), &desired, &hash).unwrap(), Drift::Modified, "{path}");
        }
    }

    #[test]
    fn removed_field_is_drift() {
        let (old, old_hash, live) =
            desired_and_live(json!({ "metadata": { "labels": { "a": "1", "b": "2" } } }));
        let (new, new_hash, _) = desired_and_live(json!({ "metadata": { "labels": { "a": "1" } } }));
        assert_eq!(detect(&live, &old, &old_hash).unwrap(), Drift::InSync);
        assert_eq!(detect(&live, &new, &new_hash).unwrap(), Drift::Outdated, "b must be removed");
    }

    #[test]
    fn object_without_hash_is_outdated() {
        let (desired, hash, _) = desired_and_live(json!({ "metadata": { "name": "a" } }));
        assert_eq!(detect(&desired, &desired, &hash).unwrap(), Drift::Outdated);
    }
}
