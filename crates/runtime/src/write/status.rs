//! The status of an object: written at most once in a pass, only when it differs, and only onto what was read.

use kube::ResourceExt;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Error, Outcome, Writer, Written};

/// The right to write one object's status once. Writing uses it up, so that a pass that writes twice does not compile.
#[must_use]
pub struct Pass<'a, K> {
    writer: &'a Writer,
    object: &'a K,
}

impl<'a, K: Written> Pass<'a, K> {
    pub(super) fn new(writer: &'a Writer, object: &'a K) -> Self {
        Self { writer, object }
    }

    /// Writes the status, if it differs from what was read and nobody has written the object since.
    pub async fn record(self, status: &K::Status) -> Result<Outcome<K>, Error>
    where
        K: HasStatus,
        K::Status: PartialEq + Serialize,
    {
        let before = self.object.status();
        if before == Some(status) {
            return Ok(self.writer.count(Outcome::Unchanged));
        }
        // Two that read differently may be written alike: what is not there, and what is empty.
        let Some(change) = difference(&serde_json::to_value(before)?, &serde_json::to_value(status)?) else {
            return Ok(self.writer.count(Outcome::Unchanged));
        };
        let version = self.object.resource_version().ok_or(Error::Lacks("a version"))?;
        let patch =
            json!({ "metadata": { "resourceVersion": version, "uid": self.object.uid() }, "status": change });
        self.writer.patch_status(self.object, &patch).await
    }
}

/// The merge patch that makes one value of another; nothing when they are the same. What is gone is named as null, or it
/// would stay for ever.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (before, after) if before == after => None,
        (Value::Object(before), Value::Object(after)) => {
            let mut change = Map::new();
            for name in before.keys().filter(|name| !after.contains_key(*name)) {
                change.insert(name.clone(), Value::Null);
            }
            for (name, value) in after {
                if let Some(different) = difference(before.get(name).unwrap_or(&Value::Null), value) {
                    change.insert(name.clone(), different);
                }
            }
            (!change.is_empty()).then_some(Value::Object(change))
        }
        // A null in a patch takes a field away, and an object in it is merged: neither says what is meant here.
        (_, Value::Object(after)) => {
            let kept = after
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), difference(&Value::Null, value)?)));
            Some(Value::Object(kept.collect()))
        }
        (_, after) => Some(after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_sent_and_what_is_gone_is_named() {
        let before = json!({ "phase": "Running", "plan": { "id": "x", "tasks": [1, 2] }, "image": "a" });
        let after = json!({ "phase": "Running", "plan": { "id": "y", "tasks": [1, 2] } });
        assert_eq!(difference(&before, &after), Some(json!({ "plan": { "id": "y" }, "image": null })));
        assert_eq!(difference(&after, &after), None);
        assert_eq!(difference(&Value::Null, &json!({ "a": null, "b": 1 })), Some(json!({ "b": 1 })));
        assert_eq!(
            difference(&json!({ "list": [1, 2] }), &json!({ "list": [1] })),
            Some(json!({ "list": [1] }))
        );
    }
}
