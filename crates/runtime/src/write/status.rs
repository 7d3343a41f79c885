//! Status writes: at most once per reconcile, only if the status differs, and only onto the version that was read.

use kube::ResourceExt;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Error, NamespacedObject, WriteOutcome, Writer};

/// The right to write an object's status once. Writing consumes it, so that a reconcile that writes twice does not compile.
#[must_use]
pub struct StatusUpdate<'a, K> {
    writer: &'a Writer,
    object: &'a K,
}

impl<'a, K: NamespacedObject> StatusUpdate<'a, K> {
    pub(super) fn new(writer: &'a Writer, object: &'a K) -> Self {
        Self { writer, object }
    }

    /// Writes the status if it differs from the one that was read. Fails with [`WriteOutcome::Stale`] if the object has changed since.
    pub async fn write(self, status: &K::Status) -> Result<WriteOutcome<K>, Error>
    where
        K: HasStatus,
        K::Status: PartialEq + Serialize,
    {
        let current = self.object.status();
        if current == Some(status) {
            return Ok(self.writer.count(WriteOutcome::Unchanged));
        }
        // Different values may serialize to the same JSON: an absent and an empty list.
        let Some(diff) = diff(&serde_json::to_value(current)?, &serde_json::to_value(status)?) else {
            return Ok(self.writer.count(WriteOutcome::Unchanged));
        };
        let version = self.object.resource_version().ok_or(Error::MissingField("resourceVersion"))?;
        let patch =
            json!({ "metadata": { "resourceVersion": version, "uid": self.object.uid() }, "status": diff });
        self.writer.patch_status(self.object, &patch).await
    }
}

/// Returns the merge patch from `before` to `after`; `None` if they are equal. Removed fields are set to null.
fn diff(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (before, after) if before == after => None,
        (Value::Object(before), Value::Object(after)) => {
            let mut patch = Map::new();
            for name in before.keys().filter(|name| !after.contains_key(*name)) {
                patch.insert(name.clone(), Value::Null);
            }
            for (name, value) in after {
                if let Some(change) = diff(before.get(name).unwrap_or(&Value::Null), value) {
                    patch.insert(name.clone(), change);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        // A new object: nulls in it would delete fields instead of setting them, so they are left out.
        (_, Value::Object(after)) => {
            let set =
                after.iter().filter_map(|(name, value)| Some((name.clone(), diff(&Value::Null, value)?)));
            Some(Value::Object(set.collect()))
        }
        (_, after) => Some(after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_has_only_changed_fields_and_nulls_removed_ones() {
        let before = json!({ "phase": "Running", "plan": { "id": "x", "tasks": [1, 2] }, "image": "a" });
        let after = json!({ "phase": "Running", "plan": { "id": "y", "tasks": [1, 2] } });
        assert_eq!(diff(&before, &after), Some(json!({ "plan": { "id": "y" }, "image": null })));
        assert_eq!(diff(&after, &after), None);
        assert_eq!(diff(&Value::Null, &json!({ "a": null, "b": 1 })), Some(json!({ "b": 1 })));
        assert_eq!(diff(&json!({ "list": [1, 2] }), &json!({ "list": [1] })), Some(json!({ "list": [1] })));
    }
}
