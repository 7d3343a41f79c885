//! Masks values that legitimately differ between runs: ids, times, addresses. Everything that is masked is listed here.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Metadata fields that depend on the time and order of writes.
const METADATA: [&str; 4] = ["resourceVersion", "creationTimestamp", "managedFields", "uid"];

/// Fields with an address, or a name derived from one.
const ADDRESSES: [&str; 6] = ["podIP", "podIPs", "hostIP", "hostIPs", "nodeName", "containerID"];

/// The annotation with the hash of the applied object, which includes the namespace.
const APPLIED_HASH: &str = "outrigger.dev/applied-hash";

/// The task that ends the bootstrap.
const AWAIT_BOOTSTRAP: &str = "await-bootstrap-complete";

/// The mask of one run.
pub struct Mask {
    /// Values of this run, and their placeholders.
    placeholders: BTreeMap<String, String>,
}

impl Mask {
    /// Creates a mask for a namespace.
    pub fn new(namespace: &str) -> Self {
        Self { placeholders: BTreeMap::from([(namespace.to_owned(), "NAMESPACE".to_owned())]) }
    }

    /// Adds placeholders for the values of an object, so that references to it stay distinguishable.
    pub fn add_object(&mut self, name: &str, object: &Value) {
        let mut add = |value: &Value, placeholder: &str| {
            if let Some(value) = value.as_str().filter(|value| !value.is_empty()) {
                self.placeholders.insert(value.to_owned(), format!("{placeholder} of {name}"));
            }
        };
        add(&object["metadata"]["uid"], "UID");
        add(&object["metadata"]["annotations"][APPLIED_HASH], "APPLIED");
        let status = &object["status"];
        add(&status["currentProxyConfigHash"], "PROXY CONFIG");
        // The update revision wins when both revisions are equal.
        add(&status["currentRevision"], "PREVIOUS REVISION");
        add(&status["updateRevision"], "REVISION");
        let tasks = status["plan"]["tasks"].as_array();
        tasks.into_iter().flatten().for_each(|task| add(&task["params"]["template"], "TEMPLATE"));
        let volumes = object["spec"]["volumes"].as_array();
        let token = |volume: &&Value| {
            volume["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"))
        };
        volumes.into_iter().flatten().filter(token).for_each(|volume| add(&volume["name"], "TOKEN"));
    }

    /// Returns the masked object.
    pub fn mask_object(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(tasks) = object.pointer_mut("/status/plan/tasks").and_then(Value::as_array_mut) {
            // The bootstrap sidecar is deleted with its pod. If the operator was killed before it stored the submission time of a
            // bootstrap task, that time is lost.
            let end = tasks.iter().position(|task| task["type"] == AWAIT_BOOTSTRAP).unwrap_or_default();
            for task in &mut tasks[..end] {
                if let Some(task) = task.as_object_mut() {
                    task.remove("submittedAt");
                }
            }
        }
        self.mask_value(&object)
    }

    fn mask_value(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(name, _)| !ADDRESSES.contains(&name.as_str()));
                Value::Object(
                    fields
                        .map(|(name, value)| (self.mask_text(name), self.mask_field(name, value)))
                        .collect(),
                )
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.mask_value(item)).collect()),
            Value::String(text) => Value::String(self.mask_text(text)),
            other => other.clone(),
        }
    }

    fn mask_field(&self, name: &str, value: &Value) -> Value {
        match value {
            Value::Object(metadata) if name == "metadata" => {
                let mut metadata: Map<String, Value> = metadata.clone();
                metadata.retain(|field, _| !METADATA.contains(&field.as_str()));
                self.mask_value(&Value::Object(metadata))
            }
            other => self.mask_value(other),
        }
    }

    /// Returns the masked text.
    pub fn mask_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (value, placeholder) in &self.placeholders {
            text = text.replace(value, placeholder);
        }
        if is_time(&text) { "TIME".into() } else { mask_ids(&text) }
    }
}

/// True for a timestamp of the Kubernetes API.
fn is_time(text: &str) -> bool {
    text.parse::<k8s_openapi::jiff::Timestamp>().is_ok()
}

/// Replaces the random ids of plans and tasks.
fn mask_ids(text: &str) -> String {
    let mut rest = text;
    let mut masked = String::new();
    while let Some(first) = rest.chars().next() {
        match rest.get(..36) {
            Some(id) if is_id(id) => {
                masked.push_str("ID");
                rest = &rest[36..];
            }
            _ => {
                masked.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    masked
}

fn is_id(text: &str) -> bool {
    text.char_indices().all(|(index, c)| match index {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_digit() || ('a'..='f').contains(&c),
    })
}
