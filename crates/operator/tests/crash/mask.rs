//! Takes out of an object what differs from one run to the next for good reasons: identities, times, addresses. What is
//! masked is listed here and nowhere else, so that the list does not grow unseen.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Fields of metadata that say when and in which order things were written.
const BOOKKEEPING: [&str; 4] = ["resourceVersion", "creationTimestamp", "managedFields", "uid"];

/// Fields that hold an address, or a name made from one.
const ADDRESSES: [&str; 6] = ["podIP", "podIPs", "hostIP", "hostIPs", "nodeName", "containerID"];

/// The annotation with the hash of what was last applied, which names the namespace.
const APPLIED_HASH: &str = "outrigger.dev/applied-hash";

/// The task that ends the bootstrap.
const AWAIT_BOOTSTRAP: &str = "await-bootstrap-complete";

/// What is known of one run.
pub struct Mask {
    /// Texts that are its own, with what they are called in all runs.
    own: BTreeMap<String, String>,
}

impl Mask {
    /// A mask for what happened in a namespace.
    pub fn new(namespace: &str) -> Self {
        Self { own: BTreeMap::from([(namespace.to_owned(), "NAMESPACE".to_owned())]) }
    }

    /// Learns what an object, and what is derived from its text, is to be called. Where it is mentioned it is then told from
    /// others.
    pub fn learn(&mut self, name: &str, object: &Value) {
        let mut knows = |own: &Value, called: &str| {
            if let Some(own) = own.as_str().filter(|own| !own.is_empty()) {
                self.own.insert(own.to_owned(), format!("{called} of {name}"));
            }
        };
        knows(&object["metadata"]["uid"], "UID");
        knows(&object["metadata"]["annotations"][APPLIED_HASH], "APPLIED");
        let status = &object["status"];
        knows(&status["currentProxyConfigHash"], "PROXY CONFIG");
        // Where an update goes to is told from where it comes from, unless it has come there.
        knows(&status["currentRevision"], "FORMER REVISION");
        knows(&status["updateRevision"], "REVISION");
        let tasks = status["plan"]["tasks"].as_array();
        tasks.into_iter().flatten().for_each(|task| knows(&task["params"]["template"], "TEMPLATE"));
        let volumes = object["spec"]["volumes"].as_array();
        let token = |volume: &&Value| {
            volume["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"))
        };
        volumes.into_iter().flatten().filter(token).for_each(|volume| knows(&volume["name"], "TOKEN"));
    }

    /// An object without all that.
    pub fn object(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(tasks) = object.pointer_mut("/status/plan/tasks").and_then(Value::as_array_mut) {
            // The bootstrap's sidecar ends with it. When an operator was killed before it stored when it gave that sidecar a
            // task, nobody is left who knows.
            let end = tasks.iter().position(|task| task["type"] == AWAIT_BOOTSTRAP).unwrap_or_default();
            for task in &mut tasks[..end] {
                if let Some(task) = task.as_object_mut() {
                    task.remove("submittedAt");
                }
            }
        }
        self.apply(&object)
    }

    fn apply(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(name, _)| !ADDRESSES.contains(&name.as_str()));
                Value::Object(kept.map(|(name, value)| (self.text(name), self.field(name, value))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.apply(item)).collect()),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn field(&self, name: &str, value: &Value) -> Value {
        match value {
            Value::Object(metadata) if name == "metadata" => {
                let mut metadata: Map<String, Value> = metadata.clone();
                metadata.retain(|field, _| !BOOKKEEPING.contains(&field.as_str()));
                self.apply(&Value::Object(metadata))
            }
            other => self.apply(other),
        }
    }

    /// A text without all that.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (own, called) in &self.own {
            text = text.replace(own, called);
        }
        if is_time(&text) { "TIME".into() } else { without_ids(&text) }
    }
}

/// Whether it is a time as the API writes it.
fn is_time(text: &str) -> bool {
    text.parse::<k8s_openapi::jiff::Timestamp>().is_ok()
}

/// The text with random ids, which plans and tasks have, taken out.
fn without_ids(text: &str) -> String {
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
    text.char_indices().all(|(place, letter)| match place {
        8 | 13 | 18 | 23 => letter == '-',
        _ => letter.is_ascii_digit() || ('a'..='f').contains(&letter),
    })
}
